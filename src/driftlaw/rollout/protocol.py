"""What a rollout engine promises: one method, and the record that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from driftlaw.streams import StreamName


class NonFinitePolicy(RuntimeError):
    """The policy's probabilities are not finite: the run has collapsed, the code has not failed."""


@dataclass(frozen=True)
class Samples:
    """Responses of one call, rows in the order of the seeds; right-padded to one width.

    version         weights that sampled them
    response        N x T  int64 token ids, pad id after the end
    behaviour_logp  N x T  float32 log mu of each sampled token under the distribution it was drawn
                    from (temperature and top-p applied), recorded while sampling; 0 after the end
    lengths         N      int64 tokens, end-of-text included
    truncated       N      bool: no end-of-text within the limit (finish reason "length", else "stop")
    """

    version: int
    response: NDArray[np.int64]
    behaviour_logp: NDArray[np.float32]
    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]

    @property
    def finish_reasons(self) -> list[str]:
        return ["length" if t else "stop" for t in self.truncated]


class Engine(Protocol):
    """Samples responses with a given version of the weights."""

    def generate(
        self, version: int, prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[StreamName]]
    ) -> Samples:
        """One response per entry of `seeds[p]` for prompt p (token ids), one chunk, on one thread.

        The result is a function of (weights, prompts, seeds, settings) alone. Raises ValueError if
        the engine does not hold `version`, NonFinitePolicy if probabilities are not finite.
        """
        ...


def join(parts: Sequence[Samples], pad_id: int) -> Samples:
    """The rows of several calls with one version, padded to the widest."""
    width = max(p.response.shape[1] for p in parts)

    def wide(array: NDArray, fill: float) -> NDArray:
        return np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=fill)

    assert len({p.version for p in parts}) == 1
    return Samples(
        parts[0].version,
        np.concatenate([wide(p.response, pad_id) for p in parts]),
        np.concatenate([wide(p.behaviour_logp, 0.0) for p in parts]),
        np.concatenate([p.lengths for p in parts]),
        np.concatenate([p.truncated for p in parts]),
    )
