"""M2PO: mask the tokens with the largest squared log-ratio until their second moment is small.

    loss_i = - n_i sum_t M_it rho_it A_i,   rho_it = exp l_it                 arXiv 2510.01161 [paper]

M is 0 on the tokens with the largest l_it^2 over the whole batch, as many as it takes until the mean of
l_it^2 over the others is at most `m2_threshold` (0.04, nats^2); among equal ones the later row, then the
later token, goes first. The squares are of the unclamped log-ratios. `token` divides by all tokens,
masked ones too: the paper's form; implementations that take the mean over the tokens that are left
have a larger gradient. The mask couples the whole batch, so splitting a batch changes the result.
"""

from __future__ import annotations

import torch

from driftlaw.objectives.batch import Batch, Result
from driftlaw.objectives.ppo_clip import token_surrogate
from driftlaw.objectives.ratios import token_log_ratio, token_ratio


def m2po(
    batch: Batch, length_norm: str, l_max: int | None, clamp: float, *, m2_threshold: float
) -> Result:
    """Second-moment masked token weights; see the module's docstring."""
    ratio, clamped = token_ratio(batch, clamp)
    masked = batch.mask & ~kept_tokens(token_log_ratio(batch).detach(), batch.mask, m2_threshold)
    surrogate = torch.where(masked, 0.0, ratio)
    return token_surrogate(batch, surrogate, ratio, masked, clamped, length_norm, l_max)


def kept_tokens(log_ratio: torch.Tensor, mask: torch.Tensor, threshold: float) -> torch.Tensor:
    """N x T bool: the largest set, smallest squares first, whose mean square is <= threshold."""
    squares = log_ratio.double()[mask] ** 2
    ascending, order = squares.sort(stable=True)
    count = torch.arange(1, len(squares) + 1, dtype=torch.float64, device=squares.device)
    # Means of ascending numbers do not fall, so those within the threshold are a prefix. NaN, which
    # sorts last, is kept: it must show in the loss, not be masked away.
    keep = ~(ascending.cumsum(0) / count > threshold)
    kept = torch.zeros_like(mask)
    kept[mask] = torch.zeros_like(keep).scatter(0, order, keep)
    return kept
