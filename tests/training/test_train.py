"""How a run ends, what it writes, and what breaks it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from driftlaw.config.load import ConfigError
from driftlaw.files import read_json, read_table
from driftlaw.models.loading import load_model
from driftlaw.tasks.running_sum import RunningSum
from driftlaw.training import ledger
from driftlaw.training.interrupts import Interrupted

from .worlds import finish, inputs_of, output_bytes, small_run


def column(out: Path, table: str, name: str) -> list[Any]:
    return list(read_table(out / f"{table}.parquet")[name].to_pylist())


def test_a_stable_run_leaves_what_the_dictionary_says(tmp_path: Path) -> None:
    run = small_run()
    manifest = finish(run, tmp_path / "run")
    assert (manifest["status"], manifest["updates"], manifest["collapse_update"]) == (
        "stable",
        13,
        None,
    )
    for name, columns in ledger.TABLES.items():
        table = read_table(tmp_path / "run" / f"{name}.parquet")
        assert table.schema.names == [c.name for c in columns]
        assert table.schema.field(0).metadata[b"unit"] == columns[0].unit.encode()
    # 0, every 4, and the horizon.
    assert column(tmp_path / "run", "eval", "update") == [0, 4, 8, 12, 13]
    assert manifest["base_pass_rate"] == column(tmp_path / "run", "eval", "avg_at_k")[0]
    assert manifest["final_score"] == column(tmp_path / "run", "eval", "avg_at_k")[-1]
    assert not (tmp_path / "run/checkpoints").exists()
    assert manifest["identity"]["run_id"] == run.run_id
    assert manifest["settings"] == run.settings.model_dump(mode="json")


def test_only_timing_and_provenance_hold_times_hosts_and_paths(tmp_path: Path) -> None:
    run = small_run()
    manifest = finish(run, tmp_path / "run")
    rest = json.dumps({k: v for k, v in manifest.items() if k != "provenance"})
    for private in (str(tmp_path), os.uname().nodename + '"', str(inputs_of(run)[0])):
        assert private not in rest
    for name in ("ledger", "eval", "samples"):
        names = " ".join(c.name for c in ledger.TABLES[name])
        assert not any(word in names for word in ("_s ", "unix", "host", "path"))


def test_samples_are_what_the_ledger_counts(tmp_path: Path) -> None:
    finish(small_run(schedule__delay=2), tmp_path / "run")
    rows = read_table(tmp_path / "run/samples.parquet").to_pylist()
    for update, mean, length in zip(
        column(tmp_path / "run", "ledger", "update"),
        column(tmp_path / "run", "ledger", "reward_mean"),
        column(tmp_path / "run", "ledger", "length_mean"),
        strict=True,
    ):
        mine = [r for r in rows if r["update"] == update]
        assert np.mean([r["reward"] for r in mine]) == pytest.approx(mean, abs=1e-12)
        assert np.mean([len(r["tokens"]) for r in mine]) == pytest.approx(length, abs=1e-12)
        assert all(len(r["behaviour_logp"]) == len(r["tokens"]) for r in mine)
        assert all((r["finish_reason"] == "stop") == (r["tokens"][-1] == 1) for r in mine)


def test_lag_0_ratios_are_1_and_stale_ratios_are_not(tmp_path: Path) -> None:
    finish(small_run(), tmp_path / "fresh")
    finish(small_run(schedule__delay=6), tmp_path / "stale")
    fresh = column(tmp_path / "fresh", "ledger", "log_ratio_abs_max")
    assert max(fresh) < 1e-4
    assert column(tmp_path / "fresh", "ledger", "traj_ratio_ess") == pytest.approx(
        [1.0] * 13, abs=1e-6
    )
    stale = column(tmp_path / "stale", "ledger", "log_ratio_abs_max")
    assert stale[0] < 1e-4 and min(stale[7:]) > 1e-3


def test_samples_can_be_left_out_without_changing_the_run(tmp_path: Path) -> None:
    finish(small_run(), tmp_path / "with")
    finish(small_run(rollout__keep_samples=False), tmp_path / "without")
    assert read_table(tmp_path / "without/samples.parquet").num_rows == 0
    left, right = output_bytes(tmp_path / "with"), output_bytes(tmp_path / "without")
    for name in ("ledger.parquet", "eval.parquet", "model/model.safetensors"):
        assert left[name] == right[name]


def test_warm_up_rises_linearly_then_stays(tmp_path: Path) -> None:
    finish(small_run(learner__warmup=4, learner__lr=1e-3), tmp_path / "run")
    lr = column(tmp_path / "run", "ledger", "lr")
    assert lr[:5] == pytest.approx([0.25e-3, 0.5e-3, 0.75e-3, 1e-3, 1e-3])
    assert set(lr[4:]) == {1e-3}


def test_the_kl_term_starts_at_zero_and_holds_the_policy_back(tmp_path: Path) -> None:
    found = {}
    for coefficient in (0.0, 1e-12, 50.0):
        finish(small_run(learner__kl_coef=coefficient), tmp_path / str(coefficient))
        found[coefficient] = column(tmp_path / str(coefficient), "ledger", "kl_base")
    assert found[0.0] == [None] * 13
    assert found[50.0][0] == pytest.approx(0, abs=1e-9) == found[1e-12][0]
    assert 0 < found[50.0][-1] < 0.5 * found[1e-12][-1]


def test_a_score_below_half_its_best_is_a_collapse_at_its_first_point(tmp_path: Path) -> None:
    run = small_run(
        learner__lr=0.3,
        learner__updates=40,
        evaluation__every=2,
        collapse={"floor": 0.01, "fraction": 0.5, "consecutive": 2, "stop_after": 4},
    )
    manifest = finish(run, tmp_path / "run")
    updates, scores = (column(tmp_path / "run", "eval", c) for c in ("update", "avg_at_k"))
    assert manifest["status"] == "collapsed"
    first = next(
        i for i in range(1, len(scores) - 1) if max(scores[i : i + 2]) < 0.5 * max(scores[:i])
    )
    assert manifest["collapse_update"] == updates[first]
    assert manifest["collapse_detected_at"] == updates[first + 1]
    assert manifest["collapse_bracket"] == [updates[first - 1], updates[first]]
    assert manifest["updates"] == updates[first + 1] + 4 < 40
    counts = manifest["samples"]
    assert counts["generated"] == counts["consumed"] + counts["pending"]


def test_a_loss_that_is_not_finite_ends_the_run_as_collapsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = RunningSum.grade
    calls = [0]

    def grade(self: RunningSum, problem: Any, response: str, truncated: bool) -> Any:
        calls[0] += 1
        found = real(self, problem, response, truncated)
        # 12 x 2 graded at update 0, then 16 a cohort: the cohort of update 2 gets a reward of NaN.
        return type(found)(float("nan"), True) if calls[0] == 24 + 33 else found

    monkeypatch.setattr(RunningSum, "grade", grade)
    manifest = finish(small_run(), tmp_path / "run")
    assert (manifest["status"], manifest["collapse_update"], manifest["updates"]) == (
        "collapsed",
        2,
        2,
    )
    assert "non-finite loss or gradient at update 2" in manifest["reason"]
    assert column(tmp_path / "run", "ledger", "applied") == [True, True, False]
    weights = load_model(tmp_path / "run/model").state_dict().values()
    assert all(bool(torch.isfinite(w).all()) for w in weights)


def test_broken_machinery_is_failed_with_its_reason_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small_run()
    finish(run, tmp_path / "whole")

    def broken(*args: Any) -> Any:
        raise RuntimeError("the grader's\nmachine is on fire")

    with monkeypatch.context() as patch:
        patch.setattr(RunningSum, "grade", broken)
        with pytest.raises(RuntimeError):
            finish(run, tmp_path / "run")
    manifest = read_json(tmp_path / "run/manifest.json")
    assert (manifest["status"], manifest["reason"]) == ("failed", "the grader's machine is on fire")
    assert "Traceback" in (tmp_path / "run/error.log").read_text()
    assert finish(run, tmp_path / "run")["status"] == "stable"
    assert not (tmp_path / "run/error.log").exists()
    assert output_bytes(tmp_path / "run") == output_bytes(tmp_path / "whole")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_disk_leaves_what_was_done_and_the_next_start_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    run = small_run()
    finish(run, tmp_path / "whole")
    real, left = os.fsync, [12]

    def fsync(descriptor: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(number, os.strerror(number))
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(OSError, match=os.strerror(number)):
            finish(run, tmp_path / "run")
    assert not (tmp_path / "run/manifest.json").exists()
    assert list((tmp_path / "run/checkpoints").glob("0*")), "a checkpoint had been written"
    messages: list[str] = []
    assert finish(run, tmp_path / "run", say=messages.append)["status"] == "stable"
    assert any("resumed with" in m for m in messages)
    assert output_bytes(tmp_path / "run") == output_bytes(tmp_path / "whole")


def test_a_folder_of_another_run_is_refused_and_left_alone(tmp_path: Path) -> None:
    finish(small_run(), tmp_path / "run")
    before = output_bytes(tmp_path / "run")
    with pytest.raises(ConfigError, match="begun with another run_id"):
        finish(small_run(seeds=[5]), tmp_path / "run")
    assert output_bytes(tmp_path / "run") == before


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    finish(small_run(), tmp_path / "run")
    before = (tmp_path / "run/manifest.json").stat().st_mtime_ns
    messages: list[str] = []
    assert finish(small_run(), tmp_path / "run", say=messages.append)["status"] == "stable"
    assert (tmp_path / "run/manifest.json").stat().st_mtime_ns == before
    assert len(messages) == 1 and "has ended as stable" in messages[0]


def test_an_interruption_saves_and_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    import signal

    run = small_run(schedule__delay=3)
    finish(run, tmp_path / "whole")

    def interrupt(updates: int) -> None:
        if updates == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match="with 5 updates done") as caught:
        finish(run, tmp_path / "run", tick=interrupt)
    assert caught.value.signal_number == signal.SIGTERM
    assert (tmp_path / "run/checkpoints/00000005").is_dir()
    finish(run, tmp_path / "run")
    assert output_bytes(tmp_path / "run") == output_bytes(tmp_path / "whole")


def test_memory_of_pending_work_is_batches_not_weights(tmp_path: Path) -> None:
    """The largest checkpoint of a run with delay 9 exceeds delay 0's by its pending samples only."""
    sizes = {}
    for delay in (0, 9):
        run = small_run(schedule__delay=delay)
        finish(run, tmp_path / str(delay), stop_at=6)
        newest = sorted((tmp_path / str(delay) / "checkpoints").glob("0*"))[-1]
        sizes[delay] = {f.name: f.stat().st_size for f in newest.iterdir()}
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert sizes[9][name] == sizes[0][name]
    rows = 9 * 16
    assert sizes[9]["pending.safetensors"] < rows * 4 * (8 + 4) + rows * 40 + 20_000
