"""Exact equality, both sides computed here: resume after kills, the synchronous loop, the schedule."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from driftlaw import objectives
from driftlaw.config.study import Run
from driftlaw.files import read_table
from driftlaw.learner.update import Learner
from driftlaw.models.loading import load_model, load_tokenizer
from driftlaw.models.text import Text
from driftlaw.rollout.torch_engine import TorchEngine
from driftlaw.schedule import Schedule
from driftlaw.tasks import build
from driftlaw.tasks.prepare import load_problems
from driftlaw.training.cohorts import advantages, cohort_prompts, generate_cohort, grade_cohort

from .worlds import finish, inputs_of, killed_child, output_bytes, small_run

SCHEDULES = [(0, 1), (3, 1), (0, 4), (2, 3)]


def kill_at_fsync(count: int) -> Callable[[], None]:
    """Arm the process to be killed at its `count`-th forced write: inside parts, checkpoints, tables."""

    def arm() -> None:
        real, seen = os.fsync, [0]

        def fsync(descriptor: int) -> None:
            seen[0] += 1
            if seen[0] == count:
                os.kill(os.getpid(), signal.SIGKILL)
            real(descriptor)

        os.fsync = fsync

    return arm


def kill_at_rename(count: int) -> Callable[[], None]:
    """Arm the process to be killed just before its `count`-th rename."""

    def arm() -> None:
        real, seen = Path.rename, [0]

        def rename(self: Path, target: Path) -> Path:
            seen[0] += 1
            if seen[0] == count:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(self, target)

        Path.rename = rename
        Path.replace = rename

    return arm


def kill_at_update(count: int) -> Callable[[], None]:
    """Arm the process to be killed inside the `count`-th optimizer step that it takes."""

    def arm() -> None:
        real, seen = torch.optim.AdamW.step, [0]

        def step(self: torch.optim.AdamW, *args: object) -> object:
            seen[0] += 1
            if seen[0] == count:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(self, *args)

        torch.optim.AdamW.step = step

    return arm


@pytest.mark.parametrize(("delay", "interval"), SCHEDULES)
def test_kills_at_any_moment_change_no_byte(tmp_path: Path, delay: int, interval: int) -> None:
    run = small_run(schedule__delay=delay, schedule__interval=interval, learner__updates=20)
    finish(run, tmp_path / "whole")
    stream = random.Random(f"{delay}/{interval}")
    reach = {kill_at_update: 5, kill_at_fsync: 20, kill_at_rename: 8}
    kills = 0
    for kind in list(reach) * 4:
        kills += killed_child(run, tmp_path / "killed", kind(stream.randint(1, reach[kind])))
    assert kills >= 4, "the test killed too seldom to say anything"
    finish(run, tmp_path / "killed")
    assert output_bytes(tmp_path / "killed") == output_bytes(tmp_path / "whole")


def test_a_stop_and_a_continuation_change_no_byte(tmp_path: Path) -> None:
    run = small_run(schedule__delay=2, schedule__interval=3)
    finish(run, tmp_path / "whole")
    stopped = finish(run, tmp_path / "stopped", stop_at=7)
    assert (stopped["status"], stopped["updates"]) == ("censored", 7)
    assert finish(run, tmp_path / "stopped")["status"] == "stable"
    assert output_bytes(tmp_path / "stopped") == output_bytes(tmp_path / "whole")


def plain_synchronous_loop(run: Run) -> tuple[bytes, list[dict[str, object]]]:
    """Synchronous GRPO as a textbook has it: sample, grade, update; no schedule, no queue."""
    s = run.settings
    data_dir, base_dir = inputs_of(run)
    torch.use_deterministic_algorithms(True)
    model = load_model(base_dir / "model")
    text = Text(load_tokenizer(base_dir / "model"))
    problems, _, _ = load_problems(data_dir)
    ids = [text.encode(p.prompt) for p in problems]
    task = build(s.task)
    engine = TorchEngine(
        model,
        pad_id=text.pad_id,
        eos_id=text.eos_id,
        max_tokens=s.rollout.max_tokens,
        temperature=1.0,
        top_p=1.0,
    )
    loss = objectives.get(s.objective.name, l_max=s.rollout.max_tokens)
    learner = Learner(
        model, loss, s.learner, s.controller, temperature=1.0, pad_id=text.pad_id, reference=None
    )
    rows: list[dict[str, object]] = []
    for t in range(s.learner.updates):
        engine.version = t
        chosen, samples = generate_cohort(
            engine, t, t, s.seed, s.rollout, problems, ids, text.pad_id
        )
        cohort = grade_cohort(t, chosen, samples, text.decode(samples), problems, task)
        advantage = advantages(cohort.reward, s.rollout.group_size, "std", s.advantage.delta)
        record = learner.update(
            t,
            [ids[i] for i in chosen],
            torch.from_numpy(cohort.response),
            torch.from_numpy(cohort.behaviour_logp),
            cohort.mask(),
            torch.from_numpy(advantage).float(),
            s.rollout.group_size,
        )
        rows.append({"digest": cohort.digest(), "loss": record.loss, "grad_norm": record.grad_norm})
    weights = b"".join(p.detach().numpy().tobytes() for _, p in sorted(model.named_parameters()))
    return weights, rows


def test_schedule_0_1_is_the_plain_synchronous_loop(tmp_path: Path) -> None:
    run = small_run(schedule__delay=0, schedule__interval=1)
    finish(run, tmp_path / "run")
    weights, rows = plain_synchronous_loop(run)
    model = load_model(tmp_path / "run/model")
    assert weights == b"".join(
        p.detach().numpy().tobytes() for _, p in sorted(model.named_parameters())
    )
    ledger = read_table(tmp_path / "run/ledger.parquet").to_pylist()
    assert [r["batch_digest"] for r in ledger] == [r["digest"] for r in rows]
    assert [r["loss"] for r in ledger] == [r["loss"] for r in rows]
    assert [r["grad_norm"] for r in ledger] == [r["grad_norm"] for r in rows]


@pytest.mark.parametrize(("delay", "interval"), [*SCHEDULES, (40, 1), (0, 40)])
def test_the_ledger_closes_and_shows_the_schedule(
    tmp_path: Path, delay: int, interval: int
) -> None:
    run = small_run(schedule__delay=delay, schedule__interval=interval)
    manifest = finish(run, tmp_path / "run")
    s, horizon = run.settings, run.settings.learner.updates
    per_update = s.rollout.prompts * s.rollout.group_size
    total = horizon * per_update
    assert manifest["samples"] == {"generated": total, "consumed": total, "pending": 0}
    ledger = read_table(tmp_path / "run/ledger.parquet").to_pylist()
    assert [r["update"] for r in ledger] == list(range(horizon))
    schedule = Schedule(delay, interval)
    # v(t) written out once more, from the text of the method: the last multiple of I not above t - D.
    brute = [
        max([0, *(v for v in range(t + 1) if v % interval == 0 and v <= t - delay)])
        for t in range(horizon)
    ]
    assert [r["version"] for r in ledger] == brute == [schedule.version(t) for t in range(horizon)]
    assert all(r["lag_min"] == r["lag_max"] == r["update"] - r["version"] for r in ledger)
    for r in ledger:
        assert r["generated"] - r["consumed"] == r["pending_batches"] * per_update
        assert r["pending_batches"] <= delay + interval - 1
    samples = read_table(tmp_path / "run/samples.parquet").to_pylist()
    keys = [(r["update"], r["place"], r["sample"]) for r in samples]
    assert len(set(keys)) == len(keys) == total
    assert set(keys) == {
        (t, p, j)
        for t in range(horizon)
        for p in range(s.rollout.prompts)
        for j in range(s.rollout.group_size)
    }
    assert {(r["update"], r["version"]) for r in samples} == set(enumerate(brute))


def test_prompts_do_not_depend_on_the_schedule(tmp_path: Path) -> None:
    seen = []
    for i, (delay, interval) in enumerate(SCHEDULES):
        run = small_run(schedule__delay=delay, schedule__interval=interval)
        finish(run, tmp_path / str(i))
        table = read_table(tmp_path / str(i) / "samples.parquet")
        seen.append(
            list(zip(table["update"].to_pylist(), table["prompt_id"].to_pylist(), strict=True))
        )
    assert all(other == seen[0] for other in seen)
    other_seed = small_run(seeds=[1])
    finish(other_seed, tmp_path / "seed")
    assert read_table(tmp_path / "seed/samples.parquet")["prompt_id"].to_pylist() != [
        p for _, p in seen[0]
    ]


def test_each_epoch_uses_every_prompt_once() -> None:
    size, prompts = 10, 4
    used = [i for t in range(5) for i in cohort_prompts(3, t, prompts, size)]
    assert sorted(used[:size]) == sorted(used[size:]) == list(range(size))
    assert used[:size] != used[size:]


def test_checkpoint_interval_is_not_part_of_the_result(tmp_path: Path) -> None:
    often, never = small_run(learner__checkpoint_every=1), small_run(learner__checkpoint_every=1000)
    assert often.run_id == never.run_id
    finish(often, tmp_path / "often")
    finish(never, tmp_path / "never")
    assert output_bytes(tmp_path / "often") == output_bytes(tmp_path / "never")


def test_seeds_give_distinct_runs(tmp_path: Path) -> None:
    runs = [small_run(seeds=[seed]) for seed in (0, 1)]
    assert runs[0].run_id != runs[1].run_id
    hashes = [finish(r, tmp_path / r.run_id)["hashes"]["ledger.parquet"] for r in runs]
    assert hashes[0] != hashes[1]


def test_llama_trains_too(tmp_path: Path) -> None:
    run = small_run(model__architecture="llama", schedule__delay=1)
    manifest = finish(run, tmp_path / "run")
    before = load_model(inputs_of(run)[1] / "model")
    after = load_model(tmp_path / "run/model")
    assert manifest["status"] == "stable"
    assert type(after).__name__ == "LlamaForCausalLM"
    moved = [
        float((a - b).abs().max().detach())
        for a, b in zip(after.parameters(), before.parameters(), strict=True)
    ]
    assert np.max(moved) > 1e-3
