"""Each objective against independent loops, against autograd and against finite differences."""

from dataclasses import replace

import pytest
import torch

from driftlaw.objectives import Batch

from .batches import (
    ALL,
    L_MAX,
    NAMES,
    NORMS,
    SEQUENCE,
    STOP_GRADIENT,
    assert_expected,
    evaluate,
    objective,
    random_batch,
)
from .oracle import length_factors

CLIP = {"eps_low": 0.25, "eps_high": 0.3}
DECOUPLED = CLIP | {"cap": 1.4, "alpha": 0.3}
# Thresholds that the batches below cross in both directions.
PARAMS = {name: {"eps": 0.3} for name in ALL} | {
    "grpo": CLIP,
    "grpo_noclip": {},
    "gspo": CLIP,
    "gepo": CLIP,
    "cispo": {"cap": 1.5},
    "tis": {"cap": 1.2},
    "m2po": {"m2_threshold": 0.06},
    "decoupled_ppo": DECOUPLED,
    "decoupled_ppo_given_prox": DECOUPLED,
}
SHAPES = [(1, 1, 1), (1, 4, 3), (3, 1, 5), (4, 5, 6)]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spread", [0.15, 0.8, 12.0])
def test_loss_weights_and_gradient(name, norm, shape, spread):
    """Spread 12 puts many log-ratios beyond a clamp of 9."""
    seed = 10 * SHAPES.index(shape) + NORMS.index(norm)
    batch = random_batch(seed, *shape, spread=spread, empty_row=shape == SHAPES[-1], prox=name)
    result, gradient = assert_expected(
        name, batch, length_norm=norm, l_max=7, clamp=9.0, **PARAMS[name]
    )
    if name == "gmc_through_gradient":
        return
    # The weights that a result reports are those in its gradient, whatever the oracle says.
    n_i = length_factors(batch.mask.numpy(), "sequence" if name in SEQUENCE else norm, 7)
    scale = batch.advantages * torch.tensor(n_i, dtype=torch.float64) / len(n_i)
    torch.testing.assert_close(
        gradient, -result.weights * scale.unsqueeze(1), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("spread", [0.1, 0.6])
def test_defaults(name, spread):
    """`get(name)` without a parameter is the row of the method's table."""
    assert_expected(name, random_batch(8, 4, 5, 6, spread=spread, prox=name))


@pytest.mark.parametrize("name", NAMES)
def test_the_batches_cross_the_thresholds(name):
    """Otherwise the comparisons above would say nothing of caps."""
    result, _ = evaluate(name, random_batch(30, 4, 5, 6, spread=0.8), **PARAMS[name])
    share = result.metrics["cap_bound_share"]
    assert share == 0 if name == "grpo_noclip" else 0 < share < 1


def numerical_gradient(name, batch, params, held=False, h=1e-6):
    """Central differences of the loss. `held`: log mu moves along with log pi, so that ratios, and
    with them weights that are constants, stay exactly as they are."""
    gradient = torch.zeros_like(batch.logp)
    loss = objective(name, **params)
    for i, t in batch.mask.nonzero().tolist():
        side = []
        for step in (h, -h):
            logp, behaviour = batch.logp.detach().clone(), batch.behaviour_logp.clone()
            logp[i, t] += step
            if held:
                behaviour[i, t] += step
            moved = replace(batch, logp=logp, behaviour_logp=behaviour)
            side.append(float(loss(moved).loss))
        gradient[i, t] = (side[0] - side[1]) / (2 * h)
    return gradient


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("norm", NORMS)
def test_gradient_is_that_of_the_loss(name, norm):
    """A step of 1e-6 changes no mask and crosses no threshold in this batch."""
    batch = random_batch(3, 3, 4, 4, spread=0.5, prox=name)
    params = {"length_norm": norm} | PARAMS[name]
    _, gradient = evaluate(name, batch, **params)
    assert float(gradient.abs().max()) > 1e-3
    if name == "decoupled_ppo":
        # pi_prox is a constant where it is: log mu + alpha (log pi - log mu) at this log pi.
        logp = batch.logp.detach()
        prox = batch.behaviour_logp + params["alpha"] * (logp - batch.behaviour_logp)
        batch = replace(batch, prox_logp=prox)
    numerical = numerical_gradient(name, batch, params, held=name in STOP_GRADIENT)
    torch.testing.assert_close(gradient, numerical, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", [*STOP_GRADIENT, "decoupled_ppo"])
def test_no_gradient_flows_through_the_weight(name):
    """Against differences that let the weight, or pi_prox, move, the gradient must differ."""
    batch = random_batch(3, 3, 4, 4, spread=0.5)
    _, gradient = evaluate(name, batch)
    free = numerical_gradient(name, batch, {})
    assert float((free - gradient).abs().max()) > 1e-2


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("spread", [0.3, 1.5])
def test_decoupled_with_prox_recomputed_is_tis_at_cap_5(norm, spread):
    """pi_prox = pi: the PPO ratio is 1 with gradient 1, what is left is min(pi/mu, 5)."""
    batch = random_batch(4, 4, 5, 6, spread=spread)
    recomputed = replace(batch, prox_logp=batch.logp.detach().clone())
    decoupled, gradient = evaluate("decoupled_ppo", recomputed, length_norm=norm)
    tis, tis_gradient = evaluate("tis", batch, length_norm=norm, cap=5.0)
    torch.testing.assert_close(decoupled.weights, tis.weights, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient, tis_gradient, rtol=1e-12, atol=1e-15)
    assert decoupled.metrics == pytest.approx(tis.metrics)
    assert spread < 1 or tis.metrics["cap_bound_share"] > 0


@pytest.mark.parametrize("name", SEQUENCE)
def test_length_norm_has_no_effect_on_gspo_and_gepo(name):
    batch = random_batch(5, 3, 4, 5)
    losses = {
        float(evaluate(name, batch, length_norm=norm, l_max=l_max)[0].loss.detach())
        for norm in NORMS
        for l_max in (L_MAX, 9)
    }
    assert len(losses) == 1


def test_only_decoupled_ppo_reads_prox():
    batch = random_batch(6, 3, 4, 5, prox=True)
    changed = replace(batch, prox_logp=batch.prox_logp - 0.3)
    differ = {
        name
        for name in NAMES
        if not torch.equal(evaluate(name, batch)[0].loss, evaluate(name, changed)[0].loss)
    }
    assert differ == {"decoupled_ppo"}


def test_prox_is_a_constant():
    batch = random_batch(6, 3, 4, 5, prox=True)
    prox = batch.prox_logp.clone().requires_grad_()
    own = Batch(batch.logp, batch.behaviour_logp, batch.mask, batch.advantages, 4, prox)
    result = objective("decoupled_ppo")(own)
    (gradient,) = torch.autograd.grad(result.loss, prox, allow_unused=True)
    assert gradient is None or not gradient.any()
