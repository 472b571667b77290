"""Group-mass capping: the total importance weight of a prompt's group is capped, not each response.

    C = G (1 + eps)                                                                  [derived]

gmc            w_i = r_i min{1, C / sum_j r_j}, j over all G responses, those with A_j = 0 too  [paper]
               loss_i = - sg(w_i) A_i n_i log pi(y_i), arXiv 2610.01896; stop-gradient [choice]
               `through_gradient`: loss_i = - w_i A_i n_i, differentiated through w. Where the cap
               binds, equal n_i give w_i (A_i - sum_j w_j A_j / sum_j w_j) on n_i grad log pi(y_i): the
               weighted mean advantage becomes a baseline, and responses with A_i = 0 get a gradient
gmc_waterfill  w_i = min(r_i, c), c such that sum_i w_i = C; c = inf where sum_i r_i <= C   [derived]
               r sorted: c = (C - sum_{i<=k} r_(i)) / (G - k) with r_(k) <= c < r_(k+1)

Both weights have the group mean min(mean r, 1 + eps), so the same mass loss (mean r - 1 - eps)_+, the
least that weights 0 <= w_i <= r_i with that mean can have. `gmc` keeps w_i / w_j = r_i / r_j; water-
filling has the smallest largest weight and the largest effective sample size among those that attain
it. The worst single weight is G (1 + eps) for both: one response may hold the whole mass, so the
ledger shows the largest weight and the effective sample size beside the mass.
"""

from __future__ import annotations

import torch

from driftlaw.objectives.batch import Batch, Result
from driftlaw.objectives.ratios import length_weight, shares, spread, trajectory_ratio
from driftlaw.objectives.trajectory import weighted_log_likelihood


def gmc(
    batch: Batch,
    length_norm: str,
    l_max: int | None,
    clamp: float,
    *,
    eps: float,
    through_gradient: bool,
) -> Result:
    """Group-mass capped policy gradient; see the module's docstring."""
    ratio, clamped = trajectory_ratio(batch, clamp)
    ratio_pg = ratio.view(-1, batch.group_size)
    mass = ratio_pg.sum(1, keepdim=True)
    cap = batch.group_size * (1 + eps)
    # min{1, C/mass}, written so that a group under its cap keeps its ratios bit for bit.
    weight_i = torch.where(mass > cap, ratio_pg * (cap / mass), ratio_pg).reshape(-1)
    metrics = shares(mass > cap, clamped)
    if not through_gradient:
        return weighted_log_likelihood(
            batch, weight_i.detach(), ratio.detach(), length_norm, l_max, metrics
        )
    n_i = length_weight(batch, length_norm, l_max)
    loss = -(weight_i * batch.advantages.to(ratio.dtype) * n_i).sum() / len(n_i)
    return Result(loss, spread(weight_i.detach(), batch), spread(ratio.detach(), batch), metrics)


def gmc_waterfill(
    batch: Batch, length_norm: str, l_max: int | None, clamp: float, *, eps: float
) -> Result:
    """Group-mass cap by a common ceiling; see the module's docstring."""
    ratio, clamped = trajectory_ratio(batch, clamp)
    ratio_pg = ratio.detach().view(-1, batch.group_size)
    cap = batch.group_size * (1 + eps)
    bound = ratio_pg.sum(1, keepdim=True) > cap
    weight_pg = torch.where(bound, ratio_pg.minimum(_ceiling(ratio_pg, cap)), ratio_pg)
    return weighted_log_likelihood(
        batch, weight_pg.reshape(-1), ratio.detach(), length_norm, l_max, shares(bound, clamped)
    )


def _ceiling(ratio_pg: torch.Tensor, cap: float) -> torch.Tensor:
    """P x 1 ceilings c with sum_i min(r_i, c) = cap; meaningless where sum_i r_i <= cap."""
    ascending = ratio_pg.sort(dim=1).values
    group_size = ratio_pg.shape[1]
    # Sums of the k smallest, k = 0 .. G - 1; never through a larger ratio, which would round them off.
    below = torch.cat([torch.zeros_like(ascending[:, :1]), ascending[:, :-1].cumsum(1)], 1)
    left = torch.arange(group_size, 0, -1, dtype=ratio_pg.dtype, device=ratio_pg.device)
    candidate = (cap - below) / left
    # The first k whose candidate lies below the next ratio; the last one where rounding hides it.
    fits = candidate < ascending
    fits[:, -1] = True
    return candidate.gather(1, fits.to(torch.uint8).argmax(1, keepdim=True))
