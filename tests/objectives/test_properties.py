"""Properties that hold for every batch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from driftlaw.objectives import Batch

from .batches import (
    ALL,
    NEED_PROX,
    NORMS,
    SEQUENCE,
    batch_of_ratios,
    evaluate,
    random_batch,
    rows,
)
from .oracle import length_factors

seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 5))
spreads = st.floats(0.0, 3.0)
every_objective = pytest.mark.parametrize("name", ALL)
quick = settings(max_examples=40, deadline=None, derandomize=True)


def assert_same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@every_objective
@quick
@given(seed=seeds, size=sizes, spread=spreads, extra=st.integers(1, 4), norm=st.sampled_from(NORMS))
def test_padding_changes_nothing(name, seed, size, spread, extra, norm):
    batch = random_batch(seed, *size, spread=spread, prox=name)
    nan = torch.full((len(batch.mask), extra), float("nan"), dtype=torch.float64)
    wider = Batch(
        torch.cat([batch.logp.detach(), nan], 1).requires_grad_(),
        torch.cat([batch.behaviour_logp, -nan], 1),
        torch.cat([batch.mask, torch.zeros_like(nan, dtype=torch.bool)], 1),
        batch.advantages,
        batch.group_size,
        torch.cat([batch.prox_logp, nan], 1) if name in NEED_PROX else None,
    )
    result, gradient = evaluate(name, batch, length_norm=norm)
    wide, wide_gradient = evaluate(name, wider, length_norm=norm)
    width = size[2]
    assert_same(wide.loss.detach(), result.loss.detach())
    assert_same(wide.weights[:, :width], result.weights)
    assert_same(wide.raw[:, :width], result.raw)
    assert_same(wide_gradient[:, :width], gradient)
    assert wide.metrics == pytest.approx(result.metrics)
    for padding in (wide.weights, wide.raw, wide_gradient):
        assert not padding[:, width:].any()


@every_objective
@quick
@given(seed=seeds, size=sizes, spread=st.floats(0.01, 3.0), norm=st.sampled_from(NORMS))
def test_order_of_groups_and_of_responses_in_a_group_changes_nothing(
    name, seed, size, spread, norm
):
    """With a spread no two ratios are equal: m2po decides ties by the order of rows."""
    batch = random_batch(seed, *size, spread=spread, prox=name)
    prompts, group_size, _ = size
    rng = np.random.default_rng(seed)
    order = np.concatenate(
        [g * group_size + rng.permutation(group_size) for g in rng.permutation(prompts)]
    )
    result, gradient = evaluate(name, batch, length_norm=norm)
    other, other_gradient = evaluate(name, rows(batch, order), length_norm=norm)
    assert_same(other.loss.detach(), result.loss.detach())
    assert_same(other.weights, result.weights[order])
    assert_same(other_gradient, gradient[order])
    assert other.metrics == pytest.approx(result.metrics)


def split(name, batch, **params):
    """(mean of the groups' losses, their gradients over the number of groups) of single groups."""
    size = batch.group_size
    parts = [
        evaluate(name, rows(batch, range(first, first + size)), **params)
        for first in range(0, len(batch.mask), size)
    ]
    losses = torch.stack([result.loss.detach() for result, _ in parts])
    return losses.mean(), torch.cat([gradient for _, gradient in parts]) / len(parts)


@pytest.mark.parametrize("name", [name for name in ALL if name != "m2po"])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=seeds, size=sizes, spread=spreads, norm=st.sampled_from(["sequence", "constant"]))
def test_a_batch_is_the_mean_of_its_groups(name, seed, size, spread, norm):
    """So gradients accumulate over micro-batches of whole groups; m2po masks over the batch."""
    batch = random_batch(seed, *size, spread=spread, prox=name)
    result, gradient = evaluate(name, batch, length_norm=norm)
    loss, parts = split(name, batch, length_norm=norm)
    assert_same(loss, result.loss.detach())
    assert_same(parts, gradient)


@pytest.mark.parametrize("name", [name for name in ALL if name not in SEQUENCE])
def test_the_token_norm_does_not_split(name):
    """Lengths (1, 1) and (3, 3): n_i = 4/8 in the whole, 1 and 1/3 in the parts."""
    batch = batch_of_ratios([[1.0], [1.0], [1.0] * 3, [1.0] * 3], [1.0, 0.5, 0.0, 2.0], 2)
    _, gradient = evaluate(name, batch, length_norm="token")
    _, parts = split(name, batch, length_norm="token")
    assert gradient[:, 0].tolist() == pytest.approx([-0.125, -0.0625, 0.0, -0.25])
    assert parts[:, 0].tolist() == pytest.approx([-0.25, -0.125, 0.0, -1 / 6])


@pytest.mark.parametrize("norm", NORMS)
def test_m2po_does_not_split(norm):
    """Squares ln^2 1.25 = .0498 and three of 0: a mean of .0124 in the whole, .0249 in a group.

    A threshold of .02 keeps the token in the whole batch and masks it in its own group.
    """
    batch = batch_of_ratios([[1.25], [1.0], [1.0], [1.0]], [1.0, 0.0, 0.0, 0.0], 2)
    params = {"length_norm": norm, "l_max": 1, "m2_threshold": 0.02}
    _, gradient = evaluate("m2po", batch, **params)
    _, parts = split("m2po", batch, **params)
    assert float(gradient[0, 0]) == pytest.approx(-1.25 / 4)
    assert float(parts[0, 0]) == 0.0


@pytest.mark.parametrize("name", [name for name in ALL if name != "gepo"])
@quick
@given(seed=seeds, size=sizes, norm=st.sampled_from(NORMS))
def test_on_policy_the_gradient_is_reinforce(name, seed, size, norm):
    """All ratios 1: -A_i n_i / N on every token, the same for each objective but gepo."""
    batch = random_batch(seed, *size, spread=0.0, prox=name)
    result, gradient = evaluate(name, batch, length_norm=norm, l_max=9)
    own = "sequence" if name in SEQUENCE else norm
    n_i = torch.tensor(length_factors(batch.mask.numpy(), own, 9), dtype=torch.float64)
    reinforce = -(batch.advantages * n_i / len(n_i)).unsqueeze(1) * batch.mask
    assert_same(gradient, reinforce)
    assert_same(result.weights, batch.mask.double())
    assert_same(result.raw, batch.mask.double())
    assert result.metrics["cap_bound_share"] == 0


@every_objective
@quick
@given(seed=seeds, size=sizes, spread=spreads, factor=st.floats(0.1, 10.0))
def test_loss_is_linear_in_positive_factors_of_the_advantage(name, seed, size, spread, factor):
    batch = random_batch(seed, *size, spread=spread, prox=name)
    scaled = Batch(
        batch.logp,
        batch.behaviour_logp,
        batch.mask,
        batch.advantages * factor,
        size[1],
        batch.prox_logp,
    )
    result, gradient = evaluate(name, batch)
    other, other_gradient = evaluate(name, scaled)
    assert_same(other.loss.detach(), result.loss.detach() * factor)
    assert_same(other_gradient, gradient * factor)
    assert torch.equal(other.weights, result.weights)


@every_objective
@quick
@given(seed=seeds, size=sizes, spread=spreads)
def test_caps_only_take_away(name, seed, size, spread):
    """0 <= weight <= raw on every token."""
    result, _ = evaluate(name, random_batch(seed, *size, spread=spread, prox=name))
    assert bool((result.weights >= 0).all())
    assert 0 <= result.metrics["cap_bound_share"] <= 1
    assert bool((result.weights <= result.raw * (1 + 1e-12)).all())
