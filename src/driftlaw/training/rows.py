"""The rows that one update adds to the tables of `driftlaw.training.ledger`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftlaw.learner.update import UpdateRecord
from driftlaw.tasks import Problem
from driftlaw.training.cohorts import Cohort
from driftlaw.training.statistics import ratio_statistics


def ledger_row(
    cohort: Cohort,
    record: UpdateRecord,
    group_size: int,
    clamp: float,
    counts: Mapping[str, int],
) -> dict[str, Any]:
    """One update's row of the ledger; `counts` are the sample counts after it, `clamp` is in nats."""
    reward_pg = cohort.reward.reshape(-1, group_size)
    lag = cohort.update - cohort.version
    return {
        "update": cohort.update,
        "version": cohort.version,
        "lag_min": lag,
        "lag_mean": float(lag),
        "lag_max": lag,
        "lr": record.lr,
        "lr_factor": record.lr_factor,
        "applied": record.applied,
        "loss": record.loss,
        "grad_norm": record.grad_norm,
        "grad_cosine": record.grad_cosine,
        "entropy": record.entropy,
        "kl_base": record.kl_base,
        "reward_mean": float(cohort.reward.mean()),
        "reward_std": float(cohort.reward.std()),
        "informative_groups": float((reward_pg != reward_pg[:, :1]).any(axis=1).mean()),
        "length_mean": float(cohort.lengths.mean()),
        "length_max": int(cohort.lengths.max()),
        "truncated_share": float(cohort.truncated.mean()),
        "unparsed_share": float(1 - cohort.parsed.mean()),
        **record.result.metrics,
        **ratio_statistics(record.batch, record.result, clamp),
        **counts,
        "batch_digest": cohort.digest(),
    }


def sample_rows(
    cohort: Cohort,
    advantage_n: NDArray[np.float64],
    group_size: int,
    problems: Sequence[Problem],
) -> list[dict[str, Any]]:
    """A row for each sample that the update consumed."""
    columns = zip(
        cohort.problem.tolist(),
        cohort.reward.tolist(),
        advantage_n.tolist(),
        cohort.truncated.tolist(),
        cohort.response.tolist(),
        cohort.behaviour_logp.tolist(),
        cohort.lengths.tolist(),
        strict=True,
    )
    return [
        {
            "update": cohort.update,
            "version": cohort.version,
            "prompt_id": problems[problem].prompt_id,
            "place": row // group_size,
            "sample": row % group_size,
            "reward": reward,
            "advantage": advantage,
            "finish_reason": "length" if truncated else "stop",
            "tokens": tokens[:length],
            "behaviour_logp": logp[:length],
        }
        for row, (problem, reward, advantage, truncated, tokens, logp, length) in enumerate(columns)
    ]


def timing_row(update: int, timing: Mapping[str, float]) -> dict[str, Any]:
    """Seconds of the update's phases, and when and where it was done."""
    return {
        "update": update,
        "evaluation_s": 0.0,
        **timing,
        "finished_unix_s": time.time(),
        "host": os.uname().nodename,
    }
