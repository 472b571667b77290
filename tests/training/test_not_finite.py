"""Runs that stop being finite: a collapse with one outcome, whenever the process is killed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from driftlaw.config.study import Run
from driftlaw.learner.update import Learner, UpdateRecord

from .test_exactness import kill_at_fsync, kill_at_rename
from .worlds import finish, killed_child, output_bytes, small_run

BROKEN_UPDATE = 6  # a checkpoint is due at 6: the kills below fall before, at and after it


def nan_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of one update is NaN: the optimizer must not step."""
    real = Learner.update

    def update(self: Learner, t: int, *arguments: Any) -> UpdateRecord:
        *rest, advantages_n, group_size = arguments
        if t == BROKEN_UPDATE:
            advantages_n = torch.full_like(advantages_n, math.nan)
        return real(self, t, *rest, advantages_n, group_size)

    monkeypatch.setattr(Learner, "update", update)


def infinite_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """One update's learning rate overflows the weights: the policy is not finite after it."""
    real = Learner.learning_rate

    def learning_rate(self: Learner, t: int) -> float:
        return 1e38 if t == BROKEN_UPDATE else real(self, t)

    monkeypatch.setattr(Learner, "learning_rate", learning_rate)


def run_with(**change: Any) -> Run:
    return small_run(schedule__delay=2, schedule__interval=3, evaluation__every=1, **change)


@pytest.mark.parametrize(("fault", "collapse"), [(nan_loss, 6), (infinite_step, 7)])
@pytest.mark.parametrize("kill", [kill_at_fsync, kill_at_rename])
def test_kills_around_the_event_change_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Any, collapse: int, kill: Any
) -> None:
    fault(monkeypatch)
    run = run_with()
    whole = finish(run, tmp_path / "whole")
    assert (whole["status"], whole["collapse_update"]) == ("collapsed", collapse)
    kills = 0
    for count in range(1, 80, 4):
        out = tmp_path / str(count)
        if not killed_child(run, out, kill(count)):
            break
        kills += 1
        again = finish(run, out)
        for key in ("status", "reason", "collapse_update", "updates", "samples", "hashes"):
            assert again[key] == whole[key], (count, key)
        assert output_bytes(out) == output_bytes(tmp_path / "whole")
    assert kills >= 4, "the test killed too seldom to say anything"
