"""The collapse time: how long a run lives at learning rate lr and staleness S. First form.

    log T_c = a - b log lr - c log S + sigma * eps

[paper] b = 1, c = 0: collapsing runs spend one cumulative learning-rate budget T_c * lr, which
aligns across S (LAWS, arXiv 2607.01083). The exponents reported are those of T_c:
of lr, -b (paper: -1); of S, -c (paper: 0).

First form: a Weibull accelerated-failure-time model (eps = log of a unit exponential), stable and
censored runs right-censored at their own horizon, failed runs left out, S >= 2 (S = 1 has no lag).
**It is biased when runs below the boundary never collapse**, because it takes each of them for a
late collapse: with planted b = 1, c = 0 it gave b = 1.26, c = 0.35 [derived]. It is unbiased where
every run would collapse in the end.

Beside it stands the survivors-only line: least squares on the runs that did collapse, censored ones
left out. It suffers the opposite way (slow runs are missing where the horizon cut them off), so a
gap between the two says that neither may be read alone. [choice]

Intervals: Wald for the AFT (lifelines, observed information), Student t for the line.
"""

from __future__ import annotations

import warnings
from typing import TypedDict

import numpy as np
import pandas as pd
from lifelines import WeibullAFTFitter
from lifelines.exceptions import ApproximationWarning, ConvergenceError, StatisticalWarning
from scipy.stats import t as student_t

from driftlaw.laws.exponent import Exponent, check_level, exponent

METHOD = (
    "Weibull AFT, stable and censored runs right-censored at their horizon, S >= 2; Wald interval; "
    "biased when runs below the boundary never collapse"
)
LINE_METHOD = "least squares of log T_c on the collapsed runs with S >= 2; Student t interval"
MIN_COLLAPSED = 3
# Below this spread of log T_c the times lie on the law to rounding: the likelihood has no maximum.
MIN_SIGMA = 1e-6


class TimeCoefficients(TypedDict):
    """a (log updates), the exponents of lr and S, and sigma (log updates); natural logs."""

    intercept: float
    log_lr: float
    log_S: float
    sigma: float | None


class TimeLine(TypedDict):
    """One fitted line; exponents and coefficients are null when `reason` says why."""

    lr_exponent: Exponent | None
    S_exponent: Exponent | None
    coefficients: TimeCoefficients | None
    reason: str | None
    method: str


class TimeCounts(TypedDict):
    """Runs in the AFT: `collapsed` events and `right_censored`; `left_out` failed or S = 1."""

    collapsed: int
    right_censored: int
    left_out: int


class CollapseTime(TimeLine):
    """The AFT, and the survivors-only line beside it."""

    survivors_only: TimeLine
    counts: TimeCounts


def fit_collapse_time(df: pd.DataFrame, level: float = 0.90) -> CollapseTime:
    """Exponents of lr and S in T_c for one group of runs, by AFT and by the survivors-only line.

    df: (runs, columns) validated run table (`driftlaw.laws.run_table.validate`). level: coverage of
        the intervals.

    Needs at least 3 collapsed runs with S >= 2, of at least two lr and two S that are not collinear
    in logs; otherwise exponents are null and `reason` is one line. Raises ValueError for a level
    outside (0, 1).
    """
    check_level(level)
    runs = df[(df["status"] != "failed") & (df["S"] >= 2)]
    collapsed = runs["status"] == "collapsed"
    events = runs[collapsed]
    reason = _not_identified(events)
    aft = _refused(METHOD, reason) if reason else _aft(runs, level)
    line = _refused(LINE_METHOD, reason) if reason else _least_squares(events, level)
    return {
        **aft,
        "survivors_only": line,
        "counts": {
            "collapsed": len(events),
            "right_censored": int((~collapsed).sum()),
            "left_out": len(df) - len(runs),
        },
    }


def _not_identified(events: pd.DataFrame) -> str | None:
    """Why these collapsed runs cannot tell both exponents; None if they may."""
    if len(events) < MIN_COLLAPSED:
        return f"{len(events)} collapsed runs with S >= 2; needed: at least {MIN_COLLAPSED}"
    for column in ("lr", "S"):
        if events[column].nunique() < 2:
            return f"a single {column} among the collapsed runs with S >= 2"
    x = np.log(events[["lr", "S"]].to_numpy(float))
    if np.linalg.matrix_rank(x - x.mean(axis=0), tol=1e-9 * len(x)) < 2:
        return "log lr and log S are collinear over the collapsed runs with S >= 2"
    return None


