"""Cohorts: the prompts of update t, and the graded samples that update t consumes.

The prompts of update t are a function of (seed, t, P) alone: neither the schedule nor anything that
was sampled can change them. A cohort is generated in fixed chunks, each sample on its own stream.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from driftlaw.config.settings import RolloutSettings
from driftlaw.rollout.protocol import Engine, Samples, join
from driftlaw.streams import PROMPT_ORDER, ROLLOUT, generator
from driftlaw.tasks import Problem, Task


@functools.lru_cache(maxsize=4)
def _epoch_order(seed: int, epoch: int, size: int) -> NDArray[np.int64]:
    return generator((seed, PROMPT_ORDER, epoch)).permutation(size)


def cohort_prompts(seed: int, update: int, prompts: int, size: int) -> list[int]:
    """Indices into the training set of `size` problems that update `update` uses, P of them.

    The set is walked in a new random order every epoch; a cohort may straddle two epochs.
    """
    first = update * prompts
    return [
        int(_epoch_order(seed, place // size, size)[place % size])
        for place in range(first, first + prompts)
    ]


@dataclass(frozen=True)
class Cohort:
    """Graded samples of one update; N = P * G rows, rows of a prompt adjacent.

    problem  N      index into the training set        version  the weights that sampled it
    response, behaviour_logp  N x T; lengths, truncated  N: see `rollout.protocol.Samples`
    reward   N      in [0, 1]                           parsed   N  bool: an answer was found
    """

    update: int
    version: int
    problem: NDArray[np.int64]
    response: NDArray[np.int64]
    behaviour_logp: NDArray[np.float32]
    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    reward: NDArray[np.float64]
    parsed: NDArray[np.bool_]

    def mask(self) -> torch.Tensor:
        """N x T bool, true on response tokens."""
        width = self.response.shape[1]
        return torch.arange(width).unsqueeze(0) < torch.from_numpy(self.lengths).unsqueeze(1)

    def digest(self) -> str:
        """Hash of everything sampled: equal digests are equal bytes."""
        whole = hashlib.sha256(f"{self.update}/{self.version}/{self.response.shape}".encode())
        for array in (self.problem, self.response, self.behaviour_logp, self.lengths, self.reward):
            whole.update(np.ascontiguousarray(array).tobytes())
        return whole.hexdigest()[:16]

    def tensors(self) -> dict[str, torch.Tensor]:
        """For a checkpoint; `from_tensors` takes them back."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        return {f"{self.update}/{k}": torch.as_tensor(v) for k, v in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, torch.Tensor], update: int) -> Cohort:
        def value(name: str) -> Any:
            tensor = tensors[f"{update}/{name}"]
            return int(tensor) if tensor.dim() == 0 else tensor.numpy()

        return cls(**{f.name: value(f.name) for f in fields(cls)})


def generate_cohort(
    engine: Engine,
    update: int,
    version: int,
    seed: int,
    settings: RolloutSettings,
    problems: Sequence[Problem],
    prompt_ids: Sequence[Sequence[int]],
    pad_id: int,
) -> tuple[list[int], Samples]:
    """(problem of each row, samples) of the cohort that update `update` consumes, version `version`."""
    chosen = cohort_prompts(seed, update, settings.prompts, len(problems))
    parts = []
    for start in range(0, len(chosen), settings.chunk_prompts):
        places = range(start, min(start + settings.chunk_prompts, len(chosen)))
        seeds = [
            [(seed, ROLLOUT, update, p, j) for j in range(settings.group_size)] for p in places
        ]
        parts.append(engine.generate(version, [prompt_ids[chosen[p]] for p in places], seeds))
    rows = [index for index in chosen for _ in range(settings.group_size)]
    return rows, join(parts, pad_id)


def grade_cohort(
    update: int,
    rows: Sequence[int],
    samples: Samples,
    texts: Sequence[str],
    problems: Sequence[Problem],
    task: Task,
) -> Cohort:
    """The samples graded, once each."""
    grades = [
        task.grade(problems[row], text, bool(truncated))
        for row, text, truncated in zip(rows, texts, samples.truncated, strict=True)
    ]
    return Cohort(
        update=update,
        version=samples.version,
        problem=np.asarray(rows, dtype=np.int64),
        response=samples.response,
        behaviour_logp=samples.behaviour_logp,
        lengths=samples.lengths,
        truncated=samples.truncated,
        reward=np.array([g.score for g in grades], dtype=np.float64),
        parsed=np.array([g.parsed for g in grades], dtype=np.bool_),
    )


def advantages(
    reward_n: NDArray[np.float64], group_size: int, normalise: str, delta: float
) -> NDArray[np.float64]:
    """A_i from the rewards of each group: (R - mean)/(std + delta), R - mean, or R.

    Population standard deviation; a group of equal rewards has A = 0 under `std` and `mean`.
    (method.md section 1 [choice])
    """
    reward_pg = reward_n.reshape(-1, group_size)
    if normalise == "none":
        return reward_n.copy()
    centred = reward_pg - reward_pg.mean(axis=1, keepdims=True)
    # Equal rewards: a rounding residue of the mean must not be blown up by a small deviation.
    equal = (reward_pg == reward_pg[:, :1]).all(axis=1, keepdims=True)
    if normalise == "std":
        centred = centred / (reward_pg.std(axis=1, keepdims=True) + delta + equal)
    return np.where(equal, 0.0, centred).reshape(-1)
