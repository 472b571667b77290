"""Controllers: what holds an update back when ratios or gradients say that the policy runs away.

ess_lr  lr x sqrt(min(1, ESS/N)), ESS = (sum_i r_i)^2 / sum_i r_i^2 over the N trajectory ratios of the
        batch, without cap or clamp                               arXiv 2602.17616 (VCPO) [paper]
gac     Asynchronous training shows gradients that repeat the one before, synchronous ones are nearly
        orthogonal: arXiv 2603.01501 [paper]. Its thresholds are not public. Ours [choice]: with
        c = cos(g_t, g_{t-1}) > c_max, the component of g_t along g_{t-1} is reduced until the cosine is
        c_max; other gradients pass. g_{t-1} is the gradient as it was before any reduction.

They wrap any objective: they see the batch and the gradient, never the loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from driftlaw.objectives import Batch
from driftlaw.objectives.ratios import token_log_ratio


def ess_share(batch: Batch) -> float:
    """ESS/N of the batch's trajectory ratios, in (0, 1]; computed on log-ratios, so never overflowing.

    Infinite log-ratios count as 1e6 nats.
    """
    log_ratio = token_log_ratio(batch).detach().double().sum(1)
    log_ratio = log_ratio.nan_to_num(nan=math.nan, posinf=1e6, neginf=-1e6)
    log_ess = 2 * log_ratio.logsumexp(0) - (2 * log_ratio).logsumexp(0)
    return float(log_ess.exp()) / len(log_ratio)


def lr_factor(batch: Batch) -> float:
    """ess_lr's factor on the learning rate, in (0, 1]."""
    return math.sqrt(min(1.0, ess_share(batch)))


def cosine(
    gradient: Sequence[torch.Tensor], previous: Sequence[torch.Tensor] | None
) -> float | None:
    """Cosine of two gradients given by parameter; None without a previous one or where one is 0."""
    if previous is None:
        return None
    dot = sum(
        float((g.double() * p.double()).sum()) for g, p in zip(gradient, previous, strict=True)
    )
    norms = math.sqrt(_square(gradient)) * math.sqrt(_square(previous))
    # Rounding must not leave the range.
    return max(-1.0, min(1.0, dot / norms)) if norms > 0 else None


def reduce_alignment(
    gradient: Sequence[torch.Tensor], previous: Sequence[torch.Tensor], max_cosine: float
) -> None:
    """Subtract in place from `gradient` the multiple of `previous` that leaves cosine `max_cosine`.

    Nothing happens where the cosine is not larger. With p = previous/|previous|, g = g_perp + s p and
    k = c_max / sqrt(1 - c_max^2), the new component along p is k |g_perp|.
    """
    found = cosine(gradient, previous)
    if found is None or not found > max_cosine:
        return
    size, length = math.sqrt(_square(gradient)), math.sqrt(_square(previous))
    across = size * math.sqrt(max(0.0, 1 - found**2))
    wanted = across * max_cosine / math.sqrt(1 - max_cosine**2)
    for g, p in zip(gradient, previous, strict=True):
        g.sub_(p, alpha=(found * size - wanted) / length)


def _square(tensors: Sequence[torch.Tensor]) -> float:
    return sum(float((t.double() ** 2).sum()) for t in tensors)
