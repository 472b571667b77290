"""Batches and evaluations that the objective tests share (float64 throughout)."""

import numpy as np
import torch

from driftlaw.objectives import Batch, get

NAMES = ("grpo", "grpo_noclip", "tic_mask", "tic_truncate", "gmc")
TRAJECTORY = ("tic_mask", "tic_truncate", "gmc")
# Weights are constants in these: their gradient is that of log pi at fixed weights.
STOP_GRADIENT = ("tic_truncate", "gmc")
NORMS = ("sequence", "constant", "token")
L_MAX = 4


def batch_of_ratios(ratios, advantages, group_size, logp=-1.0, width=None):
    """Rows of token ratios, every log pi = `logp`; NaN stands under the padding."""
    width = width or max(len(row) for row in ratios)
    logp_nt = torch.full((len(ratios), width), float("nan"), dtype=torch.float64)
    behaviour = logp_nt.clone()
    mask = torch.zeros((len(ratios), width), dtype=torch.bool)
    for i, row in enumerate(ratios):
        mask[i, : len(row)] = True
        logp_nt[i, : len(row)] = logp
        behaviour[i, : len(row)] = logp - torch.tensor(row, dtype=torch.float64).log()
    return Batch(
        logp_nt.requires_grad_(),
        behaviour,
        mask,
        torch.tensor(advantages, dtype=torch.float64),
        group_size,
    )


def random_batch(seed, prompts, group_size, width, spread=0.4, empty_row=False):
    """Random lengths and signs of A, ratios exp(N(0, spread)), a group of A = 0, NaN padding."""
    rng = np.random.default_rng(seed)
    n = prompts * group_size
    lengths = rng.integers(1, width + 1, n)
    if empty_row:
        lengths[rng.integers(n)] = 0
    mask = np.arange(width) < lengths[:, None]
    logp = rng.uniform(-4.0, -0.05, (n, width))
    behaviour = logp - spread * rng.standard_normal((n, width))
    advantages = rng.standard_normal(n)
    if prompts > 1:
        advantages[:group_size] = 0.0
    return Batch(
        torch.tensor(np.where(mask, logp, np.nan)).requires_grad_(),
        torch.tensor(np.where(mask, behaviour, np.nan)),
        torch.tensor(mask),
        torch.tensor(advantages),
        group_size,
    )


def evaluate(name, batch, **params):
    """(result, gradient of the loss in log pi) of an objective; l_max is L_MAX unless given."""
    result = get(name, **({"l_max": L_MAX} | params))(batch)
    (gradient,) = torch.autograd.grad(result.loss, batch.logp)
    return result, gradient


def reordered(batch, order):
    """The batch with its rows in another order."""
    order = torch.as_tensor(order)
    return Batch(
        batch.logp.detach()[order].requires_grad_(),
        batch.behaviour_logp[order],
        batch.mask[order],
        batch.advantages[order],
        batch.group_size,
    )
