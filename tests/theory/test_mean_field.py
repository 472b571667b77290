"""The mean-field model against hand-run recursions, its closed forms, and planted run tables."""

import numpy as np
import pandas as pd
import pytest

from driftlaw.config.lab_dynamics import MeanFieldSettings
from driftlaw.schedule import Schedule
from driftlaw.theory.mean_field import MeanField
from driftlaw.theory.mean_field_fit import fit, misfit
from driftlaw.theory.mean_field_tables import (
    boundary_exponents,
    boundary_table,
    equal_lag_table,
    exit_exponents,
    exit_times,
    mean_field,
)

MODEL = MeanField(kappa=1.0, nu=4e-4, memory=50.0, radius=0.25)


def by_hand(model, lr, schedule, updates):
    """The recursion with plain numbers and the schedule's own version()."""
    x, q = [0.0], 0.01 * model.nu
    for t in range(updates):
        b = model.kappa * (x[t] - x[schedule.version(t)])
        q += (b - q) / model.memory
        x.append(x[t] + lr * q / (q * q + model.nu**2) ** 0.5)
    return np.array(x)


def test_first_two_updates_have_the_hand_computed_values():
    # q_0 = 0.03, M = 2, lag 0 then 1: q_1 = 0.015, x_1 = q_1/sqrt(q_1^2 + 9);
    # b_1 = 2 x_1, q_2 = (q_1 + b_1)/2.
    model = MeanField(kappa=2.0, nu=3.0, memory=2.0, radius=1.0)
    x_1 = 0.015 / (0.015**2 + 9.0) ** 0.5
    q_2 = (0.015 + 2.0 * x_1) / 2.0
    x_2 = x_1 + q_2 / (q_2**2 + 9.0) ** 0.5
    path = model.trajectory(1.0, Schedule(1, 1), 2)
    np.testing.assert_allclose(path[:, 0], [0.0, x_1, x_2], rtol=1e-14)


def test_runs_side_by_side_follow_their_own_schedules():
    plans = [Schedule(0, 1), Schedule(0, 4), Schedule(3, 1), Schedule(2, 5), Schedule(40, 7)]
    lrs = np.array([1e-3, 2e-3, 5e-4, 1e-3, 4e-4])
    path = MODEL.trajectory(lrs, plans, 700)
    for k, plan in enumerate(plans):
        np.testing.assert_allclose(path[:, k], by_hand(MODEL, lrs[k], plan, 700), rtol=1e-12)


def test_collapse_is_the_first_update_at_or_beyond_the_radius():
    lrs = np.geomspace(1e-5, 1e-2, 12)
    found = MODEL.collapse_update(lrs, Schedule(0, 9), 900)
    path = np.abs(MODEL.trajectory(lrs, Schedule(0, 9), 900))
    for k in range(len(lrs)):
        beyond = np.flatnonzero(path[:, k] >= MODEL.radius)
        assert np.isnan(found[k]) if len(beyond) == 0 else found[k] == beyond[0]
    assert 0 < np.isnan(found).sum() < len(lrs)


def test_the_crossing_lies_inside_its_update_and_ends_on_a_line():
    lrs = np.geomspace(1e-3, 1e-2, 5)
    time = MODEL.crossing(lrs, Schedule(4, 1), 2000)
    assert (np.ceil(time) == MODEL.collapse_update(lrs, Schedule(4, 1), 2000)).all()
    path = by_hand(MODEL, lrs[0], Schedule(4, 1), 2000)
    assert np.interp(time[0], np.arange(2001), path) == pytest.approx(MODEL.radius, rel=1e-9)


def test_a_gain_below_one_decays_and_one_above_drifts_at_the_predicted_speed():
    # Under a constant lag the saturated speed is exact: s = eta b/sqrt(b^2 + nu^2), b = kappa s D.
    plan = Schedule(8, 1)
    below, above = 0.8 * MODEL.nu / 8, 1.5 * MODEL.nu / 8
    np.testing.assert_allclose(MODEL.gain([below, above], plan), [0.8, 1.5])
    path = MODEL.trajectory([below, above], plan, 6000)
    speed = np.diff(path, axis=0)
    assert speed[-1, 0] < 1e-8 * below
    assert speed[-1, 1] == pytest.approx(above * (1 - 1 / 1.5**2) ** 0.5, rel=1e-6)
    assert MODEL.speed([below, above], plan)[0] == 0.0
    assert MODEL.speed(above, plan) == pytest.approx(speed[-1, 1], rel=1e-6)


