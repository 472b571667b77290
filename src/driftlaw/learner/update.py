"""One optimizer update: log-probabilities, objective, gradient, AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from driftlaw.config.settings import LearnerSettings
from driftlaw.models.logprobs import response_logits, token_logprobs
from driftlaw.objectives import Batch, Result

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class UpdateRecord:
    """What one update did. `applied` is false where a non-finite loss or gradient stopped it."""

    batch: Batch
    result: Result
    loss: float
    grad_norm: float
    lr: float
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
        *,
        temperature: float,
        pad_id: int,
        reference: PreTrainedModel | None,
    ) -> None:
        self.model, self.objective, self.settings = model, objective, settings
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
        lr = self.learning_rate(update)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad()
        loss.backward()
        norm = float(
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.grad_clip)
        )
        value = float(loss.detach())
        applied = math.isfinite(value) and math.isfinite(norm)
        if applied:
            self.optimizer.step()
        mean_entropy = float((entropy * mask_nt).sum() / mask_nt.sum())
        return UpdateRecord(batch, result, value, norm, lr, mean_entropy, kl, applied)

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
