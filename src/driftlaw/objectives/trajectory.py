"""Trajectory importance weights with a cap a response: TIC-GRPO and truncated importance sampling.

tic_mask      loss_i = - min(r_i, 1 + eps) A_i, differentiated through:
              weight r_i 1{r_i <= 1 + eps} on grad log pi(y_i), whatever the sign of A
              (arXiv 2508.02833 as arXiv 2610.01896 analyses it [derived])
tic_ppo       loss_i = max(-A_i r_i, -A_i min(r_i, 1 + eps)), differentiated through: only A > 0 is
              masked above the cap, A < 0 is unbounded (re-implementations of TIC)
tic_truncate  loss_i = - sg(min(r_i, 1 + eps)) A_i log pi(y_i)
              = sequence-level truncated importance sampling [derived]

r_i = exp clamp(sum_t l_it). A response's term is multiplied by n_i. The value of `tic_mask`'s loss is
not a log-likelihood: its gradient, r_i A_i n_i grad log pi(y_i), is what it is for. At r_i = 1 + eps
exactly the gradient is kept; outside the clamp the gradient through r_i is zero. The weight of
`tic_truncate` is a constant, so there a clamped response keeps its (capped) weight on grad log pi.
"""

from __future__ import annotations

import torch

from driftlaw.objectives.batch import Batch, Result
from driftlaw.objectives.ratios import (
    length_weight,
    mean_over_responses,
    shares,
    spread,
    trajectory_ratio,
    wide,
)


def tic_mask(
    batch: Batch, length_norm: str, l_max: int | None, clamp: float, *, eps: float
) -> Result:
    """Mask: a response above the cap gives no gradient; see the module's docstring."""
    ratio, clamped = trajectory_ratio(batch, clamp)
    return _through_ratio(batch, ratio, ratio > 1 + eps, clamped, length_norm, l_max, 1 + eps)


def tic_ppo(
    batch: Batch, length_norm: str, l_max: int | None, clamp: float, *, eps: float
) -> Result:
    """PPO's upper clip a response; see the module's docstring."""
    ratio, clamped = trajectory_ratio(batch, clamp)
    bound = (ratio > 1 + eps) & (batch.advantages > 0)
    return _through_ratio(batch, ratio, bound, clamped, length_norm, l_max, 1 + eps)


def tic_truncate(
    batch: Batch, length_norm: str, l_max: int | None, clamp: float, *, eps: float
) -> Result:
    """Truncate: a response above the cap keeps the weight 1 + eps; see the module's docstring."""
    ratio, clamped = trajectory_ratio(batch, clamp)
    ratio = ratio.detach()
    weight_i = ratio.clamp(max=1 + eps)
    return weighted_log_likelihood(
        batch, weight_i, ratio, length_norm, l_max, shares(ratio > 1 + eps, clamped)
    )


def weighted_log_likelihood(
    batch: Batch,
    weight_i: torch.Tensor,
    ratio: torch.Tensor,
    length_norm: str,
    l_max: int | None,
    metrics: dict[str, float],
) -> Result:
    """loss_i = - w_i A_i n_i log pi(y_i) with constant weights w_i (N), from ratios r_i (N)."""
    n_i = length_weight(batch, length_norm, l_max)
    factor = weight_i * batch.advantages.to(weight_i.dtype)
    loss = -mean_over_responses(factor.unsqueeze(1) * wide(batch.logp), batch, n_i)
    return Result(loss, spread(weight_i, batch), spread(ratio, batch), metrics)


def _through_ratio(
    batch: Batch,
    ratio: torch.Tensor,
    bound: torch.Tensor,
    clamped: torch.Tensor,
    length_norm: str,
    l_max: int | None,
    cap: float,
) -> Result:
    """loss_i = - n_i A_i r_i, with r_i replaced by the constant `cap` where `bound`."""
    surrogate = torch.where(bound, cap, ratio)
    n_i = length_weight(batch, length_norm, l_max)
    loss = -(surrogate * batch.advantages.to(ratio.dtype) * n_i).sum() / len(n_i)
    weight_i = torch.where(bound | clamped, 0.0, ratio.detach())
    return Result(
        loss, spread(weight_i, batch), spread(ratio.detach(), batch), shares(bound, clamped)
    )
