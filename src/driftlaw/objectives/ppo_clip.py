"""Token-level PPO clipping: GRPO, DAPO, Dr. GRPO, and the unclipped ablation.

    rho_it = exp l_it
    loss_i = - n_i sum_t min(rho_it A_i, clip(rho_it, 1 - eps_low, 1 + eps_high) A_i)

grpo         arXiv 2402.03300 [paper]; "vanilla" of arXiv 2607.01083 and 2610.01896; eps 0.2 both sides
dapo         the same with eps 0.2 below and 0.28 above, and n_i = N / sum |y| (arXiv 2503.14476 [paper])
dr_grpo      the same with n_i = 1/l_max; its advantage R - mean is the study's `advantage.normalise`,
             which is `mean` by default with this objective (arXiv 2503.20783 [paper])
grpo_noclip  loss_i = - n_i sum_t rho_it A_i; ablation [choice]

The gradient of a token is rho_it A_i n_i grad log pi(y_it), and zero where the clip binds: A > 0 with
rho > 1 + eps_high, or A < 0 with rho < 1 - eps_low. Exactly at a cap it is kept.
"""

from __future__ import annotations

import torch

from driftlaw.objectives.batch import Batch, Result
from driftlaw.objectives.ratios import length_weight, mean_over_responses, token_ratio


def grpo(
    batch: Batch,
    length_norm: str,
    l_max: int | None,
    clamp: float,
    *,
    eps_low: float,
    eps_high: float,
) -> Result:
    """Clipped token surrogate; see the module's docstring."""
    ratio, clamped = token_ratio(batch, clamp)
    advantage = batch.advantages.unsqueeze(1).to(ratio.dtype)
    surrogate, bound = ppo_clip(ratio, advantage, eps_low, eps_high)
    return token_surrogate(batch, surrogate, ratio, bound, clamped, length_norm, l_max)


def grpo_noclip(batch: Batch, length_norm: str, l_max: int | None, clamp: float) -> Result:
    """Token importance weighting without a clip."""
    ratio, clamped = token_ratio(batch, clamp)
    never = torch.zeros_like(clamped)
    return token_surrogate(batch, ratio, ratio, never, clamped, length_norm, l_max)


def ppo_clip(
    ratio: torch.Tensor, advantage: torch.Tensor, eps_low: float, eps_high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(x, bound) with x A = min(ratio A, clip(ratio, 1 - eps_low, 1 + eps_high) A), elementwise.

    x is a constant where the clip binds (`bound`, bool), else the ratio; shapes broadcast.
    """
    bound_high = (advantage > 0) & (ratio > 1 + eps_high)
    bound_low = (advantage < 0) & (ratio < 1 - eps_low)
    # `where`, not `min`: at a tie torch.min would halve the gradient.
    surrogate = torch.where(bound_high, 1 + eps_high, torch.where(bound_low, 1 - eps_low, ratio))
    return surrogate, bound_high | bound_low


def token_surrogate(
    batch: Batch,
    surrogate: torch.Tensor,
    ratio: torch.Tensor,
    bound: torch.Tensor,
    clamped: torch.Tensor,
    length_norm: str,
    l_max: int | None,
) -> Result:
    """loss_i = - n_i A_i sum_t x_it, differentiated through the N x T surrogates x_it.

    `bound`: where a clip or mask makes x_it a constant; `clamped`: where the clamp does.
    """
    n_i = length_weight(batch, length_norm, l_max)
    advantage = batch.advantages.unsqueeze(1).to(surrogate.dtype)
    loss = -mean_over_responses(surrogate * advantage, batch, n_i)
    stopped = bound | clamped | ~batch.mask
    weights = torch.where(stopped, 0.0, surrogate.detach())
    tokens = batch.mask.sum().clamp(min=1)
    metrics = {
        "cap_bound_share": float((bound & batch.mask).sum() / tokens),
        "clamped_count": float((clamped & batch.mask).sum()),
    }
    return Result(loss, weights, torch.where(batch.mask, ratio.detach(), 0.0), metrics)
