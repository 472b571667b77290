"""Token importance weights, truncated and held constant: CISPO and token-level TIS.

    loss_i = - n_i sum_t sg(min(rho_it, cap)) A_i log pi(y_it),   rho_it = exp l_it

cispo  cap 5 (others use 6)          arXiv 2506.13585 [paper]; the cap is a [choice]
tis    cap 2                         truncated importance sampling; with one update a batch PPO's own
                                     ratio is 1, and its clipped loss has this gradient [derived]

Every token keeps a gradient, those above the cap the weight `cap`. The two names differ in their cap
alone. A clamped token keeps its (capped) weight: the weight is a constant.
"""

from __future__ import annotations

import torch

from driftlaw.objectives.batch import Batch, Result
from driftlaw.objectives.ratios import length_weight, mean_over_responses, token_ratio, wide


def token_truncate(
    batch: Batch, length_norm: str, l_max: int | None, clamp: float, *, cap: float
) -> Result:
    """Truncated token weights; see the module's docstring."""
    ratio, clamped = token_ratio(batch, clamp)
    ratio = torch.where(batch.mask, ratio.detach(), 0.0)
    weights = ratio.clamp(max=cap)
    n_i = length_weight(batch, length_norm, l_max)
    advantage = batch.advantages.unsqueeze(1).to(ratio.dtype)
    loss = -mean_over_responses(weights * advantage * wide(batch.logp), batch, n_i)
    metrics = {
        "cap_bound_share": float((ratio > cap).sum() / batch.mask.sum().clamp(min=1)),
        "clamped_count": float((clamped & batch.mask).sum()),
    }
    return Result(loss, weights, ratio, metrics)
