"""A causal language model and its tokenizer, from and to an ordinary Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load_model(folder: Path, trust_remote_code: bool = False) -> PreTrainedModel:
    """The model in `folder`, float32, without dropout. Safetensors only: nothing is unpickled."""
    import torch
    from transformers import AutoModelForCausalLM

    _quiet()
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.float32,
        use_safetensors=True,
        trust_remote_code=trust_remote_code,
        local_files_only=True,
    )
    # Ratios compare log-probabilities of two passes: dropout would be noise in them.
    return model.eval()


def load_tokenizer(folder: Path, trust_remote_code: bool = False) -> Any:
    """The tokenizer in `folder`."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(
        folder, trust_remote_code=trust_remote_code, local_files_only=True
    )


def save_model(model: PreTrainedModel, tokenizer: Any, folder: Path) -> None:
    """Write an ordinary Hugging Face folder: config, safetensors, tokenizer."""
    _quiet()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _quiet() -> None:
    """No progress bars of the library inside ours, and no advice on standard error."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
