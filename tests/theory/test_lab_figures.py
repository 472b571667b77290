"""The laboratory's figures: what they draw is what the tables say, and equal tables give equal bytes."""

import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from driftlaw.config.lab import (
    CycleSettings,
    DriftSettings,
    EpsilonSettings,
    GroupSizeSettings,
    ProblemSettings,
    SamplingSettings,
    SecondMomentSettings,
)
from driftlaw.config.lab_dynamics import MeanFieldSettings
from driftlaw.figures.style import look, theme
from driftlaw.theory.experiments_cycle import cycle
from driftlaw.theory.experiments_drift import drift
from driftlaw.theory.experiments_epsilon import epsilon
from driftlaw.theory.experiments_group_size import group_size
from driftlaw.theory.experiments_second_moment import second_moment
from driftlaw.theory.figures import FIGURES, draw_lab
from driftlaw.theory.mean_field_tables import mean_field
from tests.theory.small import TINY

SMALL = SamplingSettings(enumerate_up_to=200, responses=2000, coupled_groups=40)
DRAW = {name: draw for name, _, draw in FIGURES}


@pytest.fixture(scope="module")
def tables():
    """Every section at a tiny size."""
    objectives = ["uncapped", "grpo", "tic_mask", "tic_truncate", "gmc", "gspo"]
    settings = {
        "group_size": GroupSizeSettings(
            problem=TINY, updates=[12], eps=[0.2, 0.4], group_sizes=[2, 4, 64, 128], sampling=SMALL
        ),
        "epsilon": EpsilonSettings(
            eps=[0.02, 0.1, 0.4],
            variances=[1e-4],
            group_sizes=[2, 8, 32],
            log_sds=[0.3, 1.0],
            log_groups=1000,
            problem=TINY,
            updates=[4, 8],
            policy_eps=[0.1, 0.3, 0.6],
        ),
        "second_moment": SecondMomentSettings(
            problem=TINY,
            objectives=["uncapped", "gmc", "grpo"],
            updates=[0, 4, 8],
            distances=[0.5, 2.0],
        ),
        "cycle": CycleSettings(problem=TINY, objectives=["grpo", "gmc"], intervals=[3], lrs=[0.1]),
        "drift": DriftSettings(
            problems=[TINY, ProblemSettings(**TINY.model_dump() | {"policy": "network"})],
            updates=[2, 16],
            eps=[0.2],
            group_sizes=[2, 4, 8],
            objectives=objectives,
            sampling=SMALL,
        ),
        "mean_field": MeanFieldSettings(
            intervals=[3, 9],
            horizons=[300, 1200],
            exit_intervals=[9, 17],
            exit_points=6,
            exit_horizon=2000,
            memories=[2.0, 50.0],
            delays=[1, 4],
            equal_lag_horizon=300,
        ),
    }
    run = {
        "group_size": group_size,
        "epsilon": epsilon,
        "second_moment": second_moment,
        "cycle": cycle,
        "drift": drift,
        "mean_field": mean_field,
    }
    return {name: run[name](chosen, lambda text: None) for name, chosen in settings.items()}


def drawn(name, section_tables):
    with theme():
        return DRAW[name](section_tables)


def line(axes, gid):
    """(x, y) of the line of that gid."""
    (found,) = [a for a in axes.lines if a.get_gid() == gid]
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def lines(axes, gid):
    return [a for a in axes.lines if a.get_gid() == gid]


def slope(drawn_line):
    """Log-log slope of a line of two points."""
    x, y = np.log(drawn_line.get_xdata()), np.log(drawn_line.get_ydata())
    return (y[1] - y[0]) / (x[1] - x[0])


