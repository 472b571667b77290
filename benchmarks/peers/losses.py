"""The peers' losses as functions of the same inputs: each calls the library's own code.

A `Loss` is named by its function and the settings given to it; all others are the library's defaults,
read from its own configuration class. `old` is what the peer's ratio is taken to: mu (the sampler, as
recorded), prox (a proximal policy), or pi (the current policy, detached: the first update on a batch
whose log-probabilities the learner recomputed). The ratio of pi to mu is then a weight.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from peers.inputs import L_MAX, Inputs


@dataclass(frozen=True)
class Loss:
    peer: str
    function: str
    settings: Mapping[str, Any]
    call: Callable[[Inputs, torch.Tensor], torch.Tensor]

    @property
    def text(self) -> str:
        """The settings that were given, as a person would write them."""
        return ", ".join(f"{key}={_plain(value)}" for key, value in self.settings.items())


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_plain(v)}" for k, v in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def trl(*, is_mode: str | None = None, **settings: Any) -> Loss:
    """TRL: `GRPOTrainer._compute_loss` on a trainer without a model, whose log-probabilities are given.

    `is_mode`: the correction for vLLM's log-probabilities (`vllm_importance_sampling_mode`), old = pi.
    Its weights are made inside TRL's generation, so they are made here from TRL's settings.
    """

    def call(inputs: Inputs, logp: torch.Tensor) -> torch.Tensor:
        from trl import GRPOConfig, GRPOTrainer

        args = GRPOConfig(bf16=False, use_cpu=True, report_to="none", **given)
        trainer: Any = object.__new__(GRPOTrainer)
        trainer.args = args
        for name in ("loss_type", "importance_sampling_level", "beta", "max_completion_length"):
            setattr(trainer, name, getattr(args, name))
        trainer.epsilon_low = args.epsilon
        trainer.epsilon_high = args.epsilon if args.epsilon_high is None else args.epsilon_high
        trainer.top_entropy_quantile = args.top_entropy_quantile
        trainer.off_policy_mask_threshold = args.off_policy_mask_threshold
        trainer.aux_loss_enabled = trainer._entropy_bonus_enabled = False
        trainer.use_vllm = is_mode is not None
        trainer.vllm_importance_sampling_correction = args.vllm_importance_sampling_correction
        trainer.model = SimpleNamespace(training=True)
        # One accumulation step that holds the whole batch.
        trainer.current_gradient_accumulation_steps = args.steps_per_generation = 1
        trainer.accelerator = SimpleNamespace(
            num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x
        )
        trainer._metrics = {"train": defaultdict(list)}
        trainer._get_per_token_logps_and_entropies = lambda *words, **named: (
            logp,
            torch.zeros_like(logp),
            None,
        )
        ids = torch.zeros_like(inputs.mask, dtype=torch.long)
        batch = {
            "prompt_ids": ids[:, :1],
            "prompt_mask": ids[:, :1] + 1,
            "completion_ids": ids,
            "completion_mask": inputs.mask.long(),
            "advantages": inputs.advantages,
            "old_per_token_logps": inputs.mu,
            "num_items_in_batch": inputs.mask.sum(),
        }
        if is_mode is not None:
            batch["old_per_token_logps"] = logp.detach()
            batch["importance_sampling_ratio"] = _trl_weights(
                logp.detach() - inputs.mu, inputs.mask, args
            )
        loss: torch.Tensor = trainer._compute_loss(None, batch)
        return loss

    given = dict(settings)
    if is_mode is not None:
        given["vllm_importance_sampling_mode"] = is_mode
    shown = {"use_vllm": True, **given} if is_mode else given
    return Loss("trl", "_compute_loss", shown, call)


def _trl_weights(log_ratio: torch.Tensor, mask: torch.Tensor, args: Any) -> torch.Tensor:
    """N x T or N x 1 weights of pi to mu, bounded as `vllm_importance_sampling_mode` says."""
    level, action = args.vllm_importance_sampling_mode.split("_")
    log_ratio = log_ratio * mask
    ratio = (log_ratio.sum(1, keepdim=True) if level == "sequence" else log_ratio).exp()
    cap = args.vllm_importance_sampling_clip_max
    return ratio.clamp(max=cap) if action == "truncate" else ratio.masked_fill(ratio > cap, 0.0)


def verl(
    name: str,
    *,
    old: str = "mu",
    rollout_correction: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Loss:
    """verl: a registered policy loss with an `ActorConfig`.

    `rollout_correction` with old = mu is verl's bypass mode; with old = prox its weights of prox to mu
    multiply the loss.
    """

    def call(inputs: Inputs, logp: torch.Tensor) -> torch.Tensor:
        from verl.trainer.config.algorithm import RolloutCorrectionConfig
        from verl.trainer.ppo.core_algos import get_policy_loss_fn
        from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights
        from verl.workers.config import ActorConfig, PolicyLossConfig

        correction = dict(rollout_correction or {})
        config = ActorConfig(
            strategy="fsdp",
            rollout_n=1,
            ppo_micro_batch_size_per_gpu=1,
            policy_loss=PolicyLossConfig(
                loss_mode=name, rollout_correction=RolloutCorrectionConfig(**correction)
            ),
            **settings,
        )
        config.global_batch_info["loss_scale_factor"] = config.loss_scale_factor
        mask = inputs.mask.to(logp.dtype)
        weights = None
        if old == "prox" and correction:
            weights, _ = compute_rollout_correction_weights(
                inputs.prox - inputs.mu, mask, **correction
            )
        loss: torch.Tensor = get_policy_loss_fn(name)(
            old_log_prob=inputs.prox if old == "prox" else inputs.mu,
            log_prob=logp,
            advantages=inputs.advantages_nt,
            response_mask=mask,
            loss_agg_mode=config.loss_agg_mode,
            config=config,
            rollout_is_weights=weights,
        )[0]
        return loss

    shown = dict(settings)
    if rollout_correction is not None:
        shown["rollout_correction"] = rollout_correction
    if old != "mu":
        shown = {"old": old, **shown}
    return Loss("verl", name, shown, call)


def openrlhf(*, old: str = "mu", **settings: Any) -> Loss:
    """OpenRLHF: the module `PolicyLoss`."""

    def call(inputs: Inputs, logp: torch.Tensor) -> torch.Tensor:
        from openrlhf.models.loss import PolicyLoss

        before = {"mu": inputs.mu, "prox": inputs.prox, "pi": logp.detach()}[old]
        loss: torch.Tensor = PolicyLoss(**settings)(
            logp, before, inputs.advantages_nt, inputs.mask.to(logp.dtype), inputs.mu
        )[0]
        return loss

    shown = settings if old == "mu" else {"old": old, **settings}
    return Loss("openrlhf", "PolicyLoss", shown, call)


def areal(
    *,
    old: str = "mu",
    rejection_sampling: Mapping[str, Any] | None = None,
    mean_over_all: bool = False,
    **settings: Any,
) -> Loss:
    """AReaL: `grpo_loss_fn` of its actor, with the defaults of `PPOActorConfig`.

    old = loglinear: AReaL interpolates pi_prox itself, for samples two updates old (alpha 1/2).
    `mean_over_all`: multiplied by the share of tokens that M2PO keeps, which turns AReaL's mean over
    those into a sum over all tokens' number. AReaL's logged statistics refuse float64; they are left out.
    """

    def call(inputs: Inputs, logp: torch.Tensor) -> torch.Tensor:
        from areal.api.cli_args import PPOActorConfig, RejectionSamplingConfig
        from areal.trainer.ppo import actor

        fields = PPOActorConfig.__dataclass_fields__
        names = ("eps_clip", "eps_clip_higher", "c_clip", "m2_threshold")
        given = {name: fields[name].default for name in (*names, "importance_sampling_level")}
        given |= settings
        if rejection_sampling is not None:
            given["rejection_sampling"] = RejectionSamplingConfig(**rejection_sampling)
        batch = {
            "logprobs": inputs.mu,
            "advantages": inputs.advantages_nt,
            "loss_mask": inputs.mask,
        }
        if old == "loglinear":
            batch["versions"] = torch.where(inputs.mask, 0, -1)
            given |= {"prox_logp_method": "loglinear", "current_version": 2}
        else:
            batch["prox_logp"] = {"mu": inputs.mu, "prox": inputs.prox, "pi": logp.detach()}[old]
        with mock.patch.object(actor, "stats_tracker", mock.MagicMock()):
            loss: torch.Tensor = actor.grpo_loss_fn(logp, torch.zeros_like(logp), batch, **given)
        if mean_over_all:
            kept = actor._apply_m2po_masking(
                inputs.mu, batch["prox_logp"], inputs.mask, given["m2_threshold"]
            )
            loss = loss * (kept.sum() / inputs.mask.sum())
        return loss

    shown = dict(settings)
    if rejection_sampling is not None:
        shown["rejection_sampling"] = rejection_sampling
    if old != "mu":
        shown = {"prox_logp": old, **shown}
    if mean_over_all:
        shown["times"] = "kept/all tokens"
    return Loss("areal", "grpo_loss_fn", shown, call)


def driftlaw(
    name: str, params: Mapping[str, Any]
) -> Callable[[Inputs, torch.Tensor], torch.Tensor]:
    """Ours; `prox` among the parameters hands the batch's proximal policy over."""
    from driftlaw.objectives import CATALOG, Batch, get
    from peers.inputs import GROUP_SIZE

    params = dict(params)
    prox = params.pop("prox", False)
    if params.get("length_norm", CATALOG[name].length_norm) == "constant":
        params.setdefault("l_max", L_MAX)
    objective = get(name, **params)

    def call(inputs: Inputs, logp: torch.Tensor) -> torch.Tensor:
        batch = Batch(
            logp,
            inputs.mu,
            inputs.mask,
            inputs.advantages,
            GROUP_SIZE,
            inputs.prox if prox else None,
        )
        return objective(batch).loss

    return call
