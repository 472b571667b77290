"""Properties of the trajectory family's weights: the class of group-mass capping and its optima."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from .batches import TRAJECTORY, batch_of_log_ratios, batch_of_ratios, evaluate, random_batch
from .test_properties import assert_same, quick, seeds, sizes, spreads

radii = st.floats(0.0, 2.0)


def by_group(result, group_size):
    """(raw, weights), P x G: the first token's of each response."""
    return (x[:, 0].view(-1, group_size) for x in (result.raw, result.weights))


def mass_loss(result, group_size):
    """(1/G) sum |r - w|, P."""
    ratio, weight = by_group(result, group_size)
    return (ratio - weight).abs().mean(1)


@pytest.mark.parametrize("through_gradient", [False, True])
@quick
@given(seed=seeds, size=sizes, spread=spreads, eps=radii)
def test_group_mass_cap(through_gradient, seed, size, spread, eps):
    """Mean weight min(mean r, 1 + eps); w_i / w_j = r_i / r_j; below the cap w = r, bit for bit."""
    batch = random_batch(seed, *size, spread=spread)
    result, _ = evaluate("gmc", batch, eps=eps, through_gradient=through_gradient)
    ratio, weight = by_group(result, size[1])
    under = ratio.sum(1) <= size[1] * (1 + eps)
    assert bool((weight.mean(1) <= (1 + eps) * (1 + 1e-12)).all())
    assert_same(weight.mean(1), ratio.mean(1).clamp(max=1 + eps))
    assert torch.equal(weight[under], ratio[under])
    assert_same(weight / weight[:, :1], ratio / ratio[:, :1])
    assert bool((weight <= ratio).all())
    assert result.metrics["cap_bound_share"] == pytest.approx(float((~under).double().mean()))


@quick
@given(seed=seeds, size=sizes, spread=spreads, eps=radii)
def test_water_filling(seed, size, spread, eps):
    """w = min(r, c): mean weight min(mean r, 1 + eps), order kept, one level for all above it."""
    result, _ = evaluate("gmc_waterfill", random_batch(seed, *size, spread=spread), eps=eps)
    ratio, weight = by_group(result, size[1])
    torch.testing.assert_close(weight.mean(1), ratio.mean(1).clamp(max=1 + eps), rtol=1e-12, atol=0)
    assert bool((weight <= ratio).all())
    ordered = torch.gather(weight, 1, ratio.argsort(1))
    assert bool((ordered.diff(dim=1) >= 0).all())
    under = ratio.mean(1) <= 1 + eps
    assert torch.equal(weight[under], ratio[under])
    for r, w in zip(ratio, weight, strict=True):
        assert w[w < r].unique().numel() <= 1
        assert bool((w <= w[w < r].max()).all()) if bool((w < r).any()) else torch.equal(w, r)


@quick
@given(seed=seeds, size=sizes, spread=spreads, eps=radii)
def test_water_filling_against_the_rescale(seed, size, spread, eps):
    """Same mass loss, the least possible; a smaller largest weight and a larger ESS."""
    batch = random_batch(seed, *size, spread=spread)
    rescaled, _ = evaluate("gmc", batch, eps=eps)
    filled, _ = evaluate("gmc_waterfill", batch, eps=eps)
    assert_same(mass_loss(filled, size[1]), mass_loss(rescaled, size[1]))
    (_, w_rescaled), (_, w_filled) = (by_group(x, size[1]) for x in (rescaled, filled))
    slack = 1 + 1e-12
    assert bool((w_filled.amax(1) <= w_rescaled.amax(1) * slack).all())
    ess = [(w.sum(1) ** 2 / (w**2).sum(1)) for w in (w_filled, w_rescaled)]
    assert bool((ess[0] * slack >= ess[1]).all())


