"""One optimizer update: log-probabilities, objective, gradient, controller, AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from driftlaw.config.settings import ControllerSettings, LearnerSettings
from driftlaw.learner.controllers import cosine, lr_factor, reduce_alignment
from driftlaw.models.logprobs import response_logits, token_logprobs
from driftlaw.objectives import Batch, Result

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class UpdateRecord:
    """What one update did. `applied` is false where a non-finite loss or gradient stopped it.

    lr is the one applied, `lr_factor` what the controller made of it; grad_norm and grad_cosine (with
    the gradient of the update before) are of the gradient before controller and clipping.
    """

    batch: Batch
    result: Result
    loss: float
    grad_norm: float
    lr: float
    lr_factor: float
    grad_cosine: float | None
    entropy: float
    kl_base: float | None
    applied: bool


class Learner:
    """The policy, its optimizer, and the update that turns version t into version t + 1."""

    def __init__(
        self,
        model: PreTrainedModel,
        objective: Callable[[Batch], Result],
        settings: LearnerSettings,
        controller: ControllerSettings,
        *,
        temperature: float,
        pad_id: int,
        reference: PreTrainedModel | None,
    ) -> None:
        self.model, self.objective, self.settings = model, objective, settings
        self.controller = controller
        self.previous_gradient: list[torch.Tensor] | None = None
        self.temperature, self.pad_id, self.reference = temperature, pad_id, reference
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=settings.lr,
            betas=(settings.beta1, settings.beta2),
            eps=settings.adam_eps,
            weight_decay=settings.weight_decay,
        )

    def learning_rate(self, update: int) -> float:
        """lr of an update: linear from 0 over the warm-up, then constant."""
        warmup = self.settings.warmup
        return self.settings.lr * min(1.0, (update + 1) / warmup) if warmup else self.settings.lr

    def update(
        self,
        update: int,
        prompts: Sequence[Sequence[int]],
        response_nt: torch.Tensor,
        behaviour_logp_nt: torch.Tensor,
        mask_nt: torch.Tensor,
        advantages_n: torch.Tensor,
        group_size: int,
    ) -> UpdateRecord:
        """Take update number `update` on one batch (rows as in `Batch`; prompts one a row)."""
        logits = response_logits(self.model, prompts, response_nt, self.pad_id, group_size)
        logp, entropy = token_logprobs(logits, response_nt, self.temperature)
        batch = Batch(logp, behaviour_logp_nt, mask_nt, advantages_n, group_size)
        result = self.objective(batch)
        loss, kl = result.loss, None
        if self.reference is not None:
            kl_tensor = self._kl(prompts, response_nt, logp, mask_nt, group_size)
            loss = loss + self.settings.kl_coef * kl_tensor
            kl = float(kl_tensor.detach())
        factor = lr_factor(batch) if self.controller.name == "ess_lr" else 1.0
        lr = self.learning_rate(update) * factor
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad()
        loss.backward()
        norm = float(torch.nn.utils.get_total_norm(self._gradient()))
        alignment = self._control()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.grad_clip)
        value = float(loss.detach())
        applied = math.isfinite(value) and math.isfinite(norm)
        if applied:
            self.optimizer.step()
        mean_entropy = float((entropy * mask_nt).sum() / mask_nt.sum())
        return UpdateRecord(
            batch, result, value, norm, lr, factor, alignment, mean_entropy, kl, applied
        )

    def _gradient(self) -> list[torch.Tensor]:
        return [p.grad for p in self.model.parameters() if p.grad is not None]

    def _control(self) -> float | None:
        """Cosine with the gradient before; under `gac` the gradient is changed in place."""
        if self.controller.name != "gac" and not self.controller.watch_cosine:
            return None
        gradient = self._gradient()
        found = cosine(gradient, self.previous_gradient)
        before = [g.clone() for g in gradient]
        if self.controller.name == "gac" and self.previous_gradient is not None:
            reduce_alignment(gradient, self.previous_gradient, self.controller.max_cosine)
        self.previous_gradient = before
        return found if found is None or math.isfinite(found) else None

    def _kl(
        self,
        prompts: Sequence[Sequence[int]],
        response_nt: torch.Tensor,
        logp: torch.Tensor,
        mask_nt: torch.Tensor,
        group_size: int,
    ) -> torch.Tensor:
        """k3 estimate of KL(policy || base), nats a token: mean of e^d - d - 1, d = log base - log pi."""
        assert self.reference is not None
        with torch.no_grad():
            logits = response_logits(self.reference, prompts, response_nt, self.pad_id, group_size)
            base_logp, _ = token_logprobs(logits, response_nt, self.temperature)
        d = torch.where(mask_nt, base_logp - logp, 0.0)
        return (torch.exp(d) - d - 1).sum() / mask_nt.sum()
