"""Between text and token ids."""

import numpy as np
import pytest

from driftlaw.models.text import Text
from driftlaw.models.tiny import build_tokenizer
from driftlaw.rollout.protocol import Samples


def samples(text, rows):
    """Rows of (text, whether it was cut off), as an engine returns them."""
    encoded = [text.encode(t) + ([] if cut else [text.eos_id]) for t, cut in rows]
    width = max(map(len, encoded))
    response = np.array([ids + [text.pad_id] * (width - len(ids)) for ids in encoded])
    lengths = np.array([len(ids) for ids in encoded])
    cut = np.array([cut for _, cut in rows])
    return Samples(0, response, np.zeros(response.shape, dtype=np.float32), lengths, cut)


def test_decode_gives_back_what_was_said():
    text = Text(build_tokenizer())
    rows = [("042", False), ("", False), ("12,34", True), (" a .\n", False)]
    assert text.decode(samples(text, rows)) == [t for t, _ in rows]


def test_ids():
    text = Text(build_tokenizer())
    assert (text.pad_id, text.eos_id) == (0, 1)
    assert text.encode("!") == [4]


def test_pad_token_that_is_end_of_text():
    tokenizer = build_tokenizer()
    tokenizer.pad_token = None
    text = Text(tokenizer)
    assert text.pad_id == text.eos_id == 1
    rows = [("042", False), ("", False), ("12,34", True)]
    assert text.decode(samples(text, rows)) == ["042", "", "12,34"]


def test_a_tokenizer_without_end_of_text_is_refused():
    tokenizer = build_tokenizer()
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="no end-of-text token"):
        Text(tokenizer)
