"""Final scores with intervals over seeds: the numbers of `score_by_delay` and of the report.

The mean over the n seeds of a cell (method, D, I, lr) has Student's interval

    mean +- t_{n-1} s / sqrt(n)

Stable and collapsed runs count, a collapsed one with the last score it had: leaving it out would
make a method look better the more of its runs collapse. Censored runs had not reached the horizon
and failed runs have no score; both are counted beside it. [choice]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

LEVEL = 0.90


@dataclass(frozen=True)
class Mean:
    """A mean over n seeds; `half` (half-width of its interval) is None without an interval.

    There is none with n < 2, and none where all values are equal: they tell nothing of a spread.
    """

    mean: float
    half: float | None
    n: int

    @property
    def excludes_zero(self) -> bool:
        return self.half is not None and abs(self.mean) > self.half


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Mean | None:
    """Mean and Student interval of (n,) values; None when there are none."""
    x = np.asarray(values, dtype=float)
    if not len(x):
        return None
    spread = float(x.std(ddof=1)) if len(x) > 1 else 0.0
    if spread == 0.0:
        return Mean(float(x.mean()), None, len(x))
    half = float(student_t.ppf(0.5 + level / 2, len(x) - 1)) * spread / np.sqrt(len(x))
    return Mean(float(x.mean()), float(half), len(x))


def decided(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs whose last score is a result: stable or collapsed, with a finite score."""
    return runs[runs["status"].isin(["stable", "collapsed"]) & runs["final_score"].notna()]


def paired_difference(a: pd.DataFrame, b: pd.DataFrame, level: float = LEVEL) -> Mean | None:
    """Mean over the seeds that both have of a's minus b's final score; None without common seeds.

    Pairing by seed takes out what the seed's prompts and samples do to both.
    """
    x, y = (decided(runs).set_index("seed")["final_score"] for runs in (a, b))
    if not (x.index.is_unique and y.index.is_unique):
        raise ValueError("paired difference: a seed occurs twice in a cell")
    seeds = sorted(set(x.index) & set(y.index))
    return mean_interval([x[s] - y[s] for s in seeds], level)
