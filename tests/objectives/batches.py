"""Batches, names and evaluations that the objective tests share (float64 throughout)."""

import numpy as np
import torch

from driftlaw.objectives import Batch, get

from .oracle import Data, Expected
from .oracle_responses import response_level
from .oracle_tokens import TOKEN_LEVEL, token_level

L_MAX = 4
NORMS = ("sequence", "constant", "token")

CLIP = {"eps_low": 0.2, "eps_high": 0.2}
# What `get(name)` means without parameters, after the method; l_max has no default.
DEFAULTS = {
    "grpo": {"length_norm": "sequence"} | CLIP,
    "grpo_noclip": {"length_norm": "sequence"},
    "dapo": {"length_norm": "token", "eps_low": 0.2, "eps_high": 0.28},
    "dr_grpo": {"length_norm": "constant"} | CLIP,
    "tic_mask": {"length_norm": "constant", "eps": 0.2},
    "tic_ppo": {"length_norm": "constant", "eps": 0.2},
    "tic_truncate": {"length_norm": "constant", "eps": 0.2},
    "gmc": {"length_norm": "constant", "eps": 0.2, "through_gradient": False},
    "gmc_waterfill": {"length_norm": "constant", "eps": 0.2},
    "gepo": {"length_norm": "sequence"} | CLIP,
    "gspo": {"length_norm": "sequence", "eps_low": 3e-4, "eps_high": 4e-4},
    "cispo": {"length_norm": "token", "cap": 5.0},
    "tis": {"length_norm": "token", "cap": 2.0},
    "m2po": {"length_norm": "token", "m2_threshold": 0.04},
    "decoupled_ppo": {"length_norm": "token", "cap": 5.0, "alpha": 0.5} | CLIP,
}
NAMES = tuple(DEFAULTS)
TRAJECTORY = ("tic_mask", "tic_ppo", "tic_truncate", "gmc", "gmc_waterfill")
SEQUENCE = ("gspo", "gepo")
# Weights are constants in these: their gradient is that of log pi at fixed weights.
STOP_GRADIENT = ("tic_truncate", "gmc", "gmc_waterfill", "cispo", "tis")
# An objective in another mode, tested wherever the objectives are.
VARIANTS = {
    "gmc_through_gradient": ("gmc", {"through_gradient": True}),
    "decoupled_ppo_given_prox": ("decoupled_ppo", {}),
}
ALL = (*NAMES, *VARIANTS)
NEED_PROX = ("decoupled_ppo_given_prox",)


def batch_of_ratios(ratios, advantages, group_size, logp=-1.0, width=None):
    """Rows of token ratios, every log pi = `logp`; NaN stands under the padding."""
    logs = [[float(np.log(ratio)) for ratio in row] for row in ratios]
    return batch_of_log_ratios(logs, advantages, group_size, logp, width)


def batch_of_log_ratios(logs, advantages, group_size, logp=-1.0, width=None):
    """The same from token log-ratios."""
    width = width or max(len(row) for row in logs)
    logp_nt = torch.full((len(logs), width), float("nan"), dtype=torch.float64)
    behaviour = logp_nt.clone()
    mask = torch.zeros((len(logs), width), dtype=torch.bool)
    for i, row in enumerate(logs):
        mask[i, : len(row)] = True
        logp_nt[i, : len(row)] = logp
        behaviour[i, : len(row)] = logp - torch.tensor(row, dtype=torch.float64)
    return Batch(
        logp_nt.requires_grad_(),
        behaviour,
        mask,
        torch.tensor(advantages, dtype=torch.float64),
        group_size,
    )


def random_batch(seed, prompts, group_size, width, spread=0.4, empty_row=False, prox=False):
    """Random lengths and signs of A, ratios exp(N(0, spread)), a group of A = 0, NaN padding.

    prox: True, or the name of a variant that needs it, adds pi_prox between and beside mu and pi.
    """
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
    prox_logp = logp + spread * rng.standard_normal((n, width))
    return Batch(
        torch.tensor(np.where(mask, logp, np.nan)).requires_grad_(),
        torch.tensor(np.where(mask, behaviour, np.nan)),
        torch.tensor(mask),
        torch.tensor(advantages),
        group_size,
        torch.tensor(np.where(mask, prox_logp, np.nan)) if prox in (True, *NEED_PROX) else None,
    )


def evaluate(name, batch, **params):
    """(result, gradient of the loss in log pi) of an objective; l_max is L_MAX unless given."""
    result = objective(name, **params)(batch)
    (gradient,) = torch.autograd.grad(result.loss, batch.logp)
    return result, gradient


def objective(name, **params):
    name, more = VARIANTS.get(name, (name, {}))
    return get(name, **({"l_max": L_MAX} | more | params))


def expect(name, batch, **params) -> Expected:
    """What the oracle says of the call `evaluate(name, batch, **params)`, by the defaults above."""
    name, more = VARIANTS.get(name, (name, {}))
    settings = {"l_max": L_MAX, "clamp": 20.0} | DEFAULTS[name] | more | params
    if "eps_low" in DEFAULTS[name] and "eps" in settings:
        eps = settings.pop("eps")
        settings |= {"eps_low": eps, "eps_high": eps}
    data = Data(
        batch.logp.detach().double().numpy(),
        batch.behaviour_logp.double().numpy(),
        batch.mask.numpy(),
        batch.advantages.double().numpy(),
        batch.group_size,
        None if batch.prox_logp is None else batch.prox_logp.double().numpy(),
    )
    return (token_level if name in TOKEN_LEVEL else response_level)(name, data, **settings)


def rows(batch, index):
    """The batch of these rows, in this order."""
    index = torch.as_tensor(index)
    return Batch(
        batch.logp.detach()[index].requires_grad_(),
        batch.behaviour_logp[index],
        batch.mask[index],
        batch.advantages[index],
        batch.group_size,
        None if batch.prox_logp is None else batch.prox_logp[index],
    )


def assert_expected(name, batch, rtol=1e-9, atol=1e-9, **params):
    """Loss, weights, raw, gradient and metrics of the call are the oracle's; returns the result."""
    result, gradient = evaluate(name, batch, **params)
    expected = expect(name, batch, **params)
    for found, wanted in (
        (result.loss.detach(), expected.loss),
        (result.weights, expected.weights),
        (result.raw, expected.raw),
        (gradient, expected.gradient),
    ):
        torch.testing.assert_close(
            found.double(), torch.as_tensor(wanted, dtype=torch.float64), rtol=rtol, atol=atol
        )
    assert abs(result.metrics["cap_bound_share"] - expected.share) < 1e-6
    assert result.metrics["clamped_count"] == expected.clamped
    return result, gradient
