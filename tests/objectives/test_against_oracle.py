"""Each objective against independent loops, against autograd and against finite differences."""

import pytest
import torch

from driftlaw.objectives import Batch, get

from .batches import L_MAX, NAMES, NORMS, STOP_GRADIENT, evaluate, random_batch
from .oracle import objective

EPS = {name: {} if name == "grpo_noclip" else {"eps": 0.3} for name in NAMES}
SHAPES = [(1, 1, 1), (1, 4, 3), (3, 1, 5), (4, 5, 6)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spread", [0.15, 0.8, 12.0])
def test_loss_weights_and_gradient(name, norm, shape, spread):
    """Spread 12 puts many log-ratios beyond a clamp of 9."""
    seed = 10 * SHAPES.index(shape) + NORMS.index(norm)
    batch = random_batch(seed, *shape, spread=spread, empty_row=shape == SHAPES[-1])
    result, gradient = evaluate(name, batch, length_norm=norm, l_max=7, clamp=9.0, **EPS[name])
    loss, weight, factor = objective(
        name,
        batch.logp.detach().numpy(),
        batch.behaviour_logp.numpy(),
        batch.mask.numpy(),
        batch.advantages.numpy(),
        batch.group_size,
        eps=0.3,
        length_norm=norm,
        l_max=7,
        clamp=9.0,
    )
    assert float(result.loss.detach()) == pytest.approx(loss, rel=1e-9, abs=1e-9)
    torch.testing.assert_close(result.weights, torch.tensor(weight), rtol=1e-9, atol=1e-9)
    scale = batch.advantages * torch.tensor(factor, dtype=torch.float64) / len(factor)
    expected = -torch.tensor(weight) * scale.unsqueeze(1)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-9)
    # The weights that a result reports are those in its gradient, whatever the oracle says.
    torch.testing.assert_close(
        gradient, -result.weights * scale.unsqueeze(1), rtol=1e-12, atol=1e-14
    )


def numerical_gradient(name, batch, params, h=1e-6):
    """Central differences of the loss. Where weights are constants, log mu moves along with log pi:
    ratios, and so the weights, then stay exactly as they are."""
    gradient = torch.zeros_like(batch.logp)
    loss = get(name, l_max=L_MAX, **params)
    for i, t in batch.mask.nonzero().tolist():
        side = []
        for step in (h, -h):
            logp, behaviour = batch.logp.detach().clone(), batch.behaviour_logp.clone()
            logp[i, t] += step
            if name in STOP_GRADIENT:
                behaviour[i, t] += step
            moved = Batch(logp, behaviour, batch.mask, batch.advantages, batch.group_size)
            side.append(float(loss(moved).loss))
        gradient[i, t] = (side[0] - side[1]) / (2 * h)
    return gradient


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", NORMS)
def test_gradient_is_that_of_the_loss(name, norm):
    batch = random_batch(3, 3, 4, 4, spread=0.5)
    params = {"length_norm": norm} | EPS[name]
    _, gradient = evaluate(name, batch, **params)
    assert float(gradient.abs().max()) > 1e-3
    torch.testing.assert_close(
        gradient, numerical_gradient(name, batch, params), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("name", STOP_GRADIENT)
def test_no_gradient_flows_through_the_weight(name):
    """Against differences that let the weight move, the gradient must differ."""
    batch = random_batch(3, 3, 4, 4, spread=0.5)
    _, gradient = evaluate(name, batch)
    free = torch.zeros_like(gradient)
    loss = get(name, l_max=L_MAX)
    for i, t in batch.mask.nonzero().tolist():
        logp = batch.logp.detach().clone()
        logp[i, t] += 1e-6
        up = loss(Batch(logp, batch.behaviour_logp, batch.mask, batch.advantages, 4)).loss
        free[i, t] = (float(up) - float(loss(batch).loss.detach())) / 1e-6
    assert float((free - gradient).abs().max()) > 1e-2
