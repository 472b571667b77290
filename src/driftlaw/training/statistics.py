"""Ratio diagnostics of an update: before and after the cap, at token, trajectory and group level."""

from __future__ import annotations

import torch

from driftlaw.objectives import Batch, Result
from driftlaw.objectives.ratios import token_ratio, trajectory_ratio


def ratio_statistics(batch: Batch, result: Result, clamp: float) -> dict[str, float]:
    """Columns of the ledger (see `driftlaw.training.ledger`) for one update's ratios and weights.

    Raw: token ratios, trajectory ratios r_i, group mean ratios, with the objective's `clamp` (nats).
    After the cap: the weight that the objective put on each token's grad log pi; a trajectory's is the
    mean over its tokens (exactly w_i for trajectory objectives), a group's the mean over its responses.
    """
    mask = batch.mask
    with torch.no_grad():
        raw_token = token_ratio(batch, clamp)[0].double()[mask]
        raw_trajectory = trajectory_ratio(batch, clamp)[0].double()
        weights = result.weights.double()
        lengths = mask.sum(1)
        # A response's weight is read off exactly where all its tokens share it.
        mean_weight = weights.sum(1) / lengths.clamp(min=1)
        first_weight = weights[:, 0]
        shared = torch.where(mask, weights == first_weight.unsqueeze(1), True).all(1)
        trajectory_weight = torch.where(shared, first_weight, mean_weight)
        out: dict[str, float] = {}
        out |= _moments("token_ratio", raw_token)
        out |= _moments("token_weight", weights[mask])
        out |= _moments("traj_ratio", raw_trajectory)
        out |= _moments("traj_weight", trajectory_weight)
        out |= _group("ratio", raw_trajectory, batch.group_size)
        out |= _group("weight", trajectory_weight, batch.group_size)
        capped = (result.weights != result.raw) & mask
        advantage = batch.advantages.unsqueeze(1).expand_as(mask)
        for name, sign in (("pos", advantage > 0), ("neg", advantage < 0)):
            there = mask & sign
            out[f"clip_share_{name}"] = _share(capped & there, there)
        out["gradient_token_share"] = _share((result.weights != 0) & (advantage != 0) & mask, mask)
        log_ratio = torch.where(mask, batch.logp - batch.behaviour_logp, 0.0).double()
        out["kl_behaviour"] = float(-log_ratio.sum() / mask.sum())
        out["log_ratio_abs_max"] = float(log_ratio.abs().max())
    return out


def effective_sample_size(weight_n: torch.Tensor) -> float:
    """(sum w)^2 / sum w^2, at most N; 0 where all weights are 0."""
    square = float((weight_n**2).sum())
    return float(weight_n.sum()) ** 2 / square if square > 0 else 0.0


def _moments(name: str, values: torch.Tensor) -> dict[str, float]:
    return {
        f"{name}_mean": float(values.mean()),
        f"{name}_m2": float((values**2).mean()),
        f"{name}_max": float(values.max()),
        f"{name}_ess": effective_sample_size(values) / len(values),
    }


def _group(kind: str, value_n: torch.Tensor, group_size: int) -> dict[str, float]:
    value_pg = value_n.view(-1, group_size)
    mass = value_pg.mean(1)
    square_p = (value_pg**2).sum(1)
    ess_p = torch.where(square_p > 0, value_pg.sum(1) ** 2 / square_p, 0.0) / group_size
    return {
        f"group_{kind}_mass_mean": float(mass.mean()),
        f"group_{kind}_mass_m2": float((mass**2).mean()),
        f"group_{kind}_mass_max": float(mass.max()),
        f"group_{kind}_ess": float(ess_p.mean()),
    }


def _share(part: torch.Tensor, whole: torch.Tensor) -> float:
    count = int(whole.sum())
    return int(part.sum()) / count if count else 0.0
