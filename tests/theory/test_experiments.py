"""The experiments at small sizes: what their tables must show, and that two runs are equal."""

import numpy as np
import pandas as pd
import pytest

from driftlaw.config.lab import (
    CycleSettings,
    DriftSettings,
    EpsilonSettings,
    GroupSizeSettings,
    ProblemSettings,
    SamplingSettings,
    SecondMomentSettings,
)
from driftlaw.objectives import CATALOG
from driftlaw.theory.experiments_cycle import cycle, exponents
from driftlaw.theory.experiments_drift import drift
from driftlaw.theory.experiments_epsilon import epsilon
from driftlaw.theory.experiments_group_size import group_size, slopes
from driftlaw.theory.experiments_second_moment import second_moment

SMALL = SamplingSettings(responses=8000, coupled_groups=40)


def silent(text):
    pass


@pytest.fixture(scope="module")
def drift_table():
    settings = DriftSettings(
        problems=[ProblemSettings(), ProblemSettings(policy="network")],
        updates=[2, 40],
        eps=[0.2, 0.4],
        group_sizes=[2, 8],
        sampling=SMALL,
    )
    return drift(settings, silent)["drift"]


def test_drift_has_every_objective_in_every_cell(drift_table):
    cells = drift_table.groupby(["policy", "updates", "cap", "group_size"])
    assert cells.ngroups == 2 * 2 * 2 * 2
    assert (cells["objective"].nunique() == len(CATALOG) + 1).all()
    # 16 outcomes: the 136 multisets of 2 are enumerated, the 490,314 of 8 are sampled.
    exact = drift_table[drift_table["objective"] != "m2po"].groupby("group_size")["exact"]
    assert exact.unique().map(list).to_dict() == {2: [True], 8: [False]}


def test_the_uncapped_estimator_has_no_cap_bias(drift_table):
    uncapped = drift_table[drift_table["objective"] == "uncapped"]
    assert uncapped["cap_bias_relative"].max() < 1e-13
    assert (uncapped["mass_loss"] < 1e-13).all()


def test_mild_drift_binds_no_trajectory_cap_and_strong_drift_does(drift_table):
    caps = drift_table[drift_table["objective"].isin(["tic_truncate", "tic_mask"])]
    tabular = caps[caps["policy"] == "tabular"].groupby("updates")["mass_loss"]
    assert tabular.max()[2] == 0
    assert tabular.min()[40] > 0.01


def test_the_winner_has_the_smallest_error(drift_table):
    keys = ["policy", "updates", "cap", "group_size"]
    for _, cell in drift_table.groupby(keys):
        own = cell[(cell["objective"] != "m2po") | cell["exact"]]
        for winner, measure in (("winner", "mse_relative"), ("scaled_winner", "scaled_mse")):
            name = cell[winner].unique().item()
            best = own[own["objective"] == name][measure].item()
            assert best <= own[measure].min() * (1 + 1e-8)


def test_group_caps_lose_their_bias_with_the_group_and_trajectory_caps_do_not():
    settings = GroupSizeSettings(
        updates=[28], eps=[0.2], group_sizes=[2, 4, 8, 16, 32, 64], sampling=SMALL
    )
    tables = group_size(settings, silent)
    bias = tables["group_size"].pivot_table(
        index="group_size", columns="objective", values="cap_bias_relative"
    )
    assert bias.loc[64, "gmc"] < 0.05 * bias.loc[2, "gmc"]
    assert bias.loc[64, "gmc_waterfill"] < 0.05 * bias.loc[2, "gmc_waterfill"]
    for name in ("tic_mask", "tic_truncate"):
        assert bias.loc[64, name] == pytest.approx(bias.loc[2, name], rel=0.05)
    found = tables["slopes"].set_index(["objective", "measure", "range"])
    assert found.loc[("gmc", "cap_bias_relative", "all"), "high"] < -1
    assert abs(found.loc[("tic_mask", "cap_bias_relative", "all"), "slope"]) < 0.02


def test_slopes_leave_out_what_is_not_resolved():
    sizes = np.array([2, 4, 8, 16, 32])
    bias = 0.5 * sizes**-1.0
    frame = pd.DataFrame(
        {
            "updates": 1,
            "drift": 0.5,
            "cap": 0.2,
            "objective": "gmc",
            "group_size": sizes,
            "cap_bias": np.where(sizes == 32, 0.4, bias),
            "cap_bias_se": np.where(sizes == 32, 0.3, 0.01 * bias),
            "cap_bias_relative": bias,
            "cap_bias_relative_se": 0.01 * bias,
            "mass_loss": bias,
            "mass_loss_se": 0.01 * bias,
            "total_bias": 0.1,
            "total_bias_se": 0.001,
            "resolved": sizes != 32,
        }
    )
    found = slopes(frame).set_index(["measure", "range"])
    planted = found.loc[("cap_bias", "all")]
    assert planted["slope"] == pytest.approx(-1.0)
    assert planted["cells"] == 4
    assert planted["vanished"] == 1
    assert planted["falls_to"] == pytest.approx(1 / 8)
    assert found.loc[("mass_loss", "all"), "cells"] == 5
    assert found.loc[("total_bias", "large"), "slope"] == pytest.approx(0.0, abs=1e-12)


