"""Expected reward, its gradient, KL and drift: closed forms and finite differences."""

import numpy as np
import pytest
import torch

from driftlaw.config.lab import ProblemSettings
from driftlaw.theory.exact import ascend, drifted, expected_reward, gradient
from driftlaw.theory.problems import build

from .small import bandit, finite_differences, tiny


def test_bandit_by_hand():
    point = bandit()
    # J = 3/4; dJ/dtheta = pi_0 pi_1 (1, -1) = 3/16 (1, -1).
    assert point.reward == pytest.approx(0.75)
    assert point.gradient == pytest.approx([3 / 16, -3 / 16])
    # KL = 3/4 ln(3/2) + 1/4 ln(1/2); r = (3/2, 1/2), so Var r = 1/4.
    assert point.kl == pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5))
    assert point.ratio_sd == pytest.approx(0.5)


@pytest.mark.parametrize("policy", ["tabular", "network"])
@pytest.mark.parametrize("reward", ["sparse", "dense", "noisy"])
def test_gradient_against_finite_differences(policy, reward):
    problem = tiny(policy, reward).problem
    expected = finite_differences(lambda v: expected_reward(problem, v).numpy(), problem.start)
    assert gradient(problem, problem.start).numpy() == pytest.approx(expected, abs=1e-9)


def test_gradient_is_the_score_weighted_sum():
    point = tiny("network", "dense")
    tree, total = point.problem.tree, 0.0
    for x in range(2):
        for y in range(4):
            score = sum(point.score_xed[x, e] for e in tree.edge_yl[y])
            probability = np.exp(point.logpi_xyl[x, y].sum())
            total = total + probability * point.problem.expected_reward_xy[x, y] * score / 2
    assert point.gradient == pytest.approx(total, abs=1e-14)


def test_ten_thousand_responses():
    problem = build(ProblemSettings(vocabulary=10, length=4, prompts=1, rewarded=1000))
    found = gradient(problem, problem.start)
    direction = found / found.norm()
    ahead, behind = (
        expected_reward(problem, problem.start + sign * 1e-4 * direction) for sign in (1, -1)
    )
    assert float((ahead - behind) / 2e-4) == pytest.approx(float(found.norm()), rel=1e-6)


def test_rewards():
    sparse = build(ProblemSettings(rewarded=3))
    assert sparse.reward_xo.sum(axis=1).tolist() == [3.0, 3.0]
    dense = build(ProblemSettings(reward="dense"))
    # Four tokens, two positions: 1 response matches both, 6 match one, 9 none.
    values, counts = np.unique(dense.reward_xo[0], return_counts=True)
    assert values.tolist() == [0.0, 0.5, 1.0]
    assert counts.tolist() == [9, 6, 1]
    noisy = build(ProblemSettings(reward="noisy", flip=0.1))
    # E[R | y] is 0.9 for the rewarded responses of `sparse` and 0.1 for the others.
    expected = np.where(build(ProblemSettings()).reward_xo == 1, 0.9, 0.1)
    assert noisy.expected_reward_xy == pytest.approx(expected)


def test_both_policies_are_given_the_same_rewards():
    assert np.array_equal(
        build(ProblemSettings()).reward_xo, build(ProblemSettings(policy="network")).reward_xo
    )


def test_drift_is_exact_ascent():
    problem = tiny().problem
    theta = problem.start
    for _ in range(3):
        theta = theta + 0.7 * gradient(problem, theta)
    assert torch.equal(ascend(problem, problem.start, 3, 0.7), theta)
    point = drifted(problem, 0, 0.7)
    assert point.kl == 0.0
    assert point.ratio_sd == 0.0
    rewards = [drifted(problem, k, 0.7).reward for k in range(5)]
    assert rewards == sorted(rewards)


def test_norms_in_edge_space_are_those_of_the_vector():
    point = tiny("network")
    coefficient_xe = np.random.default_rng(0).standard_normal((2, 6))
    for x in range(2):
        vector = coefficient_xe[x] @ point.score_xed[x]
        assert point.squared(coefficient_xe)[x] == pytest.approx(vector @ vector)
    one = coefficient_xe[0] @ point.score_xed[0] + coefficient_xe[1] @ point.score_xed[1]
    assert point.to_parameters(coefficient_xe) == pytest.approx(one / 2)
