"""PPO clipping of a length-normalised ratio a response: GSPO and GEPO.

gspo  s_i = r_i^{1/|y_i|}, clip 3e-4 below and 4e-4 above           arXiv 2507.18071 [paper]
gepo  s_i = p_i / (sum_j q_j^2 / sum_j q_j), j over the group; p_i and q_i are the geometric means over
      tokens of pi and mu; eps 0.2                                  arXiv 2508.17850 [paper]

    loss_i = - min(s_i A_i, clip(s_i, 1 - eps_low, 1 + eps_high) A_i),   the mean over the N responses

Differentiated through s_i, whose gradient s_i (1/|y_i|) sum_t grad log pi(y_it) carries the length
normalisation already. It is not applied twice: `length_norm` and `l_max` have no effect here, and n_i
is 1/|y_i|. gepo's weight is not 1 on-policy: s_i compares p_i with the group's expected q. Its sums are
taken as logsumexp, so that long responses do not underflow; log s_i is clamped like a ratio, and a
group whose q are all 0 has log s_i at the clamp. A response without tokens has no part in anything.

gspo's r_i is the clamped trajectory ratio, so it is the *sum* of log-ratios that must stay within the
clamp: at 20 nats a response of 1,000 tokens that drift 0.02 nats each has no gradient. Long responses
want `clamp: 80`, and `clamped_count` says when it matters (docs/peers.md measures it).
"""

from __future__ import annotations

import torch

from driftlaw.objectives.batch import Batch, Result
from driftlaw.objectives.ppo_clip import ppo_clip
from driftlaw.objectives.ratios import shares, spread, token_log_ratio, wide


def gspo(
    batch: Batch,
    length_norm: str,
    l_max: int | None,
    clamp: float,
    *,
    eps_low: float,
    eps_high: float,
) -> Result:
    """Group sequence policy optimisation; see the module's docstring."""
    log_ratio = token_log_ratio(batch).sum(1)
    log_s = log_ratio.clamp(-clamp, clamp) / batch.mask.sum(1).clamp(min=1)
    return _clipped(batch, log_s, log_ratio.detach().abs() > clamp, eps_low, eps_high)


def gepo(
    batch: Batch,
    length_norm: str,
    l_max: int | None,
    clamp: float,
    *,
    eps_low: float,
    eps_high: float,
) -> Result:
    """Group expectation policy optimisation; see the module's docstring."""
    lengths = batch.mask.sum(1)
    log_p, log_q = (
        torch.where(batch.mask, wide(x), 0.0).sum(1) / lengths.clamp(min=1)
        for x in (batch.logp, batch.behaviour_logp)
    )
    log_q_pg = log_q.masked_fill(lengths == 0, -torch.inf).view(-1, batch.group_size)
    total = log_q_pg.logsumexp(1)
    # Where every q of the group is 0 the quotient is 0/0; its limit is q itself, log 0.
    expected = torch.where(total == -torch.inf, total, (2 * log_q_pg).logsumexp(1) - total)
    log_s = log_p - expected.repeat_interleave(batch.group_size)
    log_s = torch.where(lengths > 0, log_s, 0.0)
    return _clipped(
        batch, log_s.clamp(-clamp, clamp), log_s.detach().abs() > clamp, eps_low, eps_high
    )


def _clipped(
    batch: Batch, log_s: torch.Tensor, clamped: torch.Tensor, eps_low: float, eps_high: float
) -> Result:
    advantage = torch.where(batch.mask.any(1), batch.advantages, 0.0).to(log_s.dtype)
    s = log_s.exp()
    surrogate, bound = ppo_clip(s, advantage, eps_low, eps_high)
    loss = -(surrogate * advantage).mean()
    weight_i = torch.where(bound | clamped, 0.0, s.detach())
    return Result(loss, spread(weight_i, batch), spread(s.detach(), batch), shares(bound, clamped))
