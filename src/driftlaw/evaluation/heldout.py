"""The frozen measurement: the same held-out prompts and the same sampling streams at every ordinal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from driftlaw.config.settings import EvaluationSettings
from driftlaw.evaluation.scores import avg_at_k, pass_at_k
from driftlaw.rollout.protocol import Engine
from driftlaw.streams import EVALUATION
from driftlaw.tasks import Problem, Task

CHUNK_PROMPTS = 64  # prompts sampled together; bits of an evaluation depend on it


@dataclass(frozen=True)
class Evaluation:
    """One point of the held-out curve; shares are of responses. Units: `driftlaw.training.ledger`."""

    update: int
    avg_at_k: float
    se: float
    pass_at_k: float
    pass_at_k_se: float
    k: int
    n: int
    prompts: int
    truncated_share: float
    unparsed_share: float
    length_mean: float
    logp_mean: float

    def row(self) -> dict[str, Any]:
        return asdict(self)


def evaluate(
    engine: Engine,
    update: int,
    problems: Sequence[Problem],
    prompt_ids: Sequence[Sequence[int]],
    task: Task,
    decode: Any,
    settings: EvaluationSettings,
) -> Evaluation:
    """Sample and grade `settings.n` responses of each problem with version `update`."""
    scores, parsed, truncated, lengths, logps = [], [], [], [], []
    for start in range(0, len(problems), CHUNK_PROMPTS):
        part = range(start, min(start + CHUNK_PROMPTS, len(problems)))
        seeds = [[(settings.seed, EVALUATION, p, j) for j in range(settings.n)] for p in part]
        samples = engine.generate(update, [prompt_ids[p] for p in part], seeds)
        texts = decode(samples)
        for row, text in enumerate(texts):
            problem = problems[start + row // settings.n]
            grade = task.grade(problem, text, bool(samples.truncated[row]))
            scores.append(grade.score)
            parsed.append(grade.parsed)
        truncated.append(samples.truncated)
        lengths.append(samples.lengths)
        logps.append(samples.behaviour_logp.sum(axis=1, dtype=np.float64))
    scores_pn = np.array(scores).reshape(len(problems), settings.n)
    mean, se = avg_at_k(scores_pn)
    passed, passed_se = pass_at_k(scores_pn >= 1.0, settings.k)
    tokens = np.concatenate(lengths)
    return Evaluation(
        update=update,
        avg_at_k=mean,
        se=se,
        pass_at_k=passed,
        pass_at_k_se=passed_se,
        k=settings.k,
        n=settings.n,
        prompts=len(problems),
        truncated_share=float(np.concatenate(truncated).mean()),
        unparsed_share=float(1 - np.mean(parsed)),
        length_mean=float(tokens.mean()),
        logp_mean=float(np.concatenate(logps).sum() / tokens.sum()),
    )
