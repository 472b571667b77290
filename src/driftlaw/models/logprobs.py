"""Token log-probabilities of responses under a model: what the learner compares with log mu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def left_pad(
    prompts: Sequence[Sequence[int]], pad_id: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(N x L token ids, N x L attention mask); no mask where all prompts have one length."""
    width = max(len(p) for p in prompts)
    ids = torch.tensor([[pad_id] * (width - len(p)) + list(p) for p in prompts], dtype=torch.long)
    if all(len(p) == width for p in prompts):
        return ids, None
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], dtype=torch.long)
    return ids, mask


def positions(attention_mask: torch.Tensor) -> torch.Tensor:
    """Position ids of a left-padded batch: the first real token has position 0."""
    return (attention_mask.cumsum(1) - 1).clamp(min=0)


def response_logits(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], response_nt: torch.Tensor, pad_id: int
) -> torch.Tensor:
    """N x T x V float32 logits that predict each response token (right-padded responses)."""
    prompt_ids, prompt_mask = left_pad(prompts, pad_id)
    # The last response token predicts nothing that is needed.
    ids = torch.cat([prompt_ids, response_nt[:, :-1]], dim=1)
    extra = {}
    if prompt_mask is not None:
        ones = torch.ones((len(ids), ids.shape[1] - prompt_mask.shape[1]), dtype=torch.long)
        mask = torch.cat([prompt_mask, ones], dim=1)
        extra = {"attention_mask": mask, "position_ids": positions(mask)}
    out = model(input_ids=ids, use_cache=False, logits_to_keep=response_nt.shape[1], **extra)
    return out.logits.float()


def token_logprobs(
    logits_ntv: torch.Tensor, response_nt: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(N x T log-probabilities of the response's tokens, N x T entropies in nats, detached)."""
    logp_ntv = torch.log_softmax(logits_ntv / temperature, dim=-1)
    with torch.no_grad():
        entropy = -(logp_ntv.exp() * logp_ntv).sum(-1)
    return logp_ntv.gather(-1, response_nt.unsqueeze(-1)).squeeze(-1), entropy
