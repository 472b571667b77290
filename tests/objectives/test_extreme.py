"""Inputs at the edge: ratios beyond any clamp, log mu = -inf, rows without tokens, half precision."""

import math
from dataclasses import replace

import pytest
import torch

from driftlaw.models.logprobs import token_logprobs
from driftlaw.objectives import Batch

from .batches import (
    ALL,
    NEED_PROX,
    NORMS,
    assert_expected,
    batch_of_log_ratios,
    evaluate,
    expect,
    objective,
    random_batch,
)

EXTREME = {
    "thousand nats up": [[1000.0, 0.1], [0.2], [0.0, 0.0, -0.1], [0.3]],
    "thousand nats down": [[-1000.0, 0.1], [0.2], [0.0, 0.0, -0.1], [0.3]],
    "both": [[1000.0, -1000.0], [-1000.0, -1000.0], [1000.0], [-1000.0]],
    "all up": [[1000.0]] * 4,
    "all down": [[-1000.0]] * 4,
    "impossible under mu": [[math.inf, 0.1], [0.2], [0.0, math.inf, -0.1], [0.3]],
    "all impossible under mu": [[math.inf], [math.inf, 0.1], [math.inf] * 3, [math.inf]],
    "impossible, then very likely": [[math.inf, -1000.0], [0.1], [-1000.0, math.inf], [math.inf]],
    "row without tokens": [[0.1, 0.2], [], [0.5], [-0.5, 0.5]],
    "group without tokens": [[0.1, 0.2], [0.3], [], []],
    "extreme beside no tokens": [[1000.0], [], [], [math.inf]],
}
ADVANTAGES = [1.0, -2.0, -0.5, 1.5]


def extreme_batch(name, case, group_size, dtype=torch.float64):
    batch = batch_of_log_ratios(EXTREME[case], ADVANTAGES, group_size)
    if name in NEED_PROX:
        # pi_prox near pi, so that pi_prox/mu is the extreme ratio.
        batch = replace(batch, prox_logp=batch.logp.detach() - 0.1)
    return replace(
        batch,
        logp=batch.logp.detach().to(dtype).requires_grad_(),
        behaviour_logp=batch.behaviour_logp.to(dtype),
        prox_logp=None if batch.prox_logp is None else batch.prox_logp.to(dtype),
    )


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("case", EXTREME)
@pytest.mark.parametrize("group_size", [1, 2, 4])
@pytest.mark.parametrize("norm", NORMS)
def test_extreme_ratios(name, case, group_size, norm):
    """Finite, and what the oracle says."""
    batch = extreme_batch(name, case, group_size)
    result, gradient = assert_expected(name, batch, length_norm=norm)
    for value in (result.loss, result.weights, result.raw, gradient):
        assert bool(torch.isfinite(value).all())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("case", EXTREME)
