"""The collapse time: planted exponents, an independent likelihood, and when there is no answer."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize

from driftlaw.laws.collapse_time import fit_collapse_time
from driftlaw.laws.run_table import validate

from .planted import time_table

SIMULATIONS = 15


def covered(exponent, truth):
    return exponent["low"] <= truth <= exponent["high"]


@pytest.mark.parametrize(
    ("b", "c", "horizon"), [(1.0, 0.0, None), (1.0, 0.0, 800), (1.3, 0.4, None)]
)
def test_planted_exponents_are_recovered_where_every_run_collapses(b, c, horizon):
    fits = [fit_collapse_time(time_table(k, b, c, horizon=horizon)) for k in range(SIMULATIONS)]
    if horizon is not None:
        assert min(f["counts"]["right_censored"] for f in fits) >= 20
    for name, truth in (("lr_exponent", -b), ("S_exponent", -c)):
        estimates = np.array([f[name]["estimate"] for f in fits])
        error = estimates.std(ddof=1) / math.sqrt(SIMULATIONS)
        assert estimates.std(ddof=1) < 0.08
        assert abs(estimates.mean() - truth) < 3.0 * error
        # Coverage 0.9: fewer than 10 of 15 has probability 0.002.
        assert sum(covered(f[name], truth) for f in fits) >= 10


def test_agrees_with_the_likelihood_written_out():
    """Weibull: z = (log T - x'beta) / sigma; event z - e^z - log sigma - log T, censored -e^z."""
    df = time_table(3, horizon=800)
    fit = fit_collapse_time(df)
    event = (df["status"] == "collapsed").to_numpy()
    log_t = np.log(np.where(event, df["collapse_update"], df["horizon"]))
    x = np.log(df[["lr", "S"]].to_numpy(float))
    centre = x.mean(axis=0)
    design = np.column_stack([np.ones(len(x)), x - centre])

    def negative(theta):
        z = (log_t - design @ theta[:3]) / np.exp(theta[3])
        return np.sum(np.exp(z)) - np.sum((z - theta[3])[event])

    oracle = minimize(negative, [log_t.mean(), -1.0, 0.0, -1.0], method="BFGS").x
    got = fit["coefficients"]
    assert got["log_lr"] == pytest.approx(oracle[1], abs=1e-4)
    assert got["log_S"] == pytest.approx(oracle[2], abs=1e-4)
    assert got["sigma"] == pytest.approx(np.exp(oracle[3]), rel=1e-3)
    assert got["intercept"] == pytest.approx(oracle[0] - oracle[1:3] @ centre, abs=1e-3)
    assert fit["lr_exponent"]["estimate"] == got["log_lr"]


def test_survivors_only_line_is_least_squares_on_the_collapsed_runs():
    df = time_table(4, horizon=800)
    line = fit_collapse_time(df, level=0.8)["survivors_only"]
    events = df[df["status"] == "collapsed"]
    design = sm.add_constant(np.log(events[["lr", "S"]].to_numpy(float)))
    peer = sm.OLS(np.log(events["collapse_update"].to_numpy()), design).fit()
    interval = peer.conf_int(alpha=0.2)
    for k, name in ((1, "lr_exponent"), (2, "S_exponent")):
        e = line[name]
        assert (e["estimate"], e["low"], e["high"]) == pytest.approx((peer.params[k], *interval[k]))
    assert line["coefficients"]["intercept"] == pytest.approx(peer.params[0])
    assert line["coefficients"]["sigma"] == pytest.approx(math.sqrt(peer.scale))


def test_known_bias_when_runs_below_the_boundary_never_collapse():
    """Planted b = 1, c = 0 and lr * S < 4e-3 immune: the plain AFT reads the immune runs as late
    collapses and takes both exponents too steep; the survivors-only line stays near the truth."""
    fits = [fit_collapse_time(time_table(k, horizon=20000, boundary=4e-3)) for k in range(3)]
    assert all(f["lr_exponent"]["high"] < -1.2 for f in fits)
    assert all(f["S_exponent"]["high"] < -0.2 for f in fits)
    lines = [f["survivors_only"] for f in fits]
    assert np.mean([r["lr_exponent"]["estimate"] for r in lines]) == pytest.approx(-1.0, abs=0.1)
    assert np.mean([r["S_exponent"]["estimate"] for r in lines]) == pytest.approx(0.0, abs=0.1)


def test_censored_runs_enter_at_their_own_horizon_and_failed_or_lag_free_runs_do_not():
    df = time_table(0, horizon=800)
    plain = fit_collapse_time(df)
    assert plain["counts"]["collapsed"] + plain["counts"]["right_censored"] == 108
    extra = df.iloc[:4].copy()
    extra["seed"] += 10
    extra["S"], extra["status"] = [1, 2, 2, 2], ["stable", "failed", "failed", "failed"]
    extra["collapse_update"], extra["horizon"] = np.nan, [800, 0, 5, 700]
    more = fit_collapse_time(validate(pd.concat([df, extra], ignore_index=True)))
    assert more["counts"]["left_out"] == 4
    assert more["lr_exponent"] == plain["lr_exponent"]
    # Named censored instead of stable, the same run carries the same information.
    renamed = df.replace({"status": {"stable": "censored"}})
    assert fit_collapse_time(renamed)["lr_exponent"] == plain["lr_exponent"]


def collapsed_runs(*rows):
    """Rows (S, lr, collapse_update)."""
    df = pd.DataFrame(rows, columns=["S", "lr", "collapse_update"])
    return validate(df.assign(seed=range(len(df)), status="collapsed", horizon=100_000))


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (collapsed_runs((2, 1.0, 100), (4, 2.0, 50)), "2 collapsed runs"),
        (collapsed_runs((1, 1.0, 100), (2, 2.0, 50), (4, 4.0, 25)), "2 collapsed runs"),
        (collapsed_runs((2, 1.0, 100), (4, 1.0, 90), (8, 1.0, 95)), "a single lr"),
        (collapsed_runs((2, 1.0, 100), (2, 2.0, 50), (2, 4.0, 30)), "a single S"),
        (collapsed_runs((2, 4.0, 100), (4, 2.0, 50), (8, 1.0, 30)), "collinear"),
    ],
)
def test_no_exponents_without_identification(table, reason):
    fit = fit_collapse_time(table)
    for line in (fit, fit["survivors_only"]):
        assert line["lr_exponent"] is None
        assert line["S_exponent"] is None
        assert reason in line["reason"]
        assert "\n" not in line["reason"]


def test_times_exactly_on_the_law():
    """T_c = 1000 / lr without spread: the likelihood has no maximum, the line is exact."""
    rows = [(s, lr, 1000.0 / lr) for s in (2, 4, 8) for lr in (1.0, 2.0, 4.0)]
    fit = fit_collapse_time(collapsed_runs(*rows))
    assert fit["lr_exponent"] is None
    assert fit["reason"] is not None
    line = fit["survivors_only"]
    assert line["lr_exponent"]["estimate"] == pytest.approx(-1.0)
    assert line["S_exponent"]["estimate"] == pytest.approx(0.0, abs=1e-9)


def test_three_runs_fix_the_line_and_leave_no_interval():
    line = fit_collapse_time(collapsed_runs((2, 1.0, 100), (4, 2.0, 50), (2, 4.0, 25)))[
        "survivors_only"
    ]
    assert line["lr_exponent"] == {
        "estimate": pytest.approx(-1.0),
        "low": None,
        "high": None,
        "level": 0.9,
    }
    assert "no interval" in line["reason"]
