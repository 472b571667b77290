"""Exponents from log-log lines, with an interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm, t

LEVEL = 0.9


class Slope(NamedTuple):
    """d log y / d log x and its interval; NaN where it is not determined."""

    slope: float
    low: float
    high: float


def fit_slope(x: ArrayLike, y: ArrayLike, se: ArrayLike | None = None) -> Slope:
    """The line log y = a + b log x by least squares: b and a 90 % interval.

    se: standard errors of y; weights are (y / se)^2, the inverse variances of log y. None, or an error
    of 0 anywhere: equal weights.

    Two variances of b are formed, and the interval takes the wider one: that of the stated errors
    (normal quantile), and that of the residuals about the line (Student's t, n - 2 degrees of freedom).
    So for exact values the interval says how straight the line is, not how noisy. [choice]

    Points with x <= 0, y <= 0 or anything not finite are left out. Under two points the slope is NaN;
    the interval is NaN for two points without errors.
    """
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    error = np.zeros_like(ys) if se is None else np.asarray(se, dtype=float)
    use = np.isfinite(xs) & np.isfinite(ys) & np.isfinite(error) & (xs > 0) & (ys > 0)
    xs, ys, error = np.log(xs[use]), ys[use], error[use]
    n = len(xs)
    if n < 2 or np.ptp(xs) == 0:
        return Slope(np.nan, np.nan, np.nan)
    known = bool((error > 0).all())
    weight = (ys / error) ** 2 if known else np.ones(n)
    centred = xs - np.average(xs, weights=weight)
    spread = float((weight * centred**2).sum())
    logs = np.log(ys)
    slope = float((weight * centred * logs).sum()) / spread
    residual = logs - np.average(logs, weights=weight) - slope * centred
    halves = []
    if known:
        halves.append(float(norm.ppf(0.5 + LEVEL / 2)) * spread**-0.5)
    if n > 2:
        variance = float((weight * residual**2).sum()) / (n - 2) / spread
        halves.append(float(t.ppf(0.5 + LEVEL / 2, n - 2)) * variance**0.5)
    half = max(halves, default=np.nan)
    return Slope(slope, slope - half, slope + half)


def local_slopes(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    """d log y / d log x at each point by central differences, one-sided at the ends.

    x ascending, at least two points. NaN where y or a neighbour is 0 (or below).
    """
    ys = np.asarray(y, dtype=float)
    logs = np.log(ys, out=np.full_like(ys, np.nan), where=ys > 0)
    return np.asarray(np.gradient(logs, np.log(np.asarray(x, dtype=float))))