def test_policies_saturate_at_small_eps_and_are_unbiased_beyond_the_largest_ratio():
    settings = EpsilonSettings(
        updates=[8], policy_eps=[0.001, 0.002, 0.1, 5.0], log_groups=1000, group_sizes=[2, 4, 8]
    )
    table = epsilon(settings, silent)["policies"].set_index(["objective", "eps"])
    assert table["largest_ratio"].max() < 6
    for name in ("tic_mask", "tic_truncate", "gmc"):
        assert abs(table.loc[(name, 0.001), "local_slope"]) < 0.1
        assert table.loc[(name, 5.0), "cap_bias_relative"] < 1e-12
        assert np.isnan(table.loc[(name, 5.0), "local_slope"])
    assert table.loc[("tic_mask", 0.1), "cap_bias"] > table.loc[("gmc", 0.1), "cap_bias"]


def test_capped_second_moments_are_bounded_and_uncapped_ones_are_not():
    settings = SecondMomentSettings(group_size=3, updates=[0, 64], distances=[1.0, 4.0, 8.0])
    tables = second_moment(settings, silent)
    sup = tables["sup"].set_index(["path", "objective"])
    for name in ("tic_mask", "tic_truncate", "gmc", "gmc_waterfill"):
        assert sup.loc[("apart", name), "within"]
        assert sup.loc[("against", name), "within"]
    assert sup.loc[("apart", "uncapped"), "growth"] > 100
    # An upper clip for A > 0 alone holds nothing where the large ratios have A < 0.
    assert sup.loc[("against", "tic_ppo"), "growth"] > 50
    assert sup.loc[("apart", "tic_ppo"), "growth"] == pytest.approx(1.0)
    assert np.isnan(sup.loc[("apart", "grpo"), "bound"])


@pytest.fixture(scope="module")
def cycle_tables():
    settings = CycleSettings(group_size=4, intervals=[4], lrs=[0.01, 0.1])
    return cycle(settings, silent)


def test_bias_is_zero_at_synchronisation_and_grows_in_between(cycle_tables):
    table = cycle_tables["cycle"]
    assert table[table["lag"] == 0]["total_bias_relative"].max() < 1e-13
    assert (table[table["lag"] == 0].groupby("objective").size() == 2 * 2 * 2).all()
    std = table[(table["advantage"] == "std") & (table["lag"] > 0)]
    assert std["total_bias_relative"].min() > 1e-6


def test_bias_is_of_first_order_in_lag_times_eta(cycle_tables):
    found = cycle_tables["exponents"]
    std = found[found["advantage"] == "std"]
    assert std["slope"].to_numpy() == pytest.approx(np.ones(len(std)), abs=0.03)


def test_without_std_trajectory_weights_have_no_bias_until_a_cap_binds(cycle_tables):
    found = cycle_tables["exponents"].set_index(["advantage", "objective", "scope"])
    for name in ("gmc", "tic_mask"):
        assert found.loc[("mean", name, "all"), "zero"] == 2 * 2 * 3
        assert found.loc[("mean", name, "all"), "cells"] == 0
    assert found.loc[("mean", "grpo", "all"), "slope"] == pytest.approx(1.0, abs=0.03)


def test_exponents_recover_a_planted_bias():
    rows = [
        {"advantage": "std", "objective": "planted", "interval": 8, "lr": lr, "update": lag}
        | {"lag": lag, "budget": lag * lr, "total_bias": 3 * (lag * lr) ** 2 * (lag > 0)}
        | {"total_bias_relative": (lag * lr) ** 2}
        for lr in (0.01, 0.02, 0.04)
        for lag in range(8)
    ]
    found = exponents(pd.DataFrame(rows), 0.2)
    assert found["slope"].to_numpy() == pytest.approx([2.0, 2.0, 2.0])
    # Budgets above 0.2 are lr 0.04 with lags 6 and 7.
    assert found["cells"].tolist() == [19, 19, 19]


def test_two_runs_are_equal():
    settings = DriftSettings(
        problems=[ProblemSettings(reward="noisy")],
        updates=[8],
        eps=[0.2],
        group_sizes=[8],
        objectives=["gmc", "m2po", "uncapped"],
        sampling=SMALL,
    )
    one, other = (drift(settings, silent)["drift"].to_csv() for _ in range(2))
    assert one == other