def test_every_figure_has_a_caption_that_names_its_tables(tables, tmp_path):
    # One panel of drift is enough here, and four times as fast.
    table = tables["drift"]["drift"]
    one = table[(table["policy"] == "tabular") & (table["group_size"] == 4)]
    tables = tables | {"drift": {"drift": one}}
    captions = draw_lab(tables, tmp_path / "all")
    assert list(captions) == [name for name, section, _ in FIGURES if section in tables]
    for name, section, _ in FIGURES:
        if section in tables:
            named = re.findall(r"(\w+)/(\w+)\.csv", captions[name]["caption"])
            assert named
            assert {folder for folder, _ in named} == {section}
            assert {table for _, table in named} <= set(tables[section])
            path = tmp_path / "all" / f"{name}.png"
            assert path.stat().st_size < 150_000
            with Image.open(path) as image:
                assert image.width == 1500  # the report's width at 150 dots an inch
    assert len(list((tmp_path / "all").iterdir())) == len(captions)
    # A missing section draws nothing, and equal tables give equal bytes.
    some = {name: tables[name] for name in ("cycle", "second_moment")}
    again = draw_lab(some, tmp_path / "some")
    assert again == {name: captions[name] for name in ("second_moment", "cycle_bias")}
    files = sorted(path.name for path in (tmp_path / "some").iterdir())
    assert files == ["cycle_bias.png", "second_moment.png"]
    for file in files:
        assert (tmp_path / "some" / file).read_bytes() == (tmp_path / "all" / file).read_bytes()


def test_bias_by_group_size_draws_the_table_and_leaves_what_is_unresolved_hollow(tables):
    table = tables["group_size"]["group_size"]
    table = table[table["objective"] != "gmc_waterfill"].copy()
    here = (table["cap"] == 0.2) & (table["objective"] == "gmc")
    # Planted: a bias at G = 64 that is not resolved, and none at G = 128.
    table.loc[here, "cap_bias_relative"] = [0.4, 0.2, 0.01, 0.0]
    table.loc[here, "cap_bias_relative_se"] = [0.0, 0.0, 0.006, 0.0]
    table.loc[here, "resolved"] = [True, True, False, False]
    figure, _ = drawn("bias_by_group_size", {"group_size": table})
    axes = figure.axes[0]
    x, y = line(axes, "gmc")
    assert list(x) == [2, 4, 64]
    assert list(y) == [0.4, 0.2, 0.01]
    (hollow,) = lines(axes, "gmc:hollow")
    assert list(hollow.get_xdata()) == [64]
    assert hollow.get_markerfacecolor() == "white"
    (zero,) = lines(axes, "gmc:zero")
    assert list(zero.get_xdata()) == [128]
    assert zero.get_markerfacecolor() == "white"
    assert axes.get_ylim()[0] < zero.get_ydata()[0] < 0.01
    (solid,) = lines(axes, "gmc")
    assert solid.get_markerfacecolor() == solid.get_color() == look("gmc").color
    # One bar, of one standard error: from 0.004 to 0.016.
    bars = [s for c in axes.collections for s in c.get_segments() if s[0, 0] == 64 == s[1, 0]]
    ends = [tuple(s[:, 1]) for s in bars if s[:, 1].max() < 0.02]
    assert ends == [pytest.approx((0.004, 0.016))]


def test_bias_by_group_size_marks_the_crossing_and_the_slope_of_the_bound(tables):
    table = tables["group_size"]["group_size"].copy()
    table["ratio_sd"] = 0.8  # eps = sd(r)/sqrt(G) at G = 16 and 4
    figure, _ = drawn("bias_by_group_size", {"group_size": table})
    for axes, group in zip(figure.axes, (16, 4), strict=True):
        assert line(axes, "crossing")[0] == pytest.approx([group, group])
        assert [slope(guide) for guide in lines(axes, "guide")] == pytest.approx([-1])


