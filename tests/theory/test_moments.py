"""Exact moments against brute force over ordered groups, and samples against exact moments."""

from itertools import product

import numpy as np
import pytest

from driftlaw.objectives import CATALOG
from driftlaw.streams import generator
from driftlaw.theory.estimators import COUPLED, UNCAPPED, Objective, objectives
from driftlaw.theory.groups import all_groups, multisets, sample_groups
from driftlaw.theory.measures import measures
from driftlaw.theory.moments import moments, targets

from .small import bandit, sixteen, tiny


def measured(point, groups, objective, advantage="std"):
    target = targets(point, groups.outcome_xmg.shape[2], advantage)
    return measures(point, moments(point, groups, objective, advantage, target), target)


def test_bandit_by_hand():
    # mu = (1/2, 1/2), pi = (3/4, 1/4), so r = (3/2, 1/2); rewards (1, 0); G = 2; A = R - mean.
    # grad log pi = (1/4)(1, -1) for response 0, (-3/4)(1, -1) for response 1. Only the group {0, 1},
    # with probability 1/2, has A = (1/2, -1/2); {0, 0} and {1, 1} have A = 0.
    #
    # uncapped  g = (1/2) [3/2 1/2 1/4 + 1/2 1/2 3/4] (1, -1) = 3/16 (1, -1), so E g = 3/32 (1, -1)
    #           = (1 - 1/2) grad J, and E|g|^2 = (1/2) 2 (3/16)^2 = 9/256
    # truncate  w_0 = 6/5: (1/2) [3/20 + 3/16] = 27/160, so E g = 27/320: bias 3/320 sqrt(2)
    #           mass loss (1/2) (3/2 - 6/5) = 3/20
    # mask      w_0 = 0:   (1/2) 3/16 = 3/32, so E g = 3/64: bias 3/64 sqrt(2); mass loss 1/2 3/2
    # gmc       {0, 1} has mean ratio 1 and is not capped: no bias; {0, 0} loses 3/2 - 6/5 with
    #           probability 1/4: mass loss 3/40
    point = bandit()
    groups = all_groups(point, 2)

    def find(name, eps=None):
        return measured(point, groups, Objective(name, eps), "mean")

    plain = find(UNCAPPED)
    assert plain["second_moment"] == pytest.approx(9 / 256)
    assert plain["cap_bias"] == pytest.approx(0.0, abs=1e-15)
    assert plain["cosine"] == pytest.approx(1.0)
    assert plain["trace_cov"] == pytest.approx(9 / 256 - 2 * (3 / 32) ** 2)
    truncate, mask, gmc = find("tic_truncate", 0.2), find("tic_mask", 0.2), find("gmc", 0.2)
    assert truncate["cap_bias"] == pytest.approx(3 / 320 * 2**0.5)
    assert truncate["mass_loss"] == pytest.approx(3 / 20)
    assert mask["cap_bias"] == pytest.approx(3 / 64 * 2**0.5)
    assert mask["mass_loss"] == pytest.approx(3 / 4)
    assert gmc["cap_bias"] == pytest.approx(0.0, abs=1e-15)
    assert gmc["mass_loss"] == pytest.approx(3 / 40)
    # Largest weights of gmc: 6/5, 3/2, 1/2 on {0,0}, {0,1}, {1,1}; ESS/G: 1, 4/(9/4 + 1/4)/2, 1.
    assert gmc["largest_weight"] == pytest.approx((6 / 5 + 2 * 3 / 2 + 1 / 2) / 4)
    assert gmc["largest_share"] == pytest.approx((1 / 2 + 2 * 3 / 4 + 1 / 2) / 4)
    assert gmc["ess"] == pytest.approx((1 + 2 * 0.8 + 1) / 4)
    # E g is 27/320 (1, -1), (b) is 3/32 (1, -1) for pi's peers too: mse adds bias^2 and variance.
    variance = 2 * (27 / 160) ** 2 / 2 - 2 * (27 / 320) ** 2
    assert truncate["mse"] == pytest.approx(2 * (3 / 320) ** 2 + variance)


def test_gmc_by_brute_force_over_ordered_groups():
    point, eps, size = tiny("network", "dense"), 0.05, 3
    tree, x_count = point.problem.tree, 2
    mean, trace, loss = 0.0, 0.0, 0.0
    for x in range(x_count):
        mu_y = np.exp(point.logmu_xyl[x].sum(1))
        first, second = 0.0, 0.0
        for members in product(range(4), repeat=size):
            probability = np.prod([mu_y[y] for y in members])
            reward = np.array([point.problem.reward_xo[x][y] for y in members])
            centred = reward - reward.mean()
            advantage = centred / (reward.std() + 1e-4) if np.ptp(reward) else 0 * centred
            ratio = np.array([point.ratio_xy[x][y] for y in members])
            weight = ratio * min(1.0, size * (1 + eps) / ratio.sum())
            score = [sum(point.score_xed[x][e] for e in tree.edge_yl[y]) for y in members]
            g = sum(w * a * s for w, a, s in zip(weight, advantage, score, strict=True)) / size
            first = first + probability * g
            second = second + probability * (g @ g)
            loss += probability * np.abs(ratio - weight).mean() / x_count
        mean = mean + first / x_count
        trace += (second - first @ first) / x_count**2
    found = measured(point, all_groups(point, size), Objective("gmc", eps))
    assert loss > 0.01  # the cap binds
    assert found["mass_loss"] == pytest.approx(loss, rel=1e-12)
    assert found["trace_cov"] == pytest.approx(trace, rel=1e-12)
    assert found["second_moment"] == pytest.approx(trace + mean @ mean, rel=1e-12)
    cosine = mean @ point.gradient / np.linalg.norm(mean) / np.linalg.norm(point.gradient)
    assert found["cosine"] == pytest.approx(cosine, rel=1e-12)


