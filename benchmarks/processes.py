"""Whole commands: start of a training job, dry-run of a large study, help."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from record import Item
from world import child, driftlaw, make_inputs, snakemake, study, write_study

START_LIMIT_S, DAG_LIMIT_S, HELP_LIMIT_S = 6.0, 30.0, 0.5
DAG_RUNS = 1000


def start(folder: Path, repeats: int) -> Iterator[Item]:
    """From the spawn of `driftlaw train` to the end of its first update; its inputs are there."""
    from driftlaw.config.study import load_study

    # Smoke's evaluation, which happens once before the first update, is part of a start.
    file = write_study(folder / "start.yaml", study(learner={"updates": 2}))
    make_inputs(load_study(file).runs[0], folder)
    yield _start(folder, file, repeats, "start", [])
    # As the workflow calls it: a supervising process starts the one that trains.
    yield _start(folder, file, repeats, "start_supervised", ["--attempts", "3"])


def _start(folder: Path, file: Path, repeats: int, name: str, options: list[str]) -> Item:
    what = "spawn of `driftlaw train" + "".join(f" {o}" for o in options) + "` to its first update"
    out = folder / "started"
    walls: list[float] = []
    cpus: list[float] = []
    for _ in range(repeats + 1):  # the first one warms the disk cache
        shutil.rmtree(out, ignore_errors=True)
        ran = child(driftlaw("train", "--config", str(file), "--out", str(out), *options), folder)
        if ran.trouble():
            return Item(name, what, "s", limit=START_LIMIT_S, error=ran.trouble())
        walls.append(_first_update(out) - ran.started_unix_s)
        cpus.append(ran.cpu_s)
    detail = {"cpu": "whole command, two updates and the end of the run"}
    return Item(name, what, "s", walls[1:], START_LIMIT_S, cpus[1:], detail)


def _first_update(out: Path) -> float:
    """Unix time at which the run in `out` finished its first update."""
    import pyarrow.parquet as pq

    return float(pq.ParquetFile(out / "timing.parquet").read()["finished_unix_s"][0].as_py())


def dag(folder: Path, repeats: int) -> Iterator[Item]:
    """`snakemake -n` on a study of 1,000 runs in an empty working directory."""
    grid = {
        "objective.name": ["grpo", "gmc"],
        "schedule.delay": [0, 4, 8, 16, 32],
        "learner.lr": [round(1e-5 * 1.5**i, 9) for i in range(10)],
        "seeds": list(range(10)),
    }
    place = folder / "dag"
    place.mkdir(exist_ok=True)
    file = write_study(place / "study.yaml", {**study(learner={"updates": 100}), "grid": [grid]})
    what = f"dry-run of the DAG of {DAG_RUNS:,} runs"
    walls, cpus, error = [], [], None
    for _ in range(repeats):
        ran = child(snakemake("-n", "--configfile", str(file), "--cores", "2"), place)
        error = ran.trouble() or _planned(ran.output + ran.errors)
        if error:
            break
        walls.append(ran.wall_s)
        cpus.append(ran.cpu_s)
    yield Item("dag", what, "s", walls, DAG_LIMIT_S, cpus, {"runs": DAG_RUNS}, error)
    yield _load(file, repeats)


def _planned(output: str) -> str | None:
    """None if the plan has a job a run."""
    jobs = [line.split()[1] for line in output.splitlines() if line.split()[:1] == ["train"]]
    return (
        None if str(DAG_RUNS) in jobs else f"planned {jobs or 'no'} training jobs, not {DAG_RUNS}"
    )


def _load(file: Path, repeats: int) -> Item:
    """What every job of that study pays to read it."""
    from driftlaw.config.study import load_study

    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        loaded = load_study(file)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        assert len(loaded.runs) == DAG_RUNS
    return Item("load_study", f"reading a study of {DAG_RUNS:,} runs", "s", walls, None, cpus)


def show_help(folder: Path, repeats: int) -> Iterator[Item]:
    """`driftlaw --help`."""
    ran = [child(driftlaw("--help"), folder) for _ in range(repeats + 1)][1:]
    error = next((r.trouble() for r in ran if r.trouble()), None)
    walls, cpus = [r.wall_s for r in ran], [r.cpu_s for r in ran]
    yield Item("help", "`driftlaw --help`", "s", walls, HELP_LIMIT_S, cpus, error=error)
