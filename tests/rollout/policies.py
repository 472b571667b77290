"""Tiny policies with sharp distributions, and their exact probabilities computed another way."""

import numpy as np
import torch

from driftlaw.config.settings import ModelSettings
from driftlaw.models.tiny import build_model
from driftlaw.rollout.torch_engine import TorchEngine

VOCAB, PAD, EOS = 13, 0, 1
ARCHITECTURES = ("qwen3", "llama")
# Prompts of one length, and of unequal lengths (left-padded).
EVEN = [[5, 6, 7], [8, 9, 10], [3, 3, 3], [12, 4, 2]]
UNEVEN = [[5, 6, 7, 8, 2], [9], [3, 11, 3], [12, 4]]


def policy(architecture="qwen3", seed=0):
    """A random model whose next-token probabilities differ by factors, not by per cents."""
    settings = ModelSettings(
        architecture=architecture,
        hidden_size=16,
        intermediate_size=32,
        layers=2,
        heads=2,
        kv_heads=1,
        max_position=64,
    )
    model = build_model(settings, VOCAB, seed).eval()
    with torch.no_grad():
        # Without this all tokens have nearly equal probability, and context barely matters.
        model.lm_head.weight *= 20
        for layer in model.model.layers:
            attention = layer.self_attn
            for weight, factor in (("q", 8), ("k", 8), ("v", 8), ("o", 20)):
                getattr(attention, f"{weight}_proj").weight *= factor
    return model


def engine(model, max_tokens=6, temperature=1.0, top_p=1.0, **more):
    return TorchEngine(
        model,
        pad_id=PAD,
        eos_id=EOS,
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        **more,
    )


def exact_probabilities(model, context, temperature=1.0, top_p=1.0):
    """Next-token probabilities after one unpadded context, without a cache, in float64."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([context]), use_cache=False).logits[0, -1]
    scaled = logits.double().numpy() / temperature
    p = np.exp(scaled - scaled.max())
    p /= p.sum()
    kept, mass = [], 0.0
    for token in sorted(range(len(p)), key=lambda k: -p[k]):
        kept.append(token)
        mass += p[token]
        if top_p < 1 and mass >= top_p:
            break
    out = np.zeros_like(p)
    out[kept] = p[kept] / mass
    return out


def streams(prompts, group, first=0):
    return [[(11, 1, 0, p + first, j) for j in range(group)] for p in range(len(prompts))]