@quick
@given(
    logs=st.lists(st.floats(-25.0, 25.0), min_size=1, max_size=8),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_water_filling_keeps_the_cap_among_ratios_of_all_sizes(logs, dtype):
    """As in training, float32: ratios near 1 beside several of e^20 leave the mean weight as it is."""
    batch = batch_of_log_ratios([[log] for log in logs], [1.0] * len(logs), len(logs), logp=0.0)
    batch = replace(
        batch,
        logp=batch.logp.detach().to(dtype).requires_grad_(),
        behaviour_logp=batch.behaviour_logp.to(dtype),
    )
    result, _ = evaluate("gmc_waterfill", batch)
    (ratio,), (weight,) = (x.double() for x in by_group(result, len(logs)))
    assert float(weight.mean()) == pytest.approx(min(float(ratio.mean()), 1.2), rel=1e-6)


def test_water_filling_beside_several_clamped_ratios():
    """r = (e^20, 1, e^20, 1/2), C = 4.8: c = (4.8 - 1.5)/2 = 1.65 in float32 as in float64."""
    batch = batch_of_ratios([[math.exp(20.0)], [1.0], [math.exp(20.0)], [0.5]], [1.0] * 4, 4)
    single = replace(
        batch,
        logp=batch.logp.detach().float().requires_grad_(),
        behaviour_logp=batch.behaviour_logp.float(),
    )
    for each in (batch, single):
        result, _ = evaluate("gmc_waterfill", each)
        assert result.weights[:, 0].tolist() == pytest.approx([1.65, 1.0, 1.65, 0.5], rel=1e-6)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=seeds, size=st.integers(2, 6), spread=spreads, eps=radii)
def test_no_weight_of_the_same_mass_loss_has_a_smaller_maximum_or_a_larger_ess(
    seed, size, spread, eps
):
    """Weights of the class with the mass of the cap: any w + t (v - w), v random, stays in it."""
    batch = random_batch(seed, 1, size, 3, spread=spread)
    result, _ = evaluate("gmc_waterfill", batch, eps=eps)
    (r,), (w,) = by_group(result, size)
    # A random member: r_i u_i scaled to the mass, then as far towards it as 0 <= w <= r allows.
    u = r * torch.rand(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    direction = u * (w.sum() / u.sum()) - w
    limits = torch.where(
        direction > 0, (r - w) / direction, torch.where(direction < 0, -w / direction, torch.inf)
    )
    other = w + min(1.0, float(limits.min())) * direction
    assert bool((other >= -1e-12).all())
    assert bool((other <= r * (1 + 1e-12)).all())
    assert float(other.max()) >= float(w.max()) * (1 - 1e-12)
    # The masses are equal, so the larger ESS is the smaller sum of squares.
    assert float((other**2).sum()) >= float((w**2).sum()) * (1 - 1e-12)


@pytest.mark.parametrize("name", [name for name in TRAJECTORY if name != "tic_ppo"])
@quick
@given(seed=seeds, size=sizes, spread=spreads, eps=radii)
def test_trajectory_weights_stay_in_their_class(name, seed, size, spread, eps):
    """0 <= w_i <= r_i and (1/G) sum w_i <= 1 + eps: the class in which the cap is the best."""
    result, _ = evaluate(name, random_batch(seed, *size, spread=spread), eps=eps)
    ratio, weight = by_group(result, size[1])
    assert bool((weight >= 0).all())
    assert bool((weight <= ratio).all())
    assert bool((weight.mean(1) <= (1 + eps) * (1 + 1e-12)).all())


def test_tic_ppo_leaves_the_class_where_the_advantage_is_negative():
    result, _ = evaluate("tic_ppo", batch_of_ratios([[9.0], [1.0]], [-1.0, 1.0], 2))
    assert result.weights[:, 0].tolist() == pytest.approx([9.0, 1.0])


@quick
@given(seed=seeds, size=sizes, spread=spreads, eps=radii)
def test_mass_loss_is_ordered_mask_truncate_group(seed, size, spread, eps):
    """(1/G) sum |r - w|: the group cap attains (mean r - 1 - eps)_+, the least possible."""
    batch = random_batch(seed, *size, spread=spread)
    results = {
        name: evaluate(name, batch, eps=eps)[0] for name in ("gmc", "tic_truncate", "tic_mask")
    }
    loss = {name: mass_loss(result, size[1]) for name, result in results.items()}
    mean_ratio = results["gmc"].raw[:, 0].view(-1, size[1]).mean(1)
    assert_same(loss["gmc"], (mean_ratio - 1 - eps).clamp(min=0))
    slack = 1e-9 * (1 + mean_ratio)
    assert bool((loss["gmc"] <= loss["tic_truncate"] + slack).all())
    assert bool((loss["tic_truncate"] <= loss["tic_mask"] + slack).all())
