"""Whole studies, in an empty working directory: smoke with its base policy, and the CI study."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from record import Item
from world import ROOT, child, snakemake

SMOKE_LIMIT_S, BASE_LIMIT_S, CI_LIMIT_S = 480.0, 90.0, 60.0
CORES = 2


def ci(folder: Path, repeats: int) -> Iterator[Item]:
    """Once, whatever `repeats` says."""
    yield _study(folder, "ci", CI_LIMIT_S)


def smoke(folder: Path, repeats: int) -> Iterator[Item]:
    """Once: it takes minutes. Its jobs' own benchmark files give base policy and runs."""
    from driftlaw.config.cost import base_seconds, run_seconds
    from driftlaw.config.study import load_study

    whole = _study(folder, "smoke", SMOKE_LIMIT_S)
    yield whole
    study = load_study(ROOT / "config/smoke.yaml")
    logs = folder / "smoke/logs/benchmarks"
    bases = {run.base_id: run for run in study.runs}
    seconds = {name: _seconds(logs / f"base/{name}.tsv") for name in bases}
    made = [s for s in seconds.values() if s is not None]
    error = None if made else whole.error or "no base policy was made"
    yield Item("smoke.base", "smoke's base policy", "s", made, BASE_LIMIT_S, error=error)
    ratios = [base_seconds(bases[name].settings) / s for name, s in seconds.items() if s]
    yield Item(
        "cost.smoke_base",
        "base policy, predicted seconds over measured",
        "ratio",
        ratios,
        error=error,
    )
    timed = {run.run_id: _seconds(logs / f"smoke/train/{run.run_id}.tsv") for run in study.runs}
    runs = {
        run.run_id: run_seconds(run.settings) / timed[run.run_id]  # type: ignore[operator]
        for run in study.runs
        if timed[run.run_id]
    }
    what = "smoke's runs, predicted seconds over measured, a sample a run"
    error = None if runs else whole.error or "no run was made"
    detail = {"seconds": timed, "ratios": runs}
    yield Item("cost.smoke_runs", what, "ratio", list(runs.values()), detail=detail, error=error)


def _study(folder: Path, name: str, limit: float) -> Item:
    """The whole DAG of config/<name>.yaml with two cores."""
    place = folder / name
    place.mkdir()
    command = snakemake(
        *("--cores", str(CORES)),
        *("--configfile", str(ROOT / f"config/{name}.yaml")),
        *("--profile", str(ROOT / "profiles/smoke")),
    )
    ran = child(command, place)
    report = place / f"results/{name}/report.html"
    error = ran.trouble() or (None if report.exists() else "left no report")
    what = f"config/{name}.yaml, the whole DAG on {CORES} cores"
    detail = {"cores": CORES, "seconds": ran.wall_s}
    return Item(name, what, "s", [ran.wall_s], limit, [ran.cpu_s], detail, error)


def _seconds(path: Path) -> float | None:
    """Wall seconds of a job by Snakemake's benchmark file; None if there is none."""
    if not path.exists():
        return None
    with path.open(encoding="utf-8") as file:
        return float(next(csv.DictReader(file, delimiter="\t"))["s"])
