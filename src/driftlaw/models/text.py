"""Between text and token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftlaw.rollout.protocol import Samples


class Text:
    """A tokenizer with the few calls that training and evaluation need."""

    def __init__(self, tokenizer: Any) -> None:
        if tokenizer.eos_token_id is None:
            raise ValueError("the tokenizer has no end-of-text token")
        self.tokenizer = tokenizer
        self.eos_id = int(tokenizer.eos_token_id)
        pad = tokenizer.pad_token_id
        self.pad_id = self.eos_id if pad is None else int(pad)

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt or of a demonstration, without special tokens."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, samples: Samples) -> list[str]:
        """Texts of sampled responses, without end-of-text.

        Special tokens inside a response stay visible: `4<pad>2` must not be graded as 42.
        """
        ids: list[Sequence[int]] = []
        for row, length, truncated in zip(
            samples.response.tolist(),
            samples.lengths.tolist(),
            samples.truncated.tolist(),
            strict=True,
        ):
            ids.append(row[: length if truncated else length - 1])
        return list(self.tokenizer.batch_decode(ids, skip_special_tokens=False))
