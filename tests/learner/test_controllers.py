"""The controllers: values by hand, and what they must leave alone."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from driftlaw.learner.controllers import cosine, ess_share, lr_factor, reduce_alignment
from driftlaw.objectives import Batch


def batch_of(log_ratios):
    """One token a response with these log-ratios."""
    log_ratio = torch.tensor(log_ratios, dtype=torch.float64).unsqueeze(1)
    zero = torch.zeros_like(log_ratio)
    ones = torch.ones_like(log_ratio, dtype=torch.bool)
    return Batch(zero, -log_ratio, ones, zero[:, 0], 1)


def test_ess_by_hand():
    # r = (1, 3): (1 + 3)^2 / (1 + 9) = 1.6 of 2; the factor is sqrt(.8).
    assert ess_share(batch_of([0.0, math.log(3)])) == pytest.approx(0.8)
    assert lr_factor(batch_of([0.0, math.log(3)])) == pytest.approx(math.sqrt(0.8))


def test_equal_ratios_leave_the_learning_rate():
    assert lr_factor(batch_of([7.0, 7.0, 7.0])) == pytest.approx(1.0)
    assert lr_factor(batch_of([7.0, 7.0, 7.0])) <= 1.0


@pytest.mark.parametrize("big", [50.0, 1000.0, math.inf])
def test_neither_cap_nor_clamp_and_no_overflow(big):
    """One response holds all weight: ESS 1 of 4, however large its ratio is."""
    assert ess_share(batch_of([0.0, 0.0, 0.0, big])) == pytest.approx(1 / 4)


def test_the_sum_over_tokens_is_what_counts():
    log_ratio = torch.tensor([[5.0, -5.0], [2.0, -2.0]], dtype=torch.float64)
    mask = torch.ones(2, 2, dtype=torch.bool)
    zero = torch.zeros(2, 2, dtype=torch.float64)
    assert ess_share(Batch(zero, -log_ratio, mask, zero[:, 0], 2)) == pytest.approx(1.0)


def test_cosine_by_hand_over_several_parameters():
    # (3, 0 | 4) and (0, 5 | 5): 20 / (5 sqrt(50)).
    a = [torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])]
    b = [torch.tensor([0.0, 5.0]), torch.tensor([[5.0]])]
    assert cosine(a, b) == pytest.approx(20 / (5 * math.sqrt(50)))
    assert cosine(a, None) is None
    assert cosine(a, [torch.zeros(2), torch.zeros(1, 1)]) is None


def test_alignment_is_reduced_to_the_limit():
    # g = (3, 4), p along x: cosine .6. With .28 the x component is 4 * .28 / .96 = 7/6.
    gradient = [torch.tensor([3.0, 4.0], dtype=torch.float64)]
    reduce_alignment(gradient, [torch.tensor([10.0, 0.0], dtype=torch.float64)], 0.28)
    assert gradient[0].tolist() == pytest.approx([7 / 6, 4.0])


@pytest.mark.parametrize("other", [[-3.0, 4.0], [0.0, 4.0], [0.1, 4.0]])
def test_gradients_below_the_limit_pass_unchanged(other):
    gradient = [torch.tensor(other)]
    reduce_alignment(gradient, [torch.tensor([1.0, 0.0])], 0.28)
    assert gradient[0].tolist() == torch.tensor(other).tolist()


def test_a_repeated_gradient_is_removed_whole():
    """Nothing is left across, so nothing may be left along."""
    gradient = [torch.tensor([3.0, 0.0], dtype=torch.float64)]
    reduce_alignment(gradient, [torch.tensor([1.0, 0.0], dtype=torch.float64)], 0.3)
    assert gradient[0].tolist() == pytest.approx([0.0, 0.0], abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), limit=st.floats(0.0, 0.9), along=st.floats(-5.0, 5.0))
def test_the_cosine_never_exceeds_the_limit_and_the_rest_is_kept(seed, limit, along):
    rng = np.random.default_rng(seed)
    previous = [torch.tensor(rng.standard_normal(4)), torch.tensor(rng.standard_normal((2, 3)))]
    gradient = [torch.tensor(rng.standard_normal(p.shape)) + along * p for p in previous]
    before = [g.clone() for g in gradient]
    was = cosine(before, previous)
    reduce_alignment(gradient, previous, limit)
    assert cosine(gradient, previous) == pytest.approx(min(was, limit), abs=1e-9)
    unit = torch.cat([p.flatten() for p in previous])
    unit /= unit.norm()
    for a, b in (
        (torch.cat([x.flatten() for x in gradient]), torch.cat([x.flatten() for x in before])),
    ):
        torch.testing.assert_close(a - (a @ unit) * unit, b - (b @ unit) * unit)
