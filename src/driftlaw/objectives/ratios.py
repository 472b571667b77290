"""Importance ratios and length normalisation: what the objectives share.

    l_it = log pi(y_it) - log mu(y_it)             token log-ratio
    r_i  = exp clamp(sum_t l_it, -c, c)            trajectory ratio, c = `clamp` nats

Only the *sum* is clamped for trajectories; outside the clamp the gradient through r is zero. Token
ratios are clamped the same way. Clamps are counted. ([choice]; docs/method.md)

Extreme input: a log-ratio of any size, infinite ones too (log mu = -inf), stays finite through the
clamp; a response without tokens has r = 1 and no gradient. NaN in log-probabilities of the mask, and
log pi = -inf where a weight multiplies log pi, give a loss that is not finite: the learner stops there.
"""

from __future__ import annotations

import torch

from driftlaw.objectives.batch import Batch


def wide(logp: torch.Tensor) -> torch.Tensor:
    """float32 for half-precision input, else as it is: exp of a bfloat16 has two digits."""
    return logp.float() if logp.dtype in (torch.float16, torch.bfloat16) else logp


def token_log_ratio(batch: Batch) -> torch.Tensor:
    """N x T log-ratios l_it, 0 on padding."""
    return torch.where(batch.mask, wide(batch.logp) - wide(batch.behaviour_logp), 0.0)


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
    lengths = batch.mask.sum(1).to(wide(batch.logp).dtype)
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


def spread(value_i: torch.Tensor, batch: Batch) -> torch.Tensor:
    """N values as N x T, 0 on padding."""
    return torch.where(batch.mask, value_i.unsqueeze(1), 0.0)


def shares(bound: torch.Tensor, clamped: torch.Tensor) -> dict[str, float]:
    """The metrics of an objective that binds responses or groups: `bound` and `clamped` are bool."""
    return {
        "cap_bound_share": float(bound.double().mean()),
        "clamped_count": float(clamped.sum()),
    }
