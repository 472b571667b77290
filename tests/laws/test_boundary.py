"""The stability boundary: planted exponents, hand-made brackets, and when there is no answer."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from driftlaw.laws.boundary import fit_boundary
from driftlaw.laws.brackets import brackets, consistent_exponents
from driftlaw.laws.firth import firth_logistic
from driftlaw.laws.run_table import validate

from .planted import boundary_table

SIMULATIONS = 20


def runs(*rows):
    """Rows (S, lr, status), one seed number each."""
    df = pd.DataFrame(rows, columns=["S", "lr", "status"])
    df["seed"], df["horizon"] = range(len(df)), 100
    df["collapse_update"] = np.where(df["status"] == "collapsed", 50.0, np.nan)
    return validate(df)


@pytest.mark.parametrize("slope", [3.0, 10.0])
@pytest.mark.parametrize("planted", [-1.0, 0.0])
def test_planted_exponent_is_recovered(planted, slope):
    results = [
        fit_boundary(boundary_table(planted, slope, seed))["S_exponent"]
        for seed in range(SIMULATIONS)
    ]
    estimates = np.array([r["estimate"] for r in results])
    spread = estimates.std(ddof=1)
    assert spread < 0.2
    # Bias: within three standard errors of the mean over the simulations.
    assert abs(estimates.mean() - planted) < 3.0 * spread / math.sqrt(SIMULATIONS)
    # Coverage 0.9: fewer than 15 of 20 has probability 0.01.
    assert sum(r["low"] <= planted <= r["high"] for r in results) >= 15
    # The two planted laws are told apart.
    other = -1.0 - planted
    assert not any(r["low"] <= other <= r["high"] for r in results)


def test_sharp_boundary_on_a_coarse_grid():
    """Six rates a factor 3.2 apart and three identical seeds: the smooth interval misses the truth
    by its lower end, the set that the brackets allow does not."""
    fit = fit_boundary(boundary_table(-1.0, math.inf, seed=0))
    assert fit["S_exponent"]["low"] == pytest.approx(-0.978, abs=0.005)
    allowed = fit["consistent_exponents"]
    # On the lr grid, steps g wide in log lr, the brackets are [k, k+1] at S = 2, 4, one step lower
    # at S = 8, 16 and two at S = 32, 64. Steepest line: top at 2 to bottom at 64, -3 g / log 32;
    # flattest: bottom at 4 to top at 32, -g / log 8.
    g = 2.0 * (1.2 + math.log(32.0) / 2.0) / 5.0
    assert allowed["low"] == pytest.approx(-3.0 * g / math.log(32.0))
    assert allowed["high"] == pytest.approx(-g / math.log(8.0))
    assert allowed["low"] < -1.0 < allowed["high"]


def test_interval_ends_sit_on_the_chi_square_quantile():
    df = boundary_table(-1.0, 3.0, seed=5)
    x = np.log(df[["lr", "S"]].to_numpy(float))
    y = (df["status"] == "collapsed").to_numpy(float)
    full = firth_logistic(x, y)
    for level in (0.5, 0.9):
        e = fit_boundary(df, level)["S_exponent"]
        assert e["level"] == level
        assert e["estimate"] == pytest.approx(-full.coef[2] / full.coef[1])
        for bound in (e["low"], e["high"]):
            restricted = firth_logistic(x, y, basis=[[1, 0], [0, 1], [0, -bound]])
            deviance = 2.0 * (full.loglik - restricted.loglik)
            assert deviance == pytest.approx(chi2.ppf(level, 1), abs=1e-3)
        assert e["low"] < e["estimate"] < e["high"]


def test_unit_of_the_learning_rate_does_not_matter():
    df = boundary_table(-1.0, 3.0, seed=2)
    a = fit_boundary(df)["S_exponent"]
    b = fit_boundary(df.assign(lr=df["lr"] * 1e6))["S_exponent"]
    assert [b[k] for k in ("estimate", "low", "high")] == pytest.approx(
        [a[k] for k in ("estimate", "low", "high")], abs=1e-5
    )


def test_coefficients_give_even_odds_on_the_planted_boundary():
    """With a steep slope, exp(-u0/u1) S^e lies on the planted eta_max = 1e-3 / S."""
    c = fit_boundary(boundary_table(-1.0, 10.0, seed=1))["coefficients"]
    for s in (4, 16):
        log_eta_max = -(c["intercept"] + c["log_S"] * math.log(s)) / c["log_lr"]
        assert log_eta_max == pytest.approx(math.log(1e-3 / s), abs=0.25)


def test_lag_free_censored_and_failed_runs_are_counted_but_not_fitted():
    df = boundary_table(-1.0, 3.0, seed=0)
    extra = df.iloc[:18].copy()
    extra["seed"] += 10
    extra["S"] = [1] * 6 + [2] * 12
    extra["status"] = ["stable"] * 6 + ["censored"] * 6 + ["failed"] * 6
    extra["collapse_update"] = np.nan
    fit = fit_boundary(pd.concat([df, extra], ignore_index=True))
    plain = fit_boundary(df)
    assert fit["S_exponent"] == plain["S_exponent"]
    counts, before = fit["counts"], plain["counts"]
    assert counts["fitted"] == before["fitted"] == 108
    assert (counts["S_below_2"], counts["censored"], counts["failed"]) == (6, 6, 6)
    assert counts["stable"] == before["stable"] + 6
    assert fit["brackets"][0]["S"] == 1


def test_brackets_by_hand():
    df = runs(
        (1, 4.0, "stable"),
        (2, 1.0, "stable"),
        (2, 2.0, "stable"),
        (2, 4.0, "collapsed"),
        (2, 8.0, "censored"),
        # Overlap: 2.0 collapsed once and was stable once, 4.0 was stable.
        (4, 1.0, "stable"),
        (4, 2.0, "stable"),
        (4, 2.0, "collapsed"),
        (4, 4.0, "stable"),
        (8, 1.0, "collapsed"),
        (8, 2.0, "failed"),
    )
    rows = brackets(df)
    assert [(r["S"], r["last_stable"], r["first_collapsed"], r["overlap"]) for r in rows] == [
        (1, 4.0, None, False),
        (2, 2.0, 4.0, False),
        (4, 1.0, 2.0, True),
        (8, None, 1.0, False),
    ]
    counted = [(r["stable"], r["collapsed"], r["censored"], r["failed"]) for r in rows]
    assert counted == [(1, 0, 0, 0), (2, 1, 1, 0), (3, 1, 0, 0), (0, 1, 0, 1)]
    assert consistent_exponents(rows) is None  # S = 4 overlaps


def test_consistent_exponents_by_hand():
    # log2 eta_max in [3, 4] at S = 2 and in [1, 2] at S = 8: slopes from (1-4)/2 to (2-3)/2.
    rows = brackets(
        runs((2, 8.0, "stable"), (2, 16.0, "collapsed"), (8, 2.0, "stable"), (8, 4.0, "collapsed"))
    )
    allowed = consistent_exponents(rows)
    assert (allowed["low"], allowed["high"]) == pytest.approx((-1.5, -0.5))
    # Never stable at S = 8: the boundary may fall as steeply as it likes.
    rows[1]["last_stable"] = None
    allowed = consistent_exponents(rows)
    assert allowed["low"] is None
    assert allowed["high"] == pytest.approx(-0.5)
    # One S fixes nothing.
    assert consistent_exponents(rows[:1]) == {"low": None, "high": None}


def test_brackets_that_no_power_law_meets():
    # eta_max falls a factor 16 from S = 2 to 4 and rises again by 16 to S = 8.
    rows = brackets(
        runs(
            (2, 16.0, "stable"),
            (2, 32.0, "collapsed"),
            (4, 1.0, "stable"),
            (4, 2.0, "collapsed"),
            (8, 16.0, "stable"),
            (8, 32.0, "collapsed"),
        )
    )
    assert consistent_exponents(rows) is None


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (runs((2, 1.0, "stable"), (4, 2.0, "stable")), "no run with S >= 2 collapsed"),
        (runs((2, 1.0, "collapsed"), (4, 2.0, "collapsed")), "no run with S >= 2 is stable"),
        (runs((2, 1.0, "censored"), (4, 2.0, "failed")), "no run with S >= 2 collapsed"),
        (
            runs((1, 1.0, "stable"), (2, 1.0, "stable"), (2, 2.0, "collapsed")),
            "fewer than two S >= 2",
        ),
        (runs((2, 1.0, "stable"), (4, 1.0, "collapsed")), "a single lr"),
        (
            runs((2, 1.0, "stable"), (2, 2.0, "collapsed"), (4, 1.0, "stable"), (4, 2.0, "stable")),
            "collapsed runs at a single S >= 2 bound the exponent on one side only",
        ),
        (
            runs(
                *[(2, 1.0, "stable"), (2, 2.0, "collapsed")],
                *[(4, 1.0, "collapsed"), (4, 2.0, "collapsed")],
            ),
            "stable runs at a single S >= 2 bound the exponent on one side only",
        ),
        (runs((2, 8.0, "stable"), (4, 4.0, "collapsed"), (8, 2.0, "stable")), "collinear"),
        # Collapse at the small rates, none at the large ones.
        (
            runs(
                *[
                    (s, lr, "collapsed" if lr < 3 else "stable")
                    for s in (2, 4)
                    for lr in (1, 2, 4, 8)
                ]
            ),
            "does not become likelier with lr",
        ),
    ],
)
def test_no_exponent_without_identification(table, reason):
    fit = fit_boundary(table)
    assert fit["S_exponent"] is None
    assert reason in fit["reason"]
    assert "\n" not in fit["reason"]
    assert fit["brackets"]


def test_unbounded_interval_keeps_the_estimate_and_says_so():
    # Four runs: collapse rises with lr, but not beyond chance.
    fit = fit_boundary(
        runs((2, 1.0, "stable"), (2, 2.0, "collapsed"), (4, 1.0, "stable"), (4, 1.5, "collapsed"))
    )
    e = fit["S_exponent"]
    assert (e["low"], e["high"]) == (None, None)
    assert math.isfinite(e["estimate"])
    assert "unbounded" in fit["reason"]


@pytest.mark.parametrize("level", [0.0, 1.0, 90])
def test_level_out_of_range(level):
    with pytest.raises(ValueError, match="level"):
        fit_boundary(boundary_table(0.0, 3.0, seed=0), level)
