"""The held-out evaluation with an engine that says what it is told to."""

import math

import numpy as np
import pytest

from driftlaw.config.settings import EvaluationSettings
from driftlaw.evaluation import heldout
from driftlaw.evaluation.heldout import evaluate
from driftlaw.rollout.protocol import Samples
from driftlaw.streams import EVALUATION
from driftlaw.tasks import Grade, Problem


class Marks:
    """Task: 1 for the answer, 1/2 for "near", else 0; an answer was found unless it is "none"."""

    def grade(self, problem, response, truncated):
        if truncated or response == "none":
            return Grade(0.0, False)
        return Grade({problem.answer: 1.0, "near": 0.5}.get(response, 0.0), True)


class Script:
    """Engine whose "tokens" are numbers of texts; a text in brackets is cut off."""

    def __init__(self, texts):
        self.texts, self.calls = texts, []

    def generate(self, version, prompts, seeds):
        self.calls.append((version, [list(p) for p in prompts], seeds))
        names = [name for group in seeds for name in group]
        rows = [self.texts[name[2]][name[3]] for name in names]
        lengths = np.array([max(1, len(t.strip("[]"))) for t in rows])
        # log mu is -1/2 on every token.
        logp = np.where(np.arange(lengths.max()) < lengths[:, None], -0.5, 0.0).astype(np.float32)
        self.last = [t.strip("[]") for t in rows]
        truncated = np.array([t.startswith("[") for t in rows])
        return Samples(version, np.zeros(logp.shape, dtype=np.int64), logp, lengths, truncated)


@pytest.mark.parametrize("chunk", [64, 2, 1])
def test_every_column_by_hand(monkeypatch, chunk):
    monkeypatch.setattr(heldout, "CHUNK_PROMPTS", chunk)
    problems = [Problem(f"{i}=", answer, answer) for i, answer in enumerate(("42", "7", "999"))]
    # Scores 1, 1 | 1/2, 0 (cut off) | 0 (the answer of another prompt), 0 (no answer).
    engine = Script([["42", "42"], ["near", "[7]"], ["42", "none"]])
    settings = EvaluationSettings(n=2, k=2, prompts=3, seed=9)
    found = evaluate(
        engine, 7, problems, [[1], [2, 2], [3]], Marks(), lambda _: engine.last, settings
    )
    assert found.row() == pytest.approx(
        {
            "update": 7,
            "avg_at_k": 1.25 / 3,
            # Prompt means 1, 1/4, 0: squares 17/16 less 3 (5/12)^2 = 13/24; over 2, over 3.
            "se": math.sqrt(13 / 24 / 2 / 3),
            "pass_at_k": 1 / 3,  # 1, 0, 0: half marks do not pass
            "pass_at_k_se": math.sqrt(1 / 3 / 3),
            "k": 2,
            "n": 2,
            "prompts": 3,
            "truncated_share": 1 / 6,
            "unparsed_share": 2 / 6,  # the one cut off, and "none"
            "length_mean": (2 + 2 + 4 + 1 + 2 + 4) / 6,
            "logp_mean": -0.5,
        }
    )
    # Streams are named by prompt and sample alone, whatever the update and the chunk.
    assert [c[0] for c in engine.calls] == [7] * math.ceil(3 / chunk)
    assert [p for c in engine.calls for p in c[1]] == [[1], [2, 2], [3]]
    assert [s for c in engine.calls for s in c[2]] == [
        [(9, EVALUATION, p, 0), (9, EVALUATION, p, 1)] for p in range(3)
    ]
