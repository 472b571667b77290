"""Advantages from rewards: values by hand, and the cases in which rounding could decide."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftlaw.training.cohorts import advantages


def advantage(rewards, group_size, normalise="std", delta=1e-4):
    return advantages(np.array(rewards, dtype=float), group_size, normalise, delta)


# (1, 0, 0, 0): mean 1/4, population variance 3/16, std sqrt(3)/4.
# (1, 1, 0, 0): mean 1/2, std 1/2.
SPARSE = [0.75, -0.25, -0.25, -0.25]
HALF = [0.5, 0.5, -0.5, -0.5]
REWARDS = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def test_standardised_by_the_population_deviation_plus_delta():
    expected = [v / (np.sqrt(3) / 4 + 1e-4) for v in SPARSE] + [v / 0.5001 for v in HALF]
    assert advantage(REWARDS, 4) == pytest.approx(expected, rel=1e-14)


def test_delta_is_added_to_the_deviation():
    # std 1/2, delta 1/2: the divisor is 1. With delta 0 the values are +-1.
    assert advantage(REWARDS[4:], 4, delta=0.5) == pytest.approx(HALF)
    assert advantage(REWARDS[4:], 4, delta=0.0) == pytest.approx([1.0, 1.0, -1.0, -1.0])


def test_mean_and_none():
    assert advantage(REWARDS, 4, "mean") == pytest.approx(SPARSE + HALF)
    assert advantage(REWARDS, 4, "none").tolist() == REWARDS


def test_none_is_a_copy():
    rewards = np.array([0.5, 1.0])
    advantages(rewards, 2, "none", 1e-4)[0] = 7.0
    assert rewards.tolist() == [0.5, 1.0]


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, 0.3, 1 / 3, 0.7, 1e-9])
@pytest.mark.parametrize("group_size", [2, 3, 7, 10])
@pytest.mark.parametrize("normalise", ["std", "mean"])
@pytest.mark.parametrize("delta", [1e-4, 0.0])
def test_equal_rewards_have_advantage_exactly_zero(reward, group_size, normalise, delta):
    """The mean of 3 x 0.1 is not 0.1 in floating point; nothing of that may become a gradient."""
    found = advantage([reward] * group_size + [0.0] * (group_size - 1) + [1.0], group_size)
    assert found[:group_size].tolist() == [0.0] * group_size
    assert found[-1] > 0
    alone = advantage([reward] * group_size, group_size, normalise, delta)
    assert alone.tolist() == [0.0] * group_size


def test_groups_do_not_mix():
    alone = advantage(REWARDS[:4], 4)
    assert advantage(REWARDS, 4)[:4].tolist() == alone.tolist()


rewards = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), min_size=2, max_size=16)


@settings(max_examples=200, deadline=None)
@given(rewards=rewards, shift=st.floats(-2, 2), scale=st.floats(0.5, 4))
def test_invariances(rewards, shift, scale):
    """Without delta, A is invariant under R -> a R + b, sums to 0, and |A| <= sqrt(G - 1)."""
    g = len(rewards)
    found = advantage(rewards, g, delta=0.0)
    moved = advantage([scale * r + shift for r in rewards], g, delta=0.0)
    if len(set(rewards)) > 1:
        assert moved == pytest.approx(found, abs=1e-9)
        assert np.mean(found**2) == pytest.approx(1.0)
    assert found.sum() == pytest.approx(0.0, abs=1e-9)
    assert np.abs(found).max() <= np.sqrt(g - 1) * (1 + 1e-9)
