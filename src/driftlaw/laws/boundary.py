"""The stability boundary: how the largest stable learning rate falls with staleness.

    P(collapse by the horizon) = logit^-1(u0 + u1 log lr + u2 log S)

is one half on  eta_max(S) = exp(-u0/u1) * S^e,  e = -u2/u1,  the boundary exponent of S.

[paper] e = -1: S * eta is constant on the boundary (LAWS, arXiv 2607.01083).
[derived] a study shorter than the budget sees e = 0 instead. The boundary thus belongs to a
horizon, and one fit should hold runs of one horizon.
[choice] the logistic form, and Firth's penalty, because a sharp boundary separates the outcomes.

Fitted on runs that are stable or collapsed, with S >= 2: S = 1 has no lag and estimates eta_0
instead. Failed runs tell nothing; censored runs had not reached the horizon, so their outcome is
unknown. Both are counted.

Interval: profile penalised likelihood. For fixed e the model is beta = u0 (1, 0, 0) + u1 (0, 1,
-e), so D(e) = 2 (l*(beta_hat) - max l*(beta | e)) is compared with the chi-square quantile on one
degree of freedom. Both tails end in one and the same model, u1 = 0 (the rate does not matter), so e
is bounded exactly when that model is rejected. [derived]

That interval takes the runs as noisy about a smooth boundary. Where every S separates sharply on a
coarse grid of lr, repeated seeds bring no information but narrow it all the same, and it can miss
the truth: `consistent_exponents`, what the brackets alone allow, stands beside it. [derived]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import chi2

from driftlaw.laws.brackets import (
    Bracket,
    ExponentSet,
    brackets,
    consistent_exponents,
    count_statuses,
)
from driftlaw.laws.exponent import Exponent, check_level, exponent
from driftlaw.laws.firth import FirthConvergenceError, FirthFit, Floats, firth_logistic

METHOD = (
    "Firth-penalised logistic in log lr and log S, stable and collapsed runs with S >= 2; "
    "profile penalised-likelihood interval"
)
# Log-odds per standard deviation of log lr that are zero to rounding: e would divide by them.
MIN_SLOPE = 1e-6
# Outward steps; reached only if the profile does not rise towards its limit.
MAX_DOUBLINGS = 40


class BoundaryCounts(TypedDict):
    """Runs by status, all S; `fitted` entered the logistic; `S_below_2` are stable or collapsed
    with S = 1."""

    stable: int
    collapsed: int
    censored: int
    failed: int
    fitted: int
    S_below_2: int


class BoundaryCoefficients(TypedDict):
    """u0, u1, u2, log-odds per natural log of lr and of S (updates)."""

    intercept: float
    log_lr: float
    log_S: float


class Boundary(TypedDict):
    """The boundary of one group of runs.

    S_exponent: e; null, with the `reason`, when it is not identified. An unbounded interval is an
    estimate without bounds, and a reason too.
    consistent_exponents: what the brackets at S >= 2 alone allow (`brackets.consistent_exponents`).
    """

    form: str
    S_exponent: Exponent | None
    consistent_exponents: ExponentSet | None
    coefficients: BoundaryCoefficients | None
    reason: str | None
    method: str
    brackets: list[Bracket]
    counts: BoundaryCounts


def fit_boundary(df: pd.DataFrame, level: float = 0.90) -> Boundary:
    """The free-exponent boundary of one group of runs, with what the runs show per S beside it.

    df: (runs, columns) validated run table (`driftlaw.laws.run_table.validate`). level: coverage of
        the interval.

    Never raises for a table that does not identify the exponent: S_exponent is then null and
    `reason` one line. Raises ValueError for a level outside (0, 1).
    """
    check_level(level)
    decided = df["status"].isin(["stable", "collapsed"])
    runs = df[decided & (df["S"] >= 2)]
    by_status = count_statuses(df)
    by_s = brackets(df)
    result: Boundary = {
        "form": "free",
        "S_exponent": None,
        "consistent_exponents": consistent_exponents([row for row in by_s if row["S"] >= 2]),
        "coefficients": None,
        "reason": _not_identified(runs),
        "method": METHOD,
        "brackets": by_s,
        "counts": {
            "stable": by_status["stable"],
            "collapsed": by_status["collapsed"],
            "censored": by_status["censored"],
            "failed": by_status["failed"],
            "fitted": len(runs),
            "S_below_2": int((decided & (df["S"] < 2)).sum()),
        },
    }
    if result["reason"] is not None:
        return result

    x = np.column_stack([np.log(runs["lr"].to_numpy(float)), np.log(runs["S"].to_numpy(float))])
    y = np.asarray(runs["status"] == "collapsed", dtype=float)
    try:
        fit = firth_logistic(x, y)
        u0, u1, u2 = (float(u) for u in fit.coef)
        result["coefficients"] = {"intercept": u0, "log_lr": u1, "log_S": u2}
        if u1 * x[:, 0].std() < MIN_SLOPE:
            result["reason"] = f"collapse does not become likelier with lr (u1 = {u1:.3g})"
            return result
        interval = _profile_interval(x, y, fit, level)
    except FirthConvergenceError as error:
        result["reason"] = str(error)
        return result
    low, high = (None, None) if interval is None else interval
    result["S_exponent"] = exponent(-u2 / u1, low, high, level)
    if interval is None:
        result["reason"] = (
            f"the {level:g} profile interval is unbounded: no dependence on lr is not rejected"
        )
    return result


def _not_identified(runs: pd.DataFrame) -> str | None:
    """Why these stable and collapsed runs with S >= 2 cannot tell the exponent; None if they
    may."""
    if not (runs["status"] == "collapsed").any():
        return "no run with S >= 2 collapsed"
    if not (runs["status"] == "stable").any():
        return "no run with S >= 2 is stable"
    if runs["S"].nunique() < 2:
        return "fewer than two S >= 2 among stable and collapsed runs"
    if runs["lr"].nunique() < 2:
        return "a single lr among stable and collapsed runs with S >= 2"
    x = np.log(runs[["lr", "S"]].to_numpy(float))
    if np.linalg.matrix_rank(x - x.mean(axis=0), tol=1e-9 * len(x)) < 2:
        return "log lr and log S are collinear over the runs with S >= 2"
    for status in ("stable", "collapsed"):
        if runs.loc[runs["status"] == status, "S"].nunique() < 2:
            return f"{status} runs at a single S >= 2 bound the exponent on one side only"
    return None


def _profile_interval(
    x: Floats, y: Floats, fit: FirthFit, level: float
) -> tuple[float, float] | None:
    """(low, high) of e where D(e) crosses the chi-square quantile; None when it is unbounded."""
    crossing = float(chi2.ppf(level, df=1))
    without_lr = firth_logistic(x, y, basis=[[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    if 2.0 * (fit.loglik - without_lr.loglik) <= crossing:
        return None

    def excess(e: float) -> float:
        restricted = firth_logistic(x, y, basis=[[1.0, 0.0], [0.0, 1.0], [0.0, -e]], start=fit.coef)
        return 2.0 * (fit.loglik - restricted.loglik) - crossing

    estimate = float(-fit.coef[2] / fit.coef[1])
    # Delta-method standard error of -u2/u1: the scale on which to walk outwards.
    gradient = np.array([0.0, -estimate, -1.0]) / fit.coef[1]
    step = float(np.sqrt(gradient @ fit.cov @ gradient))
    low, high = _crossing(excess, estimate, -step), _crossing(excess, estimate, step)
    return None if low is None or high is None else (low, high)


def _crossing(excess: Callable[[float], float], inside: float, step: float) -> float | None:
    """The first root of `excess` found walking from `inside` in doubling steps; None if it is not
    reached."""
    for _ in range(MAX_DOUBLINGS):
        outside = inside + step
        if excess(outside) > 0.0:
            return float(brentq(excess, inside, outside, xtol=1e-6))
        inside, step = outside, 2.0 * step
    return None
