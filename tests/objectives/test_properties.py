"""Properties that hold for every batch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from driftlaw.objectives import Batch

from .batches import NAMES, NORMS, TRAJECTORY, evaluate, random_batch, reordered
from .oracle import length_factors

seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 5))
spreads = st.floats(0.0, 3.0)
every_objective = pytest.mark.parametrize("name", NAMES)
quick = settings(max_examples=40, deadline=None)


def assert_same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@every_objective
@quick
@given(seed=seeds, size=sizes, spread=spreads, extra=st.integers(1, 4), norm=st.sampled_from(NORMS))
def test_padding_changes_nothing(name, seed, size, spread, extra, norm):
    batch = random_batch(seed, *size, spread=spread)
    nan = torch.full((len(batch.mask), extra), float("nan"), dtype=torch.float64)
    wider = Batch(
        torch.cat([batch.logp.detach(), nan], 1).requires_grad_(),
        torch.cat([batch.behaviour_logp, -nan], 1),
        torch.cat([batch.mask, torch.zeros_like(nan, dtype=torch.bool)], 1),
        batch.advantages,
        batch.group_size,
    )
    result, gradient = evaluate(name, batch, length_norm=norm)
    wide, wide_gradient = evaluate(name, wider, length_norm=norm)
    width = size[2]
    assert_same(wide.loss.detach(), result.loss.detach())
    assert_same(wide.weights[:, :width], result.weights)
    assert_same(wide_gradient[:, :width], gradient)
    for padding in (wide.weights, wide.raw, wide_gradient):
        assert not padding[:, width:].any()


@every_objective
@quick
@given(seed=seeds, size=sizes, spread=spreads, norm=st.sampled_from(NORMS))
def test_order_of_groups_and_of_responses_in_a_group_changes_nothing(
    name, seed, size, spread, norm
):
    batch = random_batch(seed, *size, spread=spread)
    prompts, group_size, _ = size
    rng = np.random.default_rng(seed)
    order = np.concatenate(
        [g * group_size + rng.permutation(group_size) for g in rng.permutation(prompts)]
    )
    result, gradient = evaluate(name, batch, length_norm=norm)
    other, other_gradient = evaluate(name, reordered(batch, order), length_norm=norm)
    assert_same(other.loss.detach(), result.loss.detach())
    assert_same(other.weights, result.weights[order])
    assert_same(other_gradient, gradient[order])
    assert other.metrics == pytest.approx(result.metrics)


@every_objective
@quick
@given(seed=seeds, size=sizes, norm=st.sampled_from(NORMS))
def test_on_policy_the_gradient_is_reinforce(name, seed, size, norm):
    """All ratios 1: -A_i n_i / N on every token, the same for each objective."""
    batch = random_batch(seed, *size, spread=0.0)
    result, gradient = evaluate(name, batch, length_norm=norm, l_max=9)
    n_i = torch.tensor(length_factors(batch.mask.numpy(), norm, 9), dtype=torch.float64)
    reinforce = -(batch.advantages * n_i / len(n_i)).unsqueeze(1) * batch.mask
    assert_same(gradient, reinforce)
    assert_same(result.weights, batch.mask.double())
    assert result.metrics["cap_bound_share"] == 0


@quick
@given(seed=seeds, size=sizes, spread=spreads, eps=st.floats(0.0, 2.0))
def test_group_mass_cap(seed, size, spread, eps):
    """Mean weight min(mean r, 1 + eps); w_i / w_j = r_i / r_j; below the cap w = r, bit for bit."""
    result, _ = evaluate("gmc", random_batch(seed, *size, spread=spread), eps=eps)
    ratio, weight = (x[:, 0].view(-1, size[1]) for x in (result.raw, result.weights))
    under = ratio.sum(1) <= size[1] * (1 + eps)
    assert bool((weight.mean(1) <= (1 + eps) * (1 + 1e-12)).all())
    assert_same(weight.mean(1), ratio.mean(1).clamp(max=1 + eps))
    assert torch.equal(weight[under], ratio[under])
    assert_same(weight / weight[:, :1], ratio / ratio[:, :1])
    assert bool((weight <= ratio).all())
    assert result.metrics["cap_bound_share"] == pytest.approx(float((~under).double().mean()))


@pytest.mark.parametrize("name", TRAJECTORY)
@quick
@given(seed=seeds, size=sizes, spread=spreads, eps=st.floats(0.0, 2.0))
def test_trajectory_weights_stay_in_their_class(name, seed, size, spread, eps):
    """0 <= w_i <= r_i and (1/G) sum w_i <= 1 + eps: the class in which the cap is the best."""
    result, _ = evaluate(name, random_batch(seed, *size, spread=spread), eps=eps)
    weight = result.weights[:, 0].view(-1, size[1])
    assert bool((result.weights >= 0).all())
    assert bool((result.weights <= result.raw).all())
    assert bool((weight.mean(1) <= (1 + eps) * (1 + 1e-12)).all())


@quick
@given(seed=seeds, size=sizes, spread=spreads, eps=st.floats(0.0, 2.0))
def test_mass_loss_is_ordered_mask_truncate_group(seed, size, spread, eps):
    """(1/G) sum |r - w|: the group cap attains (mean r - 1 - eps)_+, the least possible."""
    loss = {}
    for name in TRAJECTORY:
        result, _ = evaluate(name, random_batch(seed, *size, spread=spread), eps=eps)
        loss[name] = (result.raw - result.weights)[:, 0].view(-1, size[1]).mean(1)
        mean_ratio = result.raw[:, 0].view(-1, size[1]).mean(1)
    assert_same(loss["gmc"], (mean_ratio - 1 - eps).clamp(min=0))
    slack = 1e-9 * (1 + mean_ratio)
    assert bool((loss["gmc"] <= loss["tic_truncate"] + slack).all())
    assert bool((loss["tic_truncate"] <= loss["tic_mask"] + slack).all())


@every_objective
@quick
@given(seed=seeds, size=sizes, spread=spreads, factor=st.floats(0.1, 10.0))
def test_loss_is_linear_in_positive_factors_of_the_advantage(name, seed, size, spread, factor):
    batch = random_batch(seed, *size, spread=spread)
    scaled = Batch(batch.logp, batch.behaviour_logp, batch.mask, batch.advantages * factor, size[1])
    result, _ = evaluate(name, batch)
    other, _ = evaluate(name, scaled)
    assert_same(other.loss.detach(), result.loss.detach() * factor)
    assert torch.equal(other.weights, result.weights)