def test_bias_by_eps_has_three_panels_with_the_claimed_slopes_in_the_first(tables):
    figure, caption = drawn("bias_by_eps", tables["epsilon"])
    worst, lognormal, policies = figure.axes
    assert sorted(slope(guide) for guide in lines(worst, "guide")) == pytest.approx([-2, -1, -1])
    table = tables["epsilon"]["extremal"]
    cells = table[(table["objective"] == "gmc") & (table["group_size"] == 8)]
    assert list(line(worst, "gmc")[1]) == list(cells["mass_loss"])
    assert list(line(worst, "gmc:bound")[1]) == list(cells["bound"])
    assert "G = 8" in caption["caption"]
    table = tables["epsilon"]["lognormal"]
    cells = table[(table["objective"] == "tic_mask") & (table["log_sd"] == 1.0)]
    assert list(line(lognormal, "tic_mask:1")[1]) == list(cells["mass_loss"])
    table = tables["epsilon"]["policies"]
    cells = table[(table["objective"] == "tic_truncate") & (table["updates"] == 8)]
    there = cells[cells["cap_bias_relative"] > 1e-12]
    assert list(line(policies, "tic_truncate:8")[1]) == list(there["cap_bias_relative"])


def test_second_moment_draws_three_paths_and_the_bound(tables):
    table = tables["second_moment"]["second_moment"]
    figure, caption = drawn("second_moment", tables["second_moment"])
    assert [a.get_title().split(":")[0] for a in figure.axes] == ["ascent", "apart", "against"]
    for axes, path in zip(figure.axes, ("ascent", "apart", "against"), strict=True):
        cells = table[(table["path"] == path) & (table["objective"] == "gmc") & (table["kl"] > 0)]
        assert list(line(axes, "gmc")[1]) == list(cells["second_moment"])
        assert list(line(axes, "bound")[1]) == list(cells["bound"])
    # No drift, KL 0, is not on a logarithmic axis: two of three points of the ascent.
    assert len(line(figure.axes[0], "uncapped")[0]) == 2
    assert "that gmc keep" in caption["caption"]


def test_cycle_bias_counts_what_a_log_axis_lacks_and_shows_the_reset(tables):
    table = tables["cycle"]["cycle"]
    figure, _ = drawn("cycle_bias", tables["cycle"])
    std, mean, updates = figure.axes
    first = table[(table["update"] < 3) & (table["lag"] > 0) & (table["objective"] == "grpo")]
    own = first[first["advantage"] == "std"]
    assert list(line(std, "grpo")[0]) == pytest.approx([0.1, 0.2])  # lags 1 and 2 at eta 0.1
    assert list(line(std, "grpo")[1]) == list(own["total_bias_relative"])
    # gmc with mean advantages has no bias until its cap binds: 2 lags, both 0.
    assert [t.get_text() for t in mean.texts if "rounding" in t.get_text()] == [
        "0 to rounding:\ngmc in 2 of 2"
    ]
    x, y = line(updates, "grpo")
    assert list(x) == [0, 1, 2, 3, 4, 5]
    assert (y[[0, 3]] < 1e-12).all()
    assert (y[[1, 2, 4, 5]] > 1e-6).all()
    assert [a.get_xdata()[0] for a in lines(updates, "synchronisation")] == [0, 3]
    assert updates.get_ylim()[0] > 1e-12


def test_mse_by_drift_names_the_winner_of_every_drift(tables):
    table = tables["drift"]["drift"].copy()
    table["winner"] = np.where(table["updates"] == 2, "tic_truncate", "m2po")
    figure, _ = drawn("mse_by_drift", {"drift": table})
    # The first problem at a small and at the largest G, the network's at the largest.
    grid = np.array(figure.axes).reshape(4, 3)
    assert [a.get_title() for a in grid[0]] == [
        "tabular, sparse, 4 responses\nG = 4",
        "tabular, sparse, 4 responses\nG = 8",
        "network, sparse, 4 responses\nG = 8",
    ]
    cells = table[
        (table["policy"] == "tabular") & (table["group_size"] == 4) & (table["objective"] == "gmc")
    ]
    for axes, measure in ((grid[0][0], "mse_relative"), (grid[2][0], "scaled_mse")):
        x, y = line(axes, "gmc")
        assert list(x) == list(cells["kl"])
        assert list(y) == list(cells[measure])
    for band in grid[1]:
        # The names stand in the order of drift, broken after the first underscore.
        assert [t.get_text() for t in band.texts] == ["tic_\ntruncate", "m2po"]
        assert len(band.patches) == 2
    left, right = grid[1][0].patches
    middle = np.sqrt(cells["kl"].prod())
    assert left.get_x() + left.get_width() == pytest.approx(middle) == right.get_x()


