"""`driftlaw status` and `driftlaw retry`: where the runs of a study stand, read from their folders."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from driftlaw import layout
from driftlaw.config.study import LoadedStudy, Run, load_study
from driftlaw.files import read_json, remove

# States in the order they are shown; the first four are the statuses of a run that has ended.
STATES = ("failed", "collapsed", "censored", "stable", "running", "interrupted", "waiting")
SILENT_S = 120.0  # a run on another machine that has not reported for so long counts as interrupted


@dataclass(frozen=True)
class RunState:
    """One run as `driftlaw status` shows it; times in seconds."""

    run_id: str
    state: str
    updates: int | None
    horizon: int
    score: float | None
    left_s: float | None
    note: str


def find_study(name: str) -> LoadedStudy:
    """The study of a file, or of the file config/<name>.yaml."""
    path = Path(name)
    return load_study(path if path.suffix or path.exists() else Path("config") / f"{name}.yaml")


def run_state(study: str, run: Run, now: float) -> RunState:
    """Where one run stands."""
    folder = layout.run_dir(study, run.run_id)
    horizon = run.settings.learner.updates
    if (folder / "manifest.json").exists():
        m = read_json(folder / "manifest.json")
        note = "" if m["status"] == "stable" else m["reason"]
        return RunState(
            run.run_id, m["status"], m["updates"], horizon, m["final_score"], None, note
        )
    if not (folder / "progress.json").exists():
        return RunState(run.run_id, "waiting", None, horizon, None, None, "")
    p = read_json(folder / "progress.json")
    alive = _alive(p["pid"]) if p["host"] == os.uname().nodename else now - p["unix_s"] < SILENT_S
    done = p["updates"] - p["started_at_update"]
    rate = (p["unix_s"] - p["started_unix_s"]) / done if done > 0 else None
    left = rate * (horizon - p["updates"]) if rate and alive else None
    state = "running" if alive else "interrupted"
    note = "" if alive else "the same command resumes it"
    return RunState(run.run_id, state, p["updates"], horizon, p["score"], left, note)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def show_status(name: str) -> None:
    """Print the runs of a study by state, and the counts."""
    from rich.console import Console
    from rich.table import Table

    study = find_study(name)
    now = time.time()
    states = sorted(
        (run_state(study.name, run, now) for run in study.runs), key=lambda s: STATES.index(s.state)
    )
    table = Table("run", "state", "update", "held-out", "left", "note", box=None, pad_edge=False)
    for s in states:
        table.add_row(
            s.run_id,
            s.state,
            f"{'-' if s.updates is None else s.updates}/{s.horizon}",
            "-" if s.score is None else f"{s.score:.3f}",
            "-" if s.left_s is None else f"{s.left_s:.0f} s",
            s.note,
        )
    console = Console()
    # Piped into a file or grep, a row stays one line.
    console = console if console.is_terminal else Console(width=400)
    console.print(table)
    counts = {state: sum(s.state == state for s in states) for state in STATES}
    parts = [f"{n} {state}" for state, n in counts.items() if n]
    console.print(f"{study.name}: {len(states)} runs: {', '.join(parts)}", highlight=False)


def forget_failed(name: str) -> list[str]:
    """Delete the manifests of failed runs; returns their names."""
    study = find_study(name)
    now = time.time()
    failed = [r.run_id for r in study.runs if run_state(study.name, r, now).state == "failed"]
    for run_id in failed:
        remove(layout.run_dir(study.name, run_id) / "manifest.json")
    return failed
