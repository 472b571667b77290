"""The record that every objective takes, and the one it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Batch:
    """One update's responses; rows of a group are adjacent, a group is never split.

    logp            N x T  log pi(token), with gradient, of the learner's current policy
    behaviour_logp  N x T  log mu(token), recorded by the engine that sampled
    mask            N x T  bool, true on the response's tokens (end-of-text included)
    advantages      N      given, never renormalised here
    group_size      G      N is a multiple of it
    prox_logp       N x T  log pi_prox(token) of a proximal policy, or None; only `decoupled_ppo` reads it

    Arrays are taken too: they become tensors, `mask` bool, and `logp` a leaf that requires a gradient.
    Log-probabilities in half precision are widened to float32 before any arithmetic. Values where
    `mask` is false are never read. Raises ValueError on shapes that do not fit.
    """

    logp: torch.Tensor
    behaviour_logp: torch.Tensor
    mask: torch.Tensor
    advantages: torch.Tensor
    group_size: int
    prox_logp: torch.Tensor | None = None

    def __post_init__(self) -> None:
        self._convert_arrays()
        if (
            self.logp.dim() != 2
            or not self.logp.shape == self.behaviour_logp.shape == self.mask.shape
        ):
            raise ValueError("Batch: logp, behaviour_logp and mask must all be N x T")
        if self.prox_logp is not None and self.prox_logp.shape != self.logp.shape:
            raise ValueError("Batch: prox_logp must be N x T like logp")
        n = self.logp.shape[0]
        if tuple(self.advantages.shape) != (n,):
            raise ValueError(f"Batch: advantages must have shape ({n},)")
        if self.group_size < 1 or n == 0 or n % self.group_size:
            raise ValueError(f"Batch: {n} rows are not whole groups of {self.group_size}")

    def _convert_arrays(self) -> None:
        import torch

        for name in ("logp", "behaviour_logp", "mask", "advantages", "prox_logp"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, torch.Tensor):
                value = torch.as_tensor(value)
                if name == "logp":
                    value = value.clone().requires_grad_()
            if name == "mask" and value.dtype is not torch.bool:
                value = value != 0
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Result:
    """What an objective returns.

    loss     scalar tensor with gradient
    weights  N x T, detached: the factor on A_i * n_i * grad log pi(y_it) in the loss's negative
             gradient; 0 where a clip, mask or clamp stops the gradient, and on padding (n_i is the
             factor of the objective's length normalisation; 1/|y_i| for gspo and gepo). The one
             exception is `gmc` with through_gradient, whose weights are the capped w_i themselves
    raw      N x T, detached: the same before any clip, mask or cap (the token's or the trajectory's
             ratio); 0 on padding
    metrics  plain numbers, all of them described in `driftlaw.training.ledger`
    """

    loss: torch.Tensor
    weights: torch.Tensor
    raw: torch.Tensor
    metrics: dict[str, float] = field(default_factory=dict)
