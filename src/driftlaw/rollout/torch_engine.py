"""Sampling with the Hugging Face model itself: batched prefill and decode with a key-value cache.

A token is drawn by inverting the cumulative distribution at a uniform of its own stream, so a sample
depends on its stream and its chunk alone. Bits depend on the shape of a chunk; across shapes log mu
agrees to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from driftlaw.models.logprobs import left_pad, positions
from driftlaw.rollout.protocol import NonFinitePolicy, Samples
from driftlaw.streams import StreamName, uniforms

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class TorchEngine:
    """Engine over a model in this process. `version` says which weights the model holds now."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        pad_id: int,
        eos_id: int,
        max_tokens: int,
        temperature: float,
        top_p: float,
        version: int = 0,
    ) -> None:
        self.model, self.version = model, version
        self.pad_id, self.eos_id = pad_id, eos_id
        self.max_tokens, self.temperature, self.top_p = max_tokens, temperature, top_p

    @torch.inference_mode()
    def generate(
        self, version: int, prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[StreamName]]
    ) -> Samples:
        """See `driftlaw.rollout.protocol.Engine`; every prompt has the same number of seeds."""
        if version != self.version:
            raise ValueError(f"the engine holds version {self.version}, not {version}")
        group = len(seeds[0])
        if len(seeds) != len(prompts) or any(len(s) != group for s in seeds):
            raise ValueError("seeds must give every prompt the same number of streams")
        names = [name for group_seeds in seeds for name in group_seeds]
        u_nt = torch.from_numpy(uniforms(names, self.max_tokens))

        ids, mask = left_pad(prompts, self.pad_id)
        extra = {} if mask is None else {"attention_mask": mask, "position_ids": positions(mask)}
        out = self.model(input_ids=ids, use_cache=True, logits_to_keep=1, **extra)
        cache = out.past_key_values
        cache.batch_repeat_interleave(group)  # one prefill serves the whole group
        logits = out.logits[:, -1].repeat_interleave(group, dim=0)
        if mask is not None:
            mask = mask.repeat_interleave(group, dim=0)

        n = len(names)
        response = torch.full((n, self.max_tokens), self.pad_id, dtype=torch.long)
        logp = torch.zeros((n, self.max_tokens), dtype=torch.float32)
        lengths = torch.full((n,), self.max_tokens, dtype=torch.long)
        done = torch.zeros(n, dtype=torch.bool)
        for t in range(self.max_tokens):
            token, token_logp = draw(logits, u_nt[:, t], self.temperature, self.top_p)
            response[:, t] = torch.where(done, self.pad_id, token)
            logp[:, t] = torch.where(done, 0.0, token_logp)
            ends = ~done & (token == self.eos_id)
            lengths[ends] = t + 1
            done |= ends
            if bool(done.all()) or t + 1 == self.max_tokens:
                break
            if mask is not None:
                mask = torch.cat([mask, torch.ones((n, 1), dtype=torch.long)], dim=1)
                extra = {"attention_mask": mask, "position_ids": positions(mask)[:, -1:]}
            out = self.model(
                input_ids=response[:, t : t + 1], past_key_values=cache, use_cache=True, **extra
            )
            logits = out.logits[:, -1]
        width = t + 1
        return Samples(
            version,
            response[:, :width].numpy(),
            logp[:, :width].numpy(),
            lengths.numpy(),
            (~done).numpy(),
        )


def draw(
    logits_nv: torch.Tensor, u_n: torch.Tensor, temperature: float, top_p: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(N tokens, N log mu): the token where the cumulative distribution passes u in [0, 1).

    log mu is of the distribution drawn from: after temperature, and with top_p < 1 of the smallest
    set of most probable tokens whose mass reaches top_p, renormalised.
    """
    logp_nv = torch.log_softmax(logits_nv.float() / temperature, dim=-1)
    if not bool(torch.isfinite(logp_nv).all()):
        raise NonFinitePolicy("log-probabilities are not finite while sampling")
    if top_p < 1:
        sorted_logp, order = logp_nv.sort(dim=-1, descending=True, stable=True)
        mass_before = sorted_logp.double().exp().cumsum(-1) - sorted_logp.double().exp()
        dropped = torch.zeros_like(logp_nv, dtype=torch.bool).scatter(
            1, order, mass_before >= top_p
        )
        logp_nv = torch.log_softmax(logp_nv.masked_fill(dropped, -torch.inf), dim=-1)
    cdf = logp_nv.double().exp().cumsum(-1)
    # Just below 1, so that rounding cannot pass the last token that has any mass.
    target = u_n.clamp(max=1 - 2.0**-40).unsqueeze(1) * cdf[:, -1:]
    token = torch.searchsorted(cdf, target, right=True).squeeze(1)
    return token, logp_nv.gather(1, token.unsqueeze(1)).squeeze(1)
