"""Group-mass capping: the total importance weight of a prompt's group is capped, not each response.

    w_i    = r_i min{1, C / sum_j r_j},  j over all G responses, those with A_j = 0 too   [paper]
    C      = G (1 + eps)                                                              [derived]
    loss_i = - sg(w_i) A_i n_i log pi(y_i)                               stop-gradient [choice]

arXiv 2610.01896. Within a group w_i / w_j = r_i / r_j always; the mean weight is min(mean r, 1 + eps).
The worst single weight is G (1 + eps): one response may hold the whole mass, so the ledger shows the
largest weight and the effective sample size beside the mass.
"""

from __future__ import annotations

import torch

from driftlaw.objectives.batch import Batch, Result
from driftlaw.objectives.ratios import trajectory_ratio
from driftlaw.objectives.trajectory import weighted_log_likelihood


def gmc(batch: Batch, length_norm: str, l_max: int | None, clamp: float, *, eps: float) -> Result:
    """Group-mass capped policy gradient; see the module's docstring."""
    ratio, clamped = trajectory_ratio(batch, clamp)
    ratio_pg = ratio.detach().view(-1, batch.group_size)
    mass = ratio_pg.sum(1, keepdim=True)
    cap = batch.group_size * (1 + eps)
    # min{1, C/mass}, written so that a group under its cap keeps its ratios bit for bit.
    weight_pg = torch.where(mass > cap, ratio_pg * (cap / mass), ratio_pg)
    metrics = {
        "cap_bound_share": float((mass > cap).double().mean()),
        "clamped_count": float(clamped.sum()),
    }
    return weighted_log_likelihood(
        batch, weight_pg.reshape(-1), ratio.detach(), length_norm, l_max, metrics
    )
