"""avg@k with an error clustered by prompt, and the unbiased pass@k."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


def avg_at_k(scores_pn: ArrayLike) -> tuple[float, float]:
    """(avg@k, standard error) from P x n scores in [0, 1].

    avg@k is the expected mean score of k samples a prompt; it does not depend on k, and all n samples
    estimate it. The error is clustered by prompt: s / sqrt(P) with s the sample standard deviation of
    prompt means, so that n samples of one prompt do not count as n observations. NaN with one prompt.
    """
    scores = np.asarray(scores_pn, dtype=np.float64)
    if scores.ndim != 2 or scores.size == 0:
        raise ValueError(f"scores must be prompts x samples, not shape {scores.shape}")
    means = scores.mean(axis=1)
    se = float(means.std(ddof=1) / math.sqrt(len(means))) if len(means) > 1 else math.nan
    return float(means.mean()), se


def pass_at_k(correct_pn: ArrayLike, k: int) -> tuple[float, float]:
    """(pass@k, standard error clustered by prompt) from P x n booleans.

    Unbiased: 1 - C(n - c, k) / C(n, k) for a prompt with c of n correct (arXiv 2107.03374). Raises
    ValueError if n < k: a biased number is not returned.
    """
    correct = np.asarray(correct_pn, dtype=bool)
    if correct.ndim != 2 or correct.size == 0:
        raise ValueError(f"correct must be prompts x samples, not shape {correct.shape}")
    n = correct.shape[1]
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} needs 1 <= k <= n, and n = {n} samples were drawn")
    total = math.comb(n, k)
    per_prompt = np.array([1 - math.comb(n - int(c), k) / total for c in correct.sum(axis=1)])
    return avg_at_k(per_prompt[:, None])
