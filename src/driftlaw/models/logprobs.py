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
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    response_nt: torch.Tensor,
    pad_id: int,
    group_size: int = 1,
) -> torch.Tensor:
    """N x T x V float32 logits that predict each response token (right-padded responses).

    Adjacent rows of a group have one prompt: it is read once a group, as the sampler reads it.
    """
    prompt_ids, mask = left_pad(prompts[::group_size], pad_id)
    # The last response token predicts nothing that is needed.
    ids, width = response_nt[:, :-1], response_nt.shape[1]
    if group_size == 1 or width == 1:  # in one pass
        whole = torch.cat([prompt_ids.repeat_interleave(group_size, dim=0), ids], dim=1)
        extra = _placed(mask, group_size, ids)
        out = model(input_ids=whole, use_cache=False, logits_to_keep=width, **extra)
        return out.logits.float()
    prompt = model(input_ids=prompt_ids, use_cache=True, logits_to_keep=1, **_placed(mask, 1))
    cache = prompt.past_key_values
    cache.batch_repeat_interleave(group_size)
    extra = _placed(mask, group_size, ids)
    if extra:
        extra["position_ids"] = extra["position_ids"][:, -ids.shape[1] :]
    out = model(input_ids=ids, past_key_values=cache, use_cache=True, **extra)
    first = prompt.logits.repeat_interleave(group_size, dim=0)
    return torch.cat([first, out.logits], dim=1).float()


def _placed(
    mask: torch.Tensor | None, group_size: int, ids: torch.Tensor | None = None
) -> dict[str, torch.Tensor]:
    """Attention mask and positions of left-padded prompts, each repeated, with `ids` after them."""
    if mask is None:
        return {}
    mask = mask.repeat_interleave(group_size, dim=0)
    if ids is not None:
        mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
    return {"attention_mask": mask, "position_ids": positions(mask)}


def token_logprobs(
    logits_ntv: torch.Tensor, response_nt: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(N x T log-probabilities of the response's tokens, N x T entropies in nats, detached)."""
    logp_ntv = torch.log_softmax(logits_ntv / temperature, dim=-1)
    with torch.no_grad():
        entropy = -(logp_ntv.exp() * logp_ntv).sum(-1)
    return logp_ntv.gather(-1, response_nt.unsqueeze(-1)).squeeze(-1), entropy
