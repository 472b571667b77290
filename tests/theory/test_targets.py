"""The three targets: against enumeration, and what the method says of them."""

import numpy as np
import pytest

from driftlaw.theory.estimators import UNCAPPED, Objective
from driftlaw.theory.exact import Point
from driftlaw.theory.groups import all_groups
from driftlaw.theory.moments import moments, targets
from driftlaw.theory.targets import compositions, expected_advantage, importance, on_policy

from .small import sixteen, tiny


def mean_of_uncapped(point, group_size, advantage):
    target = targets(point, group_size, advantage)
    groups = all_groups(point, group_size)
    return moments(point, groups, Objective(UNCAPPED), advantage, target).mean_bxe[0]


@pytest.mark.parametrize("advantage", ["std", "mean", "none"])
@pytest.mark.parametrize("reward", ["sparse", "dense", "noisy"])
@pytest.mark.parametrize("group_size", [2, 3, 4])
def test_targets_against_enumeration_of_groups(advantage, reward, group_size):
    point = tiny("network", reward)
    found = importance(point, group_size, advantage)
    assert found == pytest.approx(mean_of_uncapped(point, group_size, advantage), abs=1e-14)
    # (b) is the same with pi as the sampler, where every ratio is 1.
    synchronised = Point(point.problem, point.theta_pi, point.theta_pi)
    found = on_policy(point, group_size, advantage)
    expected = mean_of_uncapped(synchronised, group_size, advantage)
    assert found == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("group_size", [2, 5, 64, 512])
@pytest.mark.parametrize("policy", ["tabular", "network"])
def test_without_std_the_uncapped_mean_is_the_true_gradient_times_1_minus_1_over_g(
    policy, group_size
):
    point = sixteen(policy, updates=64)
    assert point.ratio_sd > 1
    expected = (1 - 1 / group_size) * point.gradient
    for target in (importance, on_policy):
        found = point.to_parameters(target(point, group_size, "mean"))
        assert found == pytest.approx(expected, abs=1e-13)
        none = point.to_parameters(target(point, group_size, "none"))
        assert none == pytest.approx(point.gradient, abs=1e-13)


@pytest.mark.parametrize(("reward", "group_size"), [("sparse", 4), ("sparse", 64), ("dense", 3)])
def test_with_std_peers_of_the_behaviour_policy_give_another_target(reward, group_size):
    point = sixteen(reward=reward, updates=24)
    vector_b, vector_c = (
        point.to_parameters(target(point, group_size, "std")) for target in (on_policy, importance)
    )
    assert np.linalg.norm(vector_c - vector_b) > 0.01 * np.linalg.norm(vector_b)


@pytest.mark.parametrize("group_size", [2, 3])
def test_two_rewards_and_groups_of_two_or_three_are_an_exception(group_size):
    # With q = P(a peer's reward is 1), G = 3, delta = 0: a(1) = sqrt 2 (1-q)^2 + sqrt(1/2) 2q(1-q) and
    # a(0) = -sqrt(1/2) 2q(1-q) - sqrt 2 q^2, so a(1) - a(0) = sqrt 2 whatever q; G = 2: 1. Only this
    # difference matters (a constant is a baseline), so (c) = (b), up to delta for G = 3.
    point = sixteen(updates=24)
    vector_b, vector_c = (
        point.to_parameters(target(point, group_size, "std")) for target in (on_policy, importance)
    )
    assert vector_c == pytest.approx(vector_b, rel=1e-4, abs=1e-6)


def test_expected_advantage_by_hand():
    # G = 3, rewards 0 and 1, P(1) = 1/4. A response of reward 1 has peers (0,0) with 9/16: A is
    # (1 - 1/3)/(sqrt(2)/3 + 1e-4); one 1, 6/16: (1 - 2/3)/(sqrt(2)/3 + 1e-4); both 1: 0.
    deviation = 2**0.5 / 3 + 1e-4
    high = (9 * 2 / 3 + 6 * 1 / 3) / 16 / deviation
    low = -(6 * 1 / 3 + 1 * 2 / 3) / 16 / deviation
    found = expected_advantage(np.array([0.0, 1.0]), np.array([0.75, 0.25]), 3, "std")
    assert found == pytest.approx([low, high])
    found = expected_advantage(np.array([0.0, 1.0]), np.array([0.75, 0.25]), 3, "mean")
    assert found == pytest.approx([-2 / 3 * 0.25, 2 / 3 * 0.75])


def test_a_reward_without_probability_is_no_trouble():
    found = expected_advantage(np.array([0.0, 1.0]), np.array([1.0, 0.0]), 4, "std")
    # All peers have reward 0: a response of reward 0 has A = 0, one of reward 1 has 3/4 over
    # sqrt(3)/4 + delta.
    assert found == pytest.approx([0.0, 0.75 / (3**0.5 / 4 + 1e-4)])


def test_compositions():
    assert compositions(2, 3).tolist() == [
        [0, 0, 2],
        [0, 1, 1],
        [0, 2, 0],
        [1, 0, 1],
        [1, 1, 0],
        [2, 0, 0],
    ]
    assert compositions(511, 2).sum(1).tolist() == [511] * 512
    assert len(compositions(10, 4)) == 286
    with pytest.raises(ValueError, match="allowed"):
        compositions(511, 5)