def test_mass_loss_counts_weights_above_the_ratio_too():
    # Token ratios without a clip: w is the mean of two token ratios, above or below their product r.
    point, expected = tiny(), 0.0
    for x in range(2):
        for mu, pi in zip(point.logmu_xyl[x], point.logpi_xyl[x], strict=True):
            tokens = np.exp(pi - mu)
            expected += np.exp(mu.sum()) * abs(tokens.prod() - tokens.mean()) / 2
    found = measured(point, all_groups(point, 2), Objective("grpo_noclip"))
    assert found["mass_loss"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", [n for n in CATALOG if n not in COUPLED])
def test_multisets_stand_for_all_orders(name):
    point = tiny("tabular", "noisy")
    objective = next(o for o in objectives(0.1) if o.name == name)
    by_multiset = measured(point, all_groups(point, 3), objective, "std")
    by_order = measured(point, all_groups(point, 3, ordered=True), objective, "std")
    assert by_multiset == pytest.approx(by_order, rel=1e-9, abs=1e-14)


def test_multisets_by_hand():
    member_mg, orders_m = multisets(2, 3)
    assert member_mg.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]]
    assert orders_m.tolist() == [1, 3, 3, 1]
    # 6!/(2! 2! 2!) orders of {0,0,1,1,2,2}; all orders together are 3^6.
    member_mg, orders_m = multisets(3, 6)
    assert orders_m[(member_mg == [0, 0, 1, 1, 2, 2]).all(1)].tolist() == [90]
    assert orders_m.sum() == 3**6


def test_probabilities_of_groups_sum_to_one():
    point = sixteen("network", "noisy")
    assert all_groups(point, 3).probability_xm.sum(1) == pytest.approx([1.0, 1.0])


def test_too_many_groups_are_refused():
    with pytest.raises(ValueError, match="too many"):
        all_groups(sixteen(), 12)


@pytest.mark.parametrize("reward", ["sparse", "dense", "noisy"])
def test_samples_agree_with_exact_moments(reward):
    point = sixteen("network", reward, updates=10)
    exact_groups = all_groups(point, 3)
    sample = sample_groups(point, 3, 20_000, 20, generator((1, 16, 99)))
    scores = []
    for objective in objectives(0.2):
        if objective.name in COUPLED:
            continue
        exact = measured(point, exact_groups, objective, objective.advantage)
        found = measured(point, sample, objective, objective.advantage)
        for name in exact:
            if not name.endswith("_se") and found[f"{name}_se"] > 1e-12:
                scores.append((found[name] - exact[name]) / found[f"{name}_se"])
    scores = np.abs(scores)
    assert len(scores) > 150
    # The measures share their groups, so the scores go together: 3 standard errors for 99 in 100.
    assert np.mean(scores < 3) > 0.99
    assert scores.max() < 4.5


def test_coupled_objective_by_order():
    point = tiny(updates=12)
    exact = measured(point, all_groups(point, 2, ordered=True), Objective("m2po"))
    sample = sample_groups(point, 2, 800, 20, generator((0, 16, 98)))
    found = measured(point, sample, Objective("m2po"))
    for name in ("second_moment", "mass_loss", "cap_bias_squared"):
        assert abs(found[name] - exact[name]) < 3 * found[f"{name}_se"]


def test_standard_errors_are_the_spread_over_samples():
    point, objective = sixteen(updates=24), Objective("tic_truncate", 0.2)
    found = [
        measured(point, sample_groups(point, 8, 400, 20, generator((s, 16, 97))), objective)
        for s in range(60)
    ]
    # 60 samples know a standard deviation to 9 %.
    for name in ("cap_bias_squared", "total_bias_squared", "second_moment", "mass_loss", "ess"):
        spread = np.std([f[name] for f in found], ddof=1)
        stated = np.mean([f[f"{name}_se"] for f in found])
        assert stated == pytest.approx(spread, rel=0.3), name


def test_squared_bias_is_debiased():
    # 40 groups a sample: without debiasing tr(S)/M would dwarf the bias.
    point, objective = sixteen(updates=24), Objective("tic_truncate", 0.2)
    exact = measured(point, all_groups(point, 4), objective)["cap_bias_squared"]
    found = np.array(
        [
            measured(point, sample_groups(point, 4, 40, 20, generator((s, 16, 96))), objective)[
                "cap_bias_squared"
            ]
            for s in range(300)
        ]
    )
    assert abs(found.mean() - exact) < 3 * found.std() / 300**0.5


def test_scaled_error_is_the_best_over_scales():
    point, target = sixteen(), targets(sixteen(), 3, "std")
    found = moments(point, all_groups(point, 3), Objective("grpo", 0.2), "std", target)
    value = measures(point, found, target)
    mean, on = point.to_parameters(found.mean_bxe[0]), point.to_parameters(target.on_policy)
    scales = np.linspace(-1, 3, 4001)
    errors = scales**2 * value["second_moment"] - 2 * scales * (mean @ on) + on @ on
    assert value["scaled_mse"] == pytest.approx(errors.min() / (on @ on), rel=1e-6)
    assert value["mse"] == pytest.approx(errors[np.argmin(np.abs(scales - 1))], rel=1e-9)