def _refused(method: str, reason: str) -> TimeLine:
    return {
        "lr_exponent": None,
        "S_exponent": None,
        "coefficients": None,
        "reason": reason,
        "method": method,
    }


def _aft(runs: pd.DataFrame, level: float) -> TimeLine:
    collapsed = (runs["status"] == "collapsed").to_numpy()
    duration = np.where(collapsed, runs["collapse_update"], runs["horizon"]).astype(float)
    x = np.log(runs[["lr", "S"]].to_numpy(float))
    # Centred covariates and a unit geometric mean of time: the optimiser starts near the answer.
    centre, unit = x.mean(axis=0), float(np.exp(np.log(duration).mean()))
    data = pd.DataFrame(x - centre, columns=["log_lr", "log_S"])
    data["duration"], data["event"] = duration / unit, collapsed
    try:
        with warnings.catch_warnings():
            # A singular information warns here; its bounds are not finite, and reported so below.
            for category in (StatisticalWarning, ApproximationWarning, RuntimeWarning):
                warnings.simplefilter("ignore", category)
            fitter = WeibullAFTFitter(alpha=1.0 - level).fit(data, "duration", event_col="event")
            summary = fitter.summary
    except ConvergenceError:
        return _refused(METHOD, "the Weibull AFT did not converge on these runs")
    coef = summary["coef"]
    b_lr, b_s = float(coef["lambda_", "log_lr"]), float(coef["lambda_", "log_S"])
    sigma = float(np.exp(-coef["rho_", "Intercept"]))
    if not np.all(np.isfinite([b_lr, b_s, sigma])) or sigma < MIN_SIGMA:
        return _refused(METHOD, "the collapse times have no spread about the law; sigma is zero")

    def reported(name: str) -> Exponent:
        row = summary.loc[("lambda_", name)]
        bounds = [
            float(row[c]) for c in row.index if str(c).startswith(("coef lower", "coef upper"))
        ]
        return exponent(float(row["coef"]), min(bounds), max(bounds), level)

    lr, s = reported("log_lr"), reported("log_S")
    unbounded = lr["low"] is None or s["low"] is None
    intercept = (
        float(coef["lambda_", "Intercept"]) + np.log(unit) - b_lr * centre[0] - b_s * centre[1]
    )
    return {
        "lr_exponent": lr,
        "S_exponent": s,
        "coefficients": {
            "intercept": float(intercept),
            "log_lr": b_lr,
            "log_S": b_s,
            "sigma": sigma,
        },
        "reason": "the information matrix is singular; no interval" if unbounded else None,
        "method": METHOD,
    }


def _least_squares(events: pd.DataFrame, level: float) -> TimeLine:
    centred = np.log(events[["lr", "S"]].to_numpy(float))
    centre = centred.mean(axis=0)
    design = np.column_stack([np.ones(len(events)), centred - centre])
    target = np.log(events["collapse_update"].to_numpy(float))
    coef, *_ = np.linalg.lstsq(design, target, rcond=None)
    freedom = len(events) - design.shape[1]
    half = np.full(3, np.nan)
    sigma: float | None = None
    if freedom > 0:
        variance = float(np.sum((target - design @ coef) ** 2)) / freedom
        sigma = float(np.sqrt(variance))
        errors = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
        half = student_t.ppf(0.5 + level / 2.0, freedom) * errors
    return {
        "lr_exponent": exponent(coef[1], coef[1] - half[1], coef[1] + half[1], level),
        "S_exponent": exponent(coef[2], coef[2] - half[2], coef[2] + half[2], level),
        "coefficients": {
            "intercept": float(coef[0] - coef[1:] @ centre),
            "log_lr": float(coef[1]),
            "log_S": float(coef[2]),
            "sigma": sigma,
        },
        "reason": None if freedom > 0 else "3 runs fix the line exactly; no interval",
        "method": LINE_METHOD,
    }