def test_extreme_ratios_in_float32(name, case):
    """The training precision. Weights and gradient as in float64; the loss is a sum whose largest
    terms, up to the largest ratio, may cancel."""
    batch = extreme_batch(name, case, 4, torch.float32)
    result, gradient = evaluate(name, batch)
    expected = expect(name, batch)
    assert result.loss.dtype == torch.float32
    rounding = 1e-6 * max(1.0, float(expected.raw.max()))
    assert float(result.loss.detach()) == pytest.approx(expected.loss, rel=1e-5, abs=rounding)
    for found, wanted in ((result.weights, expected.weights), (gradient, expected.gradient)):
        torch.testing.assert_close(found.double(), torch.tensor(wanted), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("case", EXTREME)
def test_float32_at_the_widest_clamp(name, case):
    """e^80 = 5.5e34 is close to the largest float32, 3.4e38: no sum or square may overflow."""
    batch = extreme_batch(name, case, 4, torch.float32)
    result, gradient = evaluate(name, batch, clamp=80.0)
    assert result.loss.dtype == torch.float32
    for value in (result.loss, result.weights, result.raw, gradient):
        assert bool(torch.isfinite(value).all())


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_alpha_at_its_ends_with_a_token_impossible_under_mu(alpha):
    """alpha l is 0 at alpha = 0, however large l, and so is (1 - alpha) l at alpha = 1."""
    name = "decoupled_ppo"
    _, gradient = assert_expected(name, extreme_batch(name, "impossible under mu", 2), alpha=alpha)
    assert bool(torch.isfinite(gradient).all())


# Log-ratios whose sums, means and tokens are .02 and more away from each default threshold, so that
# rounding log pi to 8 bits moves none across.
HALF_LOG_RATIOS = [[0.9, 0.05, -0.05], [-0.9, -0.05, 0.05], [0.05, 0.03, 0.03], [-0.05, 0.9]]


def half_batch(dtype):
    """(logits, N x T ids, the batch whose log pi comes from them) of `dtype`."""
    generator = torch.Generator().manual_seed(11)
    logits = torch.randn((4, 3, 7), generator=generator).to(dtype).requires_grad_()
    ids = torch.randint(0, 7, (4, 3), generator=generator)
    exact = (
        torch.log_softmax(logits.detach().double(), -1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    )
    mask = torch.zeros((4, 3), dtype=torch.bool)
    shift = torch.zeros((4, 3), dtype=torch.float64)
    for i, row in enumerate(HALF_LOG_RATIOS):
        mask[i, : len(row)] = True
        shift[i, : len(row)] = torch.tensor(row, dtype=torch.float64)
    advantages = torch.tensor([1.0, -2.0, -0.5, 1.5], dtype=torch.float64)
    logp, _ = token_logprobs(logits, ids, temperature=1.0)
    behaviour = (exact - shift).float()
    return logits, exact, Batch(logp, behaviour, mask, advantages, 2, (exact + 0.04).float())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("dtype", "bits"), [(torch.bfloat16, 8), (torch.float16, 11)])
def test_half_precision_logits(name, dtype, bits):
    """Against the oracle in float64 on the same rounded logits.

    A log pi between -4 and 0 of `bits` significant bits is off by 4 * 2^-bits at most, a sum
    of 3 tokens by 12 * 2^-bits: that is the tolerance, .047 in bfloat16 and .0059 in float16.
    Measured: loss .0063, weights .012 (relative), gradient .0037; float16 a tenth of these.
    """
    logits, exact, batch = half_batch(dtype)
    if name not in NEED_PROX:
        batch = replace(batch, prox_logp=None)
    assert float(exact.min()) > -4.0
    result, gradient = evaluate(name, batch)
    assert result.loss.dtype == torch.float32
    expected = expect(name, replace(batch, logp=exact))
    tolerance = 12 * 2.0**-bits
    assert float(result.loss.detach()) == pytest.approx(expected.loss, rel=0, abs=tolerance)
    torch.testing.assert_close(
        result.weights.double(), torch.tensor(expected.weights), rtol=tolerance, atol=0
    )
    torch.testing.assert_close(
        gradient.double(), torch.tensor(expected.gradient), rtol=tolerance, atol=tolerance / 8
    )
    (of_logits,) = torch.autograd.grad(objective(name)(batch).loss, logits)
    assert of_logits.dtype == dtype
    assert bool(torch.isfinite(of_logits).all())
    assert bool(of_logits.any())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_log_probabilities_are_widened_first(name, dtype):
    """The same numbers in float32: equal loss, weights and metrics, bit for bit."""
    batch = random_batch(9, 3, 4, 5, spread=0.8, prox=name)
    half = replace(
        batch,
        logp=batch.logp.detach().to(dtype).requires_grad_(),
        behaviour_logp=batch.behaviour_logp.to(dtype),
        prox_logp=None if batch.prox_logp is None else batch.prox_logp.to(dtype),
    )
    wide = replace(
        half,
        logp=half.logp.detach().float().requires_grad_(),
        behaviour_logp=half.behaviour_logp.float(),
        prox_logp=None if half.prox_logp is None else half.prox_logp.float(),
    )
    result, gradient = evaluate(name, half)
    other, other_gradient = evaluate(name, wide)
    assert result.loss.dtype == torch.float32
    assert torch.equal(result.loss, other.loss)
    assert torch.equal(result.weights, other.weights)
    assert result.metrics == other.metrics
    torch.testing.assert_close(gradient, other_gradient.to(gradient.dtype))