def test_the_boundary_has_the_values_of_the_derivation():
    intervals = [3, 5, 9, 17, 33, 65]
    found = MODEL.largest_stable_lr([Schedule(0, s) for s in intervals], 8000)
    np.testing.assert_array_equal(np.round(1e4 * found, 2), [4.12, 2.09, 1.09, 0.61, 0.41, 0.35])
    # 2 nu / (kappa (S - 1)), and R/T from S = 33 on.
    closed = [1e4 * MODEL.boundary(Schedule(0, s), 8000) for s in intervals]
    np.testing.assert_allclose(closed, [4.0, 2.0, 1.0, 0.5, 0.3125, 0.3125])


def test_runs_change_sides_at_the_boundary_and_never_collapse_without_staleness():
    plans = [Schedule(0, 9), Schedule(3, 2)]
    edge = MODEL.largest_stable_lr(plans, 1000, tolerance=1e-5)
    assert np.isnan(MODEL.collapse_update(edge * 0.9999, plans, 1000)).all()
    assert np.isfinite(MODEL.collapse_update(edge * 1.0001, plans, 1000)).all()
    assert np.isnan(MODEL.largest_stable_lr(Schedule(0, 1), 1000))
    assert MODEL.boundary(Schedule(0, 1), 1000) == np.inf


def test_equal_mean_lag_gives_equal_boundaries_only_when_directions_persist():
    table = equal_lag_table(MODEL, [2.0, 200.0], [2, 8], 2000).set_index(["memory", "mean_lag"])
    quotient = table["interval_over_delay"]
    assert (np.abs(quotient[200.0] - 1) < 0.005).all()
    assert (quotient[2.0] > 1.05).all()


def test_only_the_stated_combinations_matter():
    lrs, plan = np.geomspace(2e-4, 5e-3, 8), Schedule(0, 9)
    reference = MODEL.crossing(lrs, plan, 3000)
    assert np.isfinite(reference).sum() > 3
    bias = MeanField(7.0, 7.0 * MODEL.nu, MODEL.memory, MODEL.radius)
    np.testing.assert_allclose(bias.crossing(lrs, plan, 3000), reference, rtol=1e-9)
    # Another unit of learning rate: x and R scale with it, kappa against it.
    unit = MeanField(MODEL.kappa / 3.0, MODEL.nu, MODEL.memory, 3.0 * MODEL.radius)
    np.testing.assert_allclose(unit.crossing(3.0 * lrs, plan, 3000), reference, rtol=1e-9)


def test_collapse_time_falls_like_one_over_eta_well_above_the_boundary():
    times = exit_times(MODEL, [17], (5e-5, 2e-3), 20, 20_000)
    slopes = exit_exponents(times).set_index("scope")
    assert slopes.loc["near", "slope"] < -1.3
    assert slopes.loc["middle", "slope"] == pytest.approx(-1.0, abs=0.06)
    # The budget is R / sqrt(1 - 1/g^2) and an onset that is small at large gain.
    late = times[times["gain"] > 5]
    assert ((late["budget"] > late["predicted"]) & (late["budget"] < 1.15)).all()


def test_exponents_are_those_of_a_planted_table():
    plain = pd.DataFrame({"T": 100, "S": [3, 5, 9], "binding": "growth"})
    plain["lr_max"] = 2e-4 / (plain["S"] - 1) ** 0.7
    (row,) = boundary_exponents(plain).to_dict("records")
    assert row["slope"] == pytest.approx(-0.7) and row["low"] == pytest.approx(-0.7)
    times = pd.DataFrame({"S": 5, "lr": [1e-3, 2e-3, 4e-3], "gain": [2.5, 5.0, 10.0]})
    times["budget"] = times["lr"] ** 0.25
    times["local_slope"] = -0.75
    rows = exit_exponents(times).set_index("scope")
    assert rows.loc["middle", "slope"] == pytest.approx(-0.75)
    assert list(rows.index) == ["all", "middle"]


def test_the_boundary_table_says_which_term_binds():
    table = boundary_table(MODEL, [3, 33], [8000])
    assert table["binding"].tolist() == ["growth", "budget"]
    np.testing.assert_allclose(table["ratio"], table["lr_max"] / table["predicted"])


PLANS = ((0, 3), (0, 9), (0, 33), (1, 1), (4, 1), (16, 1))


def planted(true, horizon):
    """A run table of the model itself: delays and intervals, 10 learning rates."""
    lrs = np.geomspace(1e-4, 2e-2, 10)
    rows = []
    for delay, interval in PLANS:
        for lr, time in zip(
            lrs, true.collapse_update(lrs, Schedule(delay, interval), horizon), strict=True
        ):
            status = "stable" if np.isnan(time) else "collapsed"
            rows.append((delay, interval, lr, status, time, horizon))
    columns = ["D", "I", "lr", "status", "collapse_update", "horizon"]
    return pd.DataFrame(rows, columns=columns)


