"""Counter-based random streams: who draws, when, and with how many workers cannot matter.

A stream is named by a tuple of non-negative integers, for sampling (run seed, purpose, cohort,
prompt, sample). Its numbers are those of NumPy's Philox under a key that is the hash of the name.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

StreamName = tuple[int, ...]

# The second number of every name: streams of different purposes never meet.
PROMPT_ORDER, ROLLOUT, EVALUATION, BASE_BATCH, BASE_NOISE = range(5)


def generator(name: StreamName) -> np.random.Generator:
    """NumPy generator of the stream `name`."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(_key(name), "little")))


def uniforms(names: Sequence[StreamName], length: int) -> NDArray[np.float64]:
    """N x length uniforms in [0, 1), row i from stream names[i]; shorter rows are prefixes of longer."""
    out = np.empty((len(names), length))
    # One bit generator that is set to each stream's start: making one a row takes four times as long.
    bits = np.random.Philox(key=0)
    draw, state = np.random.Generator(bits), bits.state
    for row, name in zip(out, names, strict=True):
        state["state"]["key"] = np.frombuffer(_key(name), dtype="<u8")
        bits.state = state
        draw.random(out=row)
    return out


def _key(name: StreamName) -> bytes:
    return hashlib.blake2b(struct.pack(f"<{len(name)}Q", *name), digest_size=16).digest()