def test_winners_counts_the_cells_of_each_kl_and_group_size():
    rows = [
        # Three cells with KL below 0.01 at G = 2; one with KL above 1 at G = 8.
        ("tabular", 2, 0.1, 2, 0.001, "gspo", "gmc"),
        ("tabular", 2, 0.2, 2, 0.001, "gspo", "gmc"),
        ("network", 2, 0.1, 2, 0.005, "grpo", "gmc"),
        ("network", 64, 0.1, 8, 3.0, "tic_mask", "uncapped"),
    ]
    columns = ["policy", "updates", "cap", "group_size", "kl", "winner", "scaled_winner"]
    table = pd.DataFrame(rows, columns=columns).assign(rewards="sparse", vocabulary=4, length=2)
    # A row per objective: a cell counts once.
    figure, caption = drawn("winners", {"drift": pd.concat([table, table])})
    left, right = ({t.get_position(): t.get_text() for t in a.texts} for a in figure.axes)
    assert left[(0, 0.2)] == "gspo 2"
    assert left[(0, -0.16)] == "grpo 1\nof 3"
    assert left[(1, 3.2)] == "tic_mask 1"
    assert left[(1, 0)] == "no cell"
    assert right[(0, 0.2)] == "gmc 3"
    assert right[(0, -0.16)] == "of 3"
    assert "over 2 problems and ε of 0.1, 0.2" in caption["caption"]


@pytest.mark.parametrize(
    ("name", "measures"),
    [("cosine_by_drift", ("cosine", "mass_loss")), ("weights", ("largest_share", "ess"))],
)
def test_figures_by_drift_draw_their_measures(tables, name, measures):
    table = tables["drift"]["drift"]
    figure, _ = drawn(name, tables["drift"])
    grid = np.array(figure.axes).reshape(2, 3)
    cells = table[(table["policy"] == "network") & (table["group_size"] == 8)]
    for axes, measure in zip(grid[:, 2], measures, strict=True):
        for objective in ("uncapped", "grpo", "gspo", "tic_mask", "tic_truncate", "gmc"):
            own = cells[cells["objective"] == objective]
            assert list(line(axes, objective)[0]) == list(own["kl"])
            assert list(line(axes, objective)[1]) == list(own[measure])


def test_mean_field_draws_the_boundary_with_its_closed_form_and_the_quotient(tables):
    figure, _ = drawn("mean_field", tables["mean_field"])
    boundary, budget, equal = figure.axes
    table = tables["mean_field"]["boundary"]
    for horizon in (300, 1200):
        cells = table[table["T"] == horizon]
        assert list(line(boundary, f"T={horizon}")[1]) == list(cells["lr_max"])
    # max(2 nu/(kappa (S - 1)), R/T) with nu 4e-4, R 0.25: R/T at 300; at 1200 growth binds at S = 3.
    closed = [list(drawn_line.get_ydata()) for drawn_line in lines(boundary, "predicted")]
    assert closed == [pytest.approx([0.25 / 300] * 2), pytest.approx([4e-4, 0.25 / 1200])]
    table = tables["mean_field"]["exit_times"]
    assert list(line(budget, "S=17")[1]) == list(table.loc[table["S"] == 17, "budget"])
    table = tables["mean_field"]["equal_lag"]
    cells = table[table["memory"] == 2.0]
    assert list(line(equal, "M=2")[0]) == [1, 4]
    assert list(line(equal, "M=2")[1]) == list(cells["interval_over_delay"])


