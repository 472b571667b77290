"""Tiny Qwen3- and Llama-architecture models with a character tokenizer, as ordinary HF folders.

They are built by `transformers`' own classes, so that everything that is true of a folder saved here
(safetensors, `AutoModelForCausalLM`, `AutoTokenizer`, vLLM) is true of a published model as well.
Embeddings are untied and head_dim is one of vLLM's sizes: a tied LM head is silently left at its old
values by a weight update in some vLLM builds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driftlaw.config.settings import ModelSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

PAD, EOS, UNK = "<pad>", "<eos>", "<unk>"
# Printable ASCII and newline: the alphabet of every procedural task. Anything else is <unk>.
ALPHABET = [*(chr(c) for c in range(32, 127)), "\n"]


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Character-level fast tokenizer: one token per character, no BOS, `<eos>` ends a response."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocab = {token: i for i, token in enumerate([PAD, EOS, UNK, *ALPHABET])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNK,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def build_model(settings: ModelSettings, vocab_size: int, seed: int) -> PreTrainedModel:
    """A randomly initialised causal LM, float32, a pure function of (settings, seed)."""
    import torch

    shape: dict[str, Any] = {
        "vocab_size": vocab_size,
        "hidden_size": settings.hidden_size,
        "intermediate_size": settings.intermediate_size,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads,
        "num_key_value_heads": settings.kv_heads,
        "head_dim": settings.head_dim,
        "max_position_embeddings": settings.max_position,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if settings.architecture == "qwen3":
            from transformers import Qwen3Config, Qwen3ForCausalLM

            return Qwen3ForCausalLM(Qwen3Config(**shape)).float()
        from transformers import LlamaConfig, LlamaForCausalLM

        return LlamaForCausalLM(LlamaConfig(**shape)).float()
