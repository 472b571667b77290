"""Random batches, and how far apart two losses are on one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

SEEDS = (0, 1, 2, 3)
SCALES = (0.03, 0.3, 1.0)  # standard deviation of a token's log pi - log mu, nats
GROUPS, GROUP_SIZE, TOKENS = 4, 4, 12
L_MAX = 16  # of `constant`; larger than any response, so that it is not mistaken for T
LONG, LONG_SCALE = 2048, 0.5  # tokens of the batch of long responses
FAR = 25.0  # nats: log-ratio of the tokens beyond the clamp of 20


@dataclass(frozen=True)
class Inputs:
    """N x T float64 log-probabilities of pi, mu and a proximal policy, a mask, N advantages.

    Padding holds numbers that would change a loss which read them.
    """

    logp: torch.Tensor
    mu: torch.Tensor
    prox: torch.Tensor
    mask: torch.Tensor
    advantages: torch.Tensor

    @property
    def advantages_nt(self) -> torch.Tensor:
        """N x T: the advantage of a response at each of its positions, padding included."""
        return self.advantages.unsqueeze(1).expand_as(self.mu).contiguous()


@dataclass(frozen=True)
class Distance:
    """loss: |a - b|; gradient: max |grad a - grad b| / max |grad b|, b ours (a where grad b = 0)."""

    loss: float
    gradient: float


def batches(equal_lengths: bool = False) -> Iterator[Inputs]:
    """Every seed at every scale: both signs of the advantage, one of them 0, 2 to 12 tokens."""
    for scale in SCALES:
        for seed in SEEDS:
            yield batch(seed, scale, equal_lengths)


def long_batch() -> Inputs:
    """Responses of 3/4 LONG tokens at LONG_SCALE: log-ratios that add up to some tens of nats."""
    return batch(0, LONG_SCALE, equal_lengths=True, tokens=LONG)


def batch(seed: int, scale: float, equal_lengths: bool = False, tokens: int = TOKENS) -> Inputs:
    """`equal_lengths`: three quarters of `tokens`, else 2 to `tokens`."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    n = GROUPS * GROUP_SIZE
    mu = -torch.rand(n, tokens, generator=draw, dtype=torch.float64) * 3 - 0.01
    logp = mu + scale * normal(n, tokens)
    prox = mu + 0.5 * (logp - mu) + 0.3 * scale * normal(n, tokens)
    lengths = torch.randint(2, tokens + 1, (n,), generator=draw)
    if equal_lengths:
        lengths = torch.full_like(lengths, tokens * 3 // 4)
    mask = torch.arange(tokens) < lengths.unsqueeze(1)
    advantages = normal(n)
    advantages[0] = 0.0
    return Inputs(logp, mu, prox, mask, advantages)


def far_batch() -> Inputs:
    """Scale 0.3 with first tokens FAR above and below, for advantages of both signs."""
    base = batch(0, 0.3)
    logp = base.logp.clone()
    for sign in (1, -1):
        rows = (base.advantages.sign() == sign).nonzero().flatten()[:2]
        logp[rows[0], 0] = base.mu[rows[0], 0] + FAR
        logp[rows[1], 0] = base.mu[rows[1], 0] - FAR
    return Inputs(logp, base.mu, base.prox, base.mask, base.advantages)


def distance(
    theirs: Callable[[Inputs, torch.Tensor], torch.Tensor],
    ours: Callable[[Inputs, torch.Tensor], torch.Tensor],
    inputs: Inputs,
) -> Distance:
    """How far apart value and gradient in log pi are on this batch."""
    (loss_a, grad_a), (loss_b, grad_b) = (_differentiate(f, inputs) for f in (theirs, ours))
    apart = float((grad_a - grad_b).abs().max())
    size = float(grad_b.abs().max()) or float(grad_a.abs().max()) or 1.0
    return Distance(abs(loss_a - loss_b), apart / size)


def _differentiate(
    loss: Callable[[Inputs, torch.Tensor], torch.Tensor], inputs: Inputs
) -> tuple[float, torch.Tensor]:
    logp = inputs.logp.clone().requires_grad_()
    value = loss(inputs, logp)
    value.backward()
    assert logp.grad is not None
    return float(value), logp.grad