@pytest.fixture
def async_cells():
    """Delay terms tau^0.8 (8/G)^0.4 of two methods; reference rows without one; a cap's part of a tenth."""
    rows = [("reference", 0, 8, np.nan, 100, np.nan)]
    for tau in (4, 8, 16):
        for size in (2, 8, 32):
            for method, eps in (("gmc", 0.1), ("gmc", 0.2), ("gmc", 0.4), ("uncapped", np.nan)):
                rows.append((method, tau, size, eps, 100, 1e-4 * tau**0.8 * (8 / size) ** 0.4))
    table = pd.DataFrame(rows, columns=["method", "tau", "G", "eps", "N", "delay_term"])
    table["cap_term"] = (table["delay_term"] / 10).where(table["method"] == "gmc")
    for term in ("delay", "cap"):
        table[f"{term}_low"] = table[f"{term}_term"] / 2
        table[f"{term}_high"] = table[f"{term}_term"] * 2
        table[f"{term}_resolved"] = table[f"{term}_low"] > 0
    return table


def test_async_sgd_draws_one_variable_a_panel_at_the_others_middle(async_cells):
    figure, caption = drawn("async_sgd", {"cells": async_cells})
    above, below = np.array(figure.axes).reshape(2, 3)  # one N: no panel
    assert [a.get_xlabel() for a in below] == ["delay τ, updates", "group size G", "slack ε"]
    tau, groups, eps = above
    x, y = line(tau, "gmc")
    assert list(x) == [4, 8, 16]
    assert y == pytest.approx(1e-4 * np.array([4, 8, 16]) ** 0.8)
    assert line(below[0], "gmc")[1] == pytest.approx(y / 10)
    assert lines(below[0], "uncapped") == []  # no cap, no part of it
    assert line(groups, "uncapped")[1] == pytest.approx(
        1e-4 * 8**0.8 * np.array([4.0, 1.0, 0.25]) ** 0.4
    )
    assert list(line(eps, "gmc")[0]) == [0.1, 0.2, 0.4]
    assert lines(eps, "uncapped") == []  # it has no slack
    guides = [slope(guide) for axes in figure.axes for guide in lines(axes, "guide")]
    assert guides == pytest.approx([0.8, -0.4, -0.4] * 2)
    # The interval of gmc at tau 4: half to twice its term.
    (bar, *_) = tau.collections[0].get_segments()
    assert bar == pytest.approx(np.array([[4, y[0] / 2], [4, 2 * y[0]]]))
    assert "tau = 8, G = 8, eps = 0.2, N = 100" in caption["caption"]


def test_async_sgd_leaves_unresolved_cells_hollow_and_negative_ones_on_the_floor(async_cells):
    at = (async_cells["method"] == "gmc") & (async_cells["G"] == 8) & (async_cells["eps"] == 0.2)
    planted = async_cells.copy()
    columns = ["delay_term", "delay_low", "delay_resolved"]
    planted.loc[at & (planted["tau"] == 4), columns] = [-1e-5, -1e-4, False]
    planted.loc[at & (planted["tau"] == 16), columns[1:]] = [-1e-5, False]
    figure, _ = drawn("async_sgd", {"cells": planted})
    axes = figure.axes[0]
    (hollow,) = lines(axes, "gmc:hollow")
    assert hollow.get_ydata()[-1] == pytest.approx(1e-4 * 16**0.8)
    assert hollow.get_markerfacecolor() == "white"
    (zero,) = lines(axes, "gmc:zero")
    assert list(zero.get_xdata()) == [4]
    assert zero.get_markerfacecolor() == "white"
    least = planted.loc[planted["delay_term"] > 0, "delay_term"].min()
    assert axes.get_ylim()[0] < zero.get_ydata()[0] < least
