"""Asynchronous SGD against loops written out, autograd through theta, and planted power laws."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from pydantic import ValidationError

from driftlaw.config.lab_dynamics import AsyncSgdSettings
from driftlaw.objectives import Batch, get
from driftlaw.theory import async_cells
from driftlaw.theory import async_sgd as module
from driftlaw.theory.async_cells import async_sgd, tune
from driftlaw.theory.async_exponents import exponents
from driftlaw.theory.async_sgd import (
    Softmax,
    Trace,
    build,
    log_softmax,
    random_numbers,
    simulate,
    update,
)
from driftlaw.theory.estimators import Objective

SETTINGS = AsyncSgdSettings(responses=5, rewarded=2, flip=0.2, penalty=0.05)
PROBLEM = build(SETTINGS)
METHODS = ("uncapped", "tic_mask", "tic_truncate", "gmc", "gmc_waterfill")


def objective(name, eps=0.1):
    return Objective(name, None if name == "uncapped" else eps)


def test_the_exact_gradient_is_that_of_finite_differences():
    theta = PROBLEM.start_xy + np.random.default_rng(0).standard_normal((2, 5))
    found = PROBLEM.gradient(theta)
    for index in np.ndindex(theta.shape):
        step = np.zeros_like(theta)
        step[index] = 1e-6
        slope = (PROBLEM.value(theta + step) - PROBLEM.value(theta - step)) / 2e-6
        assert found[index] == pytest.approx(slope, abs=1e-9)


def test_value_and_reward_have_the_hand_computed_values():
    # pi = (3/4, 1/4), R = (1, 0) flipped with 0.1: 0.9 * 3/4 + 0.1 / 4 = 0.7; distance log(3)^2.
    problem = Softmax(np.zeros((1, 2)), np.array([[1.0, 0.0]]), 0.1, 0.5)
    theta = np.array([[np.log(3.0), 0.0]])
    assert problem.reward(theta) == pytest.approx(0.7)
    assert problem.value(theta) == pytest.approx(0.7 - 0.25 * np.log(3.0) ** 2)


def test_without_delay_it_is_plain_on_policy_sgd():
    """A loop of its own over prompts and responses, without ratios; all methods agree with it."""
    group_size, updates, lrs = 4, 12, np.array([0.5, 3.0])
    random = random_numbers(3, [0, 1], updates, 2, group_size)
    expected = np.zeros((2, 2))
    for (k, lr), s in itertools.product(enumerate(lrs), range(2)):
        theta = PROBLEM.start_xy.copy()
        for t in range(updates):
            expected[k, s] += (PROBLEM.gradient(theta) ** 2).sum() / updates
            move = np.zeros_like(theta)
            for x in range(2):
                pi = np.exp(theta[x]) / np.exp(theta[x]).sum()
                ladder = pi.cumsum()
                y = [int(np.searchsorted(ladder, u, side="right")) for u in random[t, s, x, :, 0]]
                flips = random[t, s, x, :, 1] < 0.2
                reward = [abs(PROBLEM.reward_xy[x, i] - f) for i, f in zip(y, flips, strict=True)]
                for i in range(group_size):
                    others = (sum(reward) - reward[i]) / (group_size - 1)
                    score = np.eye(5)[y[i]] - pi
                    move[x] += (reward[i] - others) * score / group_size
                move[x] -= 0.05 * (theta[x] - PROBLEM.start_xy[x])
            theta = theta + lr * move / 2
    for name in METHODS:
        found = simulate(PROBLEM, objective(name), [0], lrs, random, [updates])
        np.testing.assert_allclose(found.metric[0, 0], expected, rtol=1e-10)


@pytest.mark.parametrize("kind", ["leave_one_out", "std"])
@pytest.mark.parametrize("name", METHODS[1:])
def test_each_row_gets_the_autograd_of_its_own_groups_loss(name, kind):
    rng = np.random.default_rng(1)
    theta, behaviour = (PROBLEM.start_xy + rng.standard_normal((6, 2, 5)) for _ in range(2))
    random = rng.random((6, 2, 4, 2))
    found = update(PROBLEM, objective(name), theta, behaviour, random, kind)
    loss = get(name, eps=0.1, length_norm="constant", l_max=1)
    bound = 0.0
    for r in range(6):
        leaf = torch.tensor(theta[r], requires_grad=True)
        total = torch.zeros((), dtype=torch.float64)
        for x in range(2):
            mu = np.exp(behaviour[r, x]) / np.exp(behaviour[r, x]).sum()
            y = np.searchsorted(mu.cumsum(), random[r, x, :, 0], side="right")
            reward = np.abs(PROBLEM.reward_xy[x, y] - (random[r, x, :, 1] < 0.2))
            centred = reward - reward.mean()
            scale = 4 / 3 if kind == "leave_one_out" else 1 / (reward.std() + 1e-4)
            result = loss(
                Batch(
                    leaf[x].log_softmax(0)[y][:, None],
                    torch.tensor(np.log(mu[y]))[:, None],
                    torch.ones(4, 1, dtype=torch.bool),
                    torch.tensor(centred * scale),
                    4,
                )
            )
            distance = ((leaf[x] - torch.tensor(PROBLEM.start_xy[x])) ** 2).sum()
            total = total - result.loss - 0.025 * distance
            bound += result.metrics["cap_bound_share"]
        (slope,) = torch.autograd.grad(total / 2, leaf)
        np.testing.assert_allclose(found[r], slope.numpy(), atol=1e-12)
    assert bound > 0


def test_rows_sample_from_the_weights_of_their_own_delay(monkeypatch):
    taus, lrs, seeds = [0, 1, 5], np.array([1.0, 4.0]), 2
    seen = []
    original = module.update

    def traced(problem, objective, theta, behaviour, random, advantage):
        seen.append([theta.copy(), behaviour.copy()])
        return original(problem, objective, theta, behaviour, random, advantage)

    sampled = []
    monkeypatch.setattr(module, "update", traced)
    draw = module.sample
    monkeypatch.setattr(module, "sample", lambda mu, u: sampled.append(mu) or draw(mu, u))
    random = random_numbers(0, range(seeds), 20, 2, 4)
    simulate(PROBLEM, objective("gmc"), taus, lrs, random, [20])
    tau_r = np.repeat(taus, len(lrs) * seeds)
    for t, (theta, behaviour) in enumerate(seen):
        for r, tau in enumerate(tau_r):
            np.testing.assert_array_equal(behaviour[r], seen[max(0, t - tau)][0][r])
        np.testing.assert_array_equal(sampled[t], log_softmax(behaviour))
        # Rows of a positive delay have moved since: the weights differ from the current ones.
        if t > 0:
            assert (np.abs(behaviour - theta).max(axis=(1, 2))[tau_r > 0] > 0).all()


def test_sampling_inverts_the_distribution_function():
    logmu = np.log(np.array([[[0.2, 0.5, 0.3]]]))
    uniform = np.array([[[0.0, 0.19, 0.2, 0.69, 0.71, 0.999]]])
    np.testing.assert_array_equal(module.sample(logmu, uniform), [[[0, 0, 1, 1, 2, 2]]])


def test_uncapped_leave_one_out_estimates_have_mean_grad_j_at_any_delay():
    """All 9 groups of two from three responses, weighted by mu: unbiased though mu is not pi."""
    problem = Softmax(np.zeros((1, 3)), np.array([[1.0, 0.0, 0.0]]), 0.0, 0.0)
    theta, behaviour = np.array([[[0.3, -0.5, 1.0]]]), np.array([[[-0.4, 0.2, 0.1]]])
    mu = np.exp(log_softmax(behaviour))[0, 0]
    middle = mu.cumsum() - mu / 2
    means = {}
    for name in ("uncapped", "gmc"):
        means[name] = np.zeros(3)
        for a, b in itertools.product(range(3), repeat=2):
            random = np.array([middle[a], 0.5, middle[b], 0.5]).reshape(1, 1, 2, 2)
            estimate = update(problem, objective(name), theta, behaviour, random, "leave_one_out")
            means[name] += mu[a] * mu[b] * estimate[0, 0]
    exact = problem.gradient(theta)[0, 0]
    np.testing.assert_allclose(means["uncapped"], exact, atol=1e-14)
    assert np.abs(means["gmc"] - exact).max() > 0.01


def test_horizons_and_random_numbers_nest():
    random = random_numbers(0, [4, 5], 9, 2, 4)
    np.testing.assert_array_equal(random_numbers(0, [5], 6, 2, 4)[:, 0], random[:6, 1])
    lrs = np.array([2.0])
    long = simulate(PROBLEM, objective("tic_mask"), [3], lrs, random, [4, 9])
    short = simulate(PROBLEM, objective("tic_mask"), [3], lrs, random[:4], [4])
    np.testing.assert_array_equal(long.metric[0], short.metric[0])
    np.testing.assert_array_equal(long.reward[0], short.reward[0])


def test_tuning_finds_a_planted_minimum_between_grid_points_and_flags_edges():
    lrs = 0.1 * 2.0 ** np.arange(6)
    best = np.array([0.7, 1.0, 0.01, 99.0])
    metric = np.exp(0.3 * (np.log(lrs) - np.log(best)[:, None]) ** 2 + 1.5)
    lr, value, edge = tune(lrs, metric)
    np.testing.assert_array_equal(edge, [False, False, True, True])
    np.testing.assert_allclose(lr, [0.7, 1.0, 0.1, 3.2])
    np.testing.assert_allclose(value[:2], np.exp(1.5))
    np.testing.assert_allclose(value[2:], metric.min(1)[2:])


def test_a_grid_is_extended_towards_a_best_step_outside_it(monkeypatch):
    best = {0: 30.0, 1: 0.3, 2: 1e-6, 3: 3.0}

    def planted(problem, objective, taus, lrs, random, horizons, advantage):
        metric = [np.log(lrs / best[tau]) ** 2 + 1.0 for tau in taus]
        shaped = np.array(metric)[None, :, :, None] * np.ones((1, 1, 1, 3))
        return Trace(shaped, shaped)

    monkeypatch.setattr(async_cells, "simulate", planted)
    settings = AsyncSgdSettings(first_lr=1.0, lr_factor=2.0, lr_points=4, extensions=4, updates=[9])
    sweeps = async_cells._sweeps(PROBLEM, objective("gmc"), [0, 1, 2, 3], None, settings)
    for tau, sweep in enumerate(sweeps):
        np.testing.assert_allclose(np.log2(sweep.lrs[1:] / sweep.lrs[:-1]), 1.0)
        lr, _, edge = tune(sweep.lrs, sweep.metric.mean(-1))
        assert edge[0] == (tau == 2)
        if tau != 2:
            assert abs(np.log2(lr[0] / best[tau])) < 0.5
    assert len(sweeps[3].lrs) == 4 and len(sweeps[2].lrs) == 4 + 4


def planted_cells(law, noise=0.0):
    rng = np.random.default_rng(0)
    keys = itertools.product([4, 8, 16, 32], [2, 8, 32], [0.1, 0.2, 0.4], [100, 400])
    cells = pd.DataFrame(keys, columns=["tau", "G", "eps", "N"])
    value = 0.02 * np.prod([cells[v] ** e for v, e in law.items()], axis=0)
    cells = cells.assign(method="gmc", at_edge=False, delay_term=value, delay_resolved=True)
    draws = value[:, None] * np.exp(noise * rng.standard_normal((len(cells), 100)))
    return cells, draws


def test_exponents_of_a_planted_power_law_are_recovered():
    law = {"tau": 0.8, "G": -0.4, "eps": -0.3, "N": -0.7}
    cells, draws = planted_cells(law, noise=0.05)
    # Unresolved cells have values that would ruin the fit; the reference rows are no delay terms.
    cells.loc[::7, "delay_resolved"] = False
    cells.loc[::7, "delay_term"] = -1.0
    reference = cells.iloc[:2].assign(method="reference", tau=0, delay_term=np.nan)
    table = exponents(pd.concat([reference, cells]), np.vstack([draws[:2], draws]))
    fitted = table[table["scope"] == "all"].set_index("variable")
    assert set(table["method"]) == {"gmc"}
    for variable, exponent in law.items():
        row = fitted.loc[variable]
        assert row["estimate"] == pytest.approx(exponent, abs=1e-9)
        assert row["low"] < exponent < row["high"]
        assert row["high"] - row["low"] < 0.1
    assert fitted["scatter"].max() < 1e-9
    assert (fitted["cells"] == 61).all() and (fitted["unresolved"] == 11).all()
    assert fitted["claimed"].to_dict() == {"tau": 0.8, "G": -0.4, "eps": -0.4, "N": -0.8}


def test_lines_with_a_cell_unresolved_have_no_part_in_the_line_fit():
    law = {"tau": 0.8, "G": -0.4, "eps": -0.3, "N": -0.7}
    cells, draws = planted_cells(law, noise=0.05)
    # The terms of N = 400 have another law in G; one cell of each of its lines along G is unresolved.
    other = cells["N"] == 400
    cells.loc[other, "delay_term"] *= cells["G"]
    cells.loc[other & (cells["G"] == 8), "delay_resolved"] = False
    table = exponents(cells, draws)
    lines = table[table["scope"] == "lines"].set_index("variable")
    assert lines.loc["G", "estimate"] == pytest.approx(-0.4, abs=1e-9)
    assert lines.loc["G", "low"] < -0.4 < lines.loc["G", "high"]
    # 4 tau x 3 eps lines of 3 cells at N = 100; along tau all lines but the 3 with G = 8, N = 400.
    assert lines.loc["G", "cells"] == 36 and lines.loc["tau", "cells"] == 4 * 15
    assert lines.loc["tau", "estimate"] == pytest.approx(0.8, abs=1e-9)
    joint = table[(table["scope"] == "all") & (table["variable"] == "G")]
    assert joint["estimate"].item() > 0


def test_cells_at_a_grids_edge_are_counted_and_left_out_of_the_inner_fit():
    cells, draws = planted_cells({"tau": 1.0, "G": 0.0, "eps": 0.0, "N": 0.0})
    cells.loc[cells["tau"] == 32, "at_edge"] = True
    cells.loc[cells["tau"] == 32, "delay_term"] *= 3.0
    table = exponents(cells, draws).set_index(["scope", "variable"])
    assert table.loc[("inside", "tau"), "estimate"] == pytest.approx(1.0)
    assert table.loc[("inside", "tau"), "cells"] == 54
    assert table.loc[("all", "tau"), "edge"] == 18
    assert table.loc[("all", "tau"), "estimate"] > 1.2


def test_too_few_resolved_cells_give_no_exponent():
    cells, draws = planted_cells({"tau": 0.8, "G": 0.0, "eps": 0.0, "N": 0.0})
    # Three cells that share no line.
    few = exponents(cells.assign(delay_resolved=cells.index.isin([0, 9, 40])), draws)
    assert few["estimate"].isna().all() and (few["unresolved"] == 69).all()


SMALL = AsyncSgdSettings(
    responses=8, rewarded=2, taus=[0, 16], group_sizes=[2, 8], eps=[0.1, 0.4], updates=[20, 40],
    methods=["tic_mask", "gmc"], lr_points=6, lr_factor=2.0, extensions=1, seeds=4, resamples=40,
)  # fmt: skip


def test_the_experiment_gives_consistent_tables_twice_the_same():
    first, second = (async_sgd(SMALL, lambda text: None) for _ in range(2))
    for name, table in first.items():
        pd.testing.assert_frame_equal(table, second[name], check_exact=True)
    cells = first["cells"]
    # Per G: the reference, uncapped, and 2 methods x 2 eps, each at 2 horizons.
    assert len(cells) == 2 * (1 + 1 + 4) * 2
    keys = ["G", "N"]
    reference = cells[cells["tau"] == 0].set_index(keys)["metric"]
    uncapped = cells[cells["method"] == "uncapped"].set_index(keys)["metric"]
    late = cells[cells["tau"] > 0].set_index(keys)
    np.testing.assert_allclose(late["delay_term"], late["metric"] - reference.loc[late.index])
    capped = late[~late["method"].isin(["uncapped"])]
    np.testing.assert_allclose(capped["cap_term"], capped["metric"] - uncapped.loc[capped.index])
    assert (late["delay_resolved"] == (late["delay_low"] > 0)).all()
    # A tuned metric is at most a parabola below the least of the curve that it was tuned on.
    curve = (
        first["curves"].groupby(["method", "tau", "G", "eps", "N"], dropna=False)["metric"].min()
    )
    tuned = cells.groupby(["method", "tau", "G", "eps", "N"], dropna=False)["metric"].first()
    assert (tuned <= curve * (1 + 1e-12)).all() and (tuned > 0.8 * curve).all()


@pytest.mark.parametrize(
    "bad, message",
    [
        ({"taus": [4, 8]}, "must start with 0"),
        ({"eps": [0.0]}, "greater than 0"),
        ({"methods": ["grpo"]}, "must be one of"),
        ({"responses": 4, "rewarded": 4}, "less than responses"),
        ({"updates": [400, 200]}, "ascending"),
        ({"staleness": 3}, "Extra inputs"),
    ],
)
def test_settings_out_of_range_are_refused(bad, message):
    with pytest.raises(ValidationError, match=message):
        AsyncSgdSettings(**bad)
