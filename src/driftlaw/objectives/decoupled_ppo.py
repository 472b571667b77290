"""Decoupled PPO: the clip is centred on a proximal policy, the rest of the ratio is a capped weight.

    loss_i = - n_i sum_t sg(min(pi_prox/mu, cap)) min(rho_it A_i, clip(rho_it, 1-eps_low, 1+eps_high) A_i)
    rho_it = pi / pi_prox

AReaL, arXiv 2505.24298 [paper]; `cap` 5 [choice]. pi_prox is `Batch.prox_logp`, held constant. Without
it log pi_prox = log mu + alpha (log pi - log mu), held constant too (as A-3PO interpolates it [paper];
alpha 0.5 [choice]). alpha = 0 is PPO centred on mu. With pi_prox recomputed and one update a batch,
pi_prox = pi, the gradient is that of `tis` at the same cap [derived].

The weight on a token's A_i n_i grad log pi is min(pi_prox/mu, cap) rho_it, and zero where the clip binds
or log rho_it is outside the clamp.
"""

from __future__ import annotations

import torch

from driftlaw.objectives.batch import Batch, Result
from driftlaw.objectives.ppo_clip import ppo_clip
from driftlaw.objectives.ratios import (
    length_weight,
    mean_over_responses,
    token_log_ratio,
    token_ratio,
    wide,
)

LARGEST = 1e6  # nats: stands for an infinite log-ratio, so that alpha = 0 or 1 gives no 0 * inf


def decoupled_ppo(
    batch: Batch,
    length_norm: str,
    l_max: int | None,
    clamp: float,
    *,
    eps_low: float,
    eps_high: float,
    cap: float,
    alpha: float,
) -> Result:
    """PPO around a proximal policy; see the module's docstring."""
    logp = wide(batch.logp)
    if batch.prox_logp is None:
        log_ratio = token_log_ratio(batch).detach()
        log_ratio = log_ratio.nan_to_num(nan=torch.nan, posinf=LARGEST, neginf=-LARGEST)
        prox = logp.detach() - (1 - alpha) * log_ratio
        prox_over_mu = alpha * log_ratio
    else:
        prox = wide(batch.prox_logp.detach())
        prox_over_mu = torch.where(batch.mask, prox - wide(batch.behaviour_logp), 0.0)
    pi_over_prox = torch.where(batch.mask, logp - prox, 0.0)
    clamped = (pi_over_prox.detach().abs() > clamp) | (prox_over_mu.abs() > clamp)
    frozen = pi_over_prox.detach().abs() > clamp
    ratio = pi_over_prox.clamp(-clamp, clamp).exp()
    untruncated = prox_over_mu.clamp(-clamp, clamp).exp()
    weight = untruncated.clamp(max=cap)
    advantage = batch.advantages.unsqueeze(1).to(ratio.dtype)
    surrogate, bound = ppo_clip(ratio, advantage, eps_low, eps_high)
    n_i = length_weight(batch, length_norm, l_max)
    loss = -mean_over_responses(weight * surrogate * advantage, batch, n_i)
    stopped = bound | frozen | ~batch.mask
    weights = torch.where(stopped, 0.0, weight * ratio.detach())
    raw = torch.where(batch.mask, token_ratio(batch, clamp)[0].detach(), 0.0)
    either = (bound | (untruncated > cap)) & batch.mask
    metrics = {
        "cap_bound_share": float(either.sum() / batch.mask.sum().clamp(min=1)),
        "clamped_count": float((clamped & batch.mask).sum()),
    }
    return Result(loss, weights, raw, metrics)
