"""Importance ratios and length normalisation: what the objectives share.

    l_it = log pi(y_it) - log mu(y_it)             token log-ratio
    r_i  = exp clamp(sum_t l_it, -c, c)            trajectory ratio, c = `clamp` nats

Only the *sum* is clamped for trajectories; outside the clamp the gradient through r is zero. Token
ratios are clamped the same way. Clamps are counted. ([choice]; method.md section 1)
"""

from __future__ import annotations

import torch

from driftlaw.objectives.batch import Batch


def token_log_ratio(batch: Batch) -> torch.Tensor:
    """N x T log-ratios l_it, 0 on padding."""
    return torch.where(batch.mask, batch.logp - batch.behaviour_logp, 0.0)


def token_ratio(batch: Batch, clamp: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(N x T token ratios exp clamp(l_it), N x T bool: clamped)."""
    log_ratio = token_log_ratio(batch)
    return log_ratio.clamp(-clamp, clamp).exp(), log_ratio.detach().abs() > clamp


def trajectory_ratio(batch: Batch, clamp: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(N trajectory ratios r_i, N bool: clamped)."""
    log_ratio = token_log_ratio(batch).sum(1)
    return log_ratio.clamp(-clamp, clamp).exp(), log_ratio.detach().abs() > clamp


def length_weight(batch: Batch, length_norm: str, l_max: int | None) -> torch.Tensor:
    """N factors n_i on a response's summed log-probability.

    `sequence` 1/|y_i| · `constant` 1/l_max · `token` N/sum|y| over the whole batch. A response without
    tokens has factor 0 under `sequence`; a batch without tokens under `token` too.
    """
    lengths = batch.mask.sum(1).to(batch.logp.dtype)
    if length_norm == "sequence":
        return torch.where(lengths > 0, 1.0 / lengths.clamp(min=1), 0.0)
    if length_norm == "constant":
        assert l_max is not None
        return torch.full_like(lengths, 1.0 / l_max)
    total = lengths.sum()
    return torch.full_like(lengths, len(lengths)) / total.clamp(min=1)


def mean_over_responses(per_token: torch.Tensor, batch: Batch, n_i: torch.Tensor) -> torch.Tensor:
    """(1/N) sum_i n_i sum_t x_it over the tokens of the mask."""
    per_response = torch.where(batch.mask, per_token, 0.0).sum(1)
    return (per_response * n_i).sum() / len(n_i)