def test_planted_parameters_are_recovered_from_a_run_table():
    true = MeanField(1.0, 4e-3, 20.0, 0.25)
    table = planted(true, 400)
    # A failed run says nothing, whatever its numbers are.
    table.loc[len(table)] = [0, 33, 1e-4, "failed", 1.0, 400]
    found = fit(table)
    expected = {"sensitivity": 250.0, "radius": 0.25}
    for name, value in expected.items():
        assert found.combinations[name] == pytest.approx(value, rel=0.02)
    assert found.combinations["memory"] == pytest.approx(20.0, rel=0.05)
    assert found.misfit < misfit(true, table) < 1e-4
    assert found.model.kappa == 1.0 and found.runs == 60
    assert all(rise > 1e-3 for rise in found.rises.values())


def test_without_runs_near_the_boundary_the_sensitivity_is_not_held():
    # Far above it and at long lags alone: only the budget is seen.
    true = MeanField(1.0, 4e-5, 2.0, 0.25)
    lrs = np.geomspace(1e-3, 1e-2, 6)
    times = true.collapse_update(lrs, Schedule(16, 1), 5000)
    rows = [(16, 1, lr, "collapsed", t, 5000) for lr, t in zip(lrs, times, strict=True)]
    rows.append((0, 1, 1e-3, "stable", np.nan, 100))
    table = pd.DataFrame(rows, columns=["D", "I", "lr", "status", "collapse_update", "horizon"])
    rises = fit(table, start=true).rises
    assert rises["radius"] > 20 * max(rises["sensitivity"], 1e-6)


def test_the_misfit_of_each_status_is_the_hand_computed_one():
    # M and R such that a run of lr 1 under lag 4 crosses at a known time.
    plan = Schedule(4, 1)
    time = float(MODEL.crossing(1e-3, plan, 2000)[0])
    shared = {"D": 4, "I": 1, "lr": 1e-3}
    late = round(2 * time)
    rows = [
        shared | {"status": "collapsed", "collapse_update": late, "horizon": 4000},
        shared | {"status": "stable", "collapse_update": np.nan, "horizon": late},
        shared | {"status": "stable", "collapse_update": np.nan, "horizon": int(time) - 1},
        shared
        | {"status": "censored", "collapse_update": np.nan, "horizon": 4000, "updates": 3 * late},
        # Never collapses in the model: its time counts as twice the run's own.
        {"D": 4, "I": 1, "lr": 1e-6, "status": "collapsed", "collapse_update": 50.5, "horizon": 60},
    ]
    expected = [
        np.log(time / (late - 0.5)) ** 2,
        np.log(time / late) ** 2,
        0.0,
        np.log(time / (3 * late)) ** 2,
        np.log(2.0) ** 2,
    ]
    for row, value in zip(rows, expected, strict=True):
        assert misfit(MODEL, pd.DataFrame([row])) == pytest.approx(value, rel=1e-12)
    assert misfit(MODEL, pd.DataFrame(rows)) == pytest.approx(np.mean(expected), rel=1e-12)


def test_tables_that_cannot_be_fitted_are_refused():
    table = planted(MODEL, 100)
    with pytest.raises(ValueError, match="column horizon is missing"):
        misfit(MODEL, table.drop(columns="horizon"))
    with pytest.raises(ValueError, match="0 of 60 runs collapsed"):
        fit(table.assign(status="stable", collapse_update=np.nan))
    with pytest.raises(ValueError, match="no run that did not fail"):
        misfit(MODEL, table.assign(status="failed"))
    with pytest.raises(ValueError, match="status 'fine'"):
        misfit(MODEL, table.assign(status="fine"))


@pytest.mark.parametrize("bad", [{"nu": 0.0}, {"kappa": -1.0}, {"memory": 1.0}, {"radius": np.nan}])
def test_parameters_out_of_range_are_refused(bad):
    (name,) = bad
    with pytest.raises(ValueError, match=name):
        MeanField(**({"kappa": 1.0, "nu": 1.0, "memory": 2.0, "radius": 1.0} | bad))


def test_the_section_gives_its_tables_twice_the_same():
    settings = MeanFieldSettings(
        intervals=[3, 9], horizons=[300, 1000], exit_intervals=[9], exit_points=5,
        exit_horizon=3000, memories=[20.0], delays=[2], equal_lag_horizon=500,
    )  # fmt: skip
    first, second = (mean_field(settings, lambda text: None) for _ in range(2))
    assert set(first) == {"boundary", "exit_times", "exponents", "equal_lag"}
    for name, table in first.items():
        pd.testing.assert_frame_equal(table, second[name], check_exact=True)
