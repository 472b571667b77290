"""`driftlaw collect`: the runs of a study as three tables, the only input of fits, figures, report.

    runs.csv         a row a run, in the order of the study file: `RUNS`, then a column for every
                     other setting that differs between runs, under its dotted key
    curves.parquet   a row an evaluation: `run_id` and the columns of `eval.parquet`
    updates.parquet  a row an update: `run_id` and the columns of `ledger.parquet`

Equal runs give equal bytes. Every run of the study is a row: a run that has not ended is an error,
a failed run is a row with its reason, and only its tables may be incomplete.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftlaw import layout
from driftlaw.config.load import ConfigError
from driftlaw.config.study import LoadedStudy, Run
from driftlaw.files import read_json, read_table, write_table, write_text
from driftlaw.laws.collapse import STATUSES
from driftlaw.schedule import Schedule
from driftlaw.training.ledger import EVAL, LEDGER, Column, schema

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

RUNS: tuple[Column, ...] = (
    Column("run_id", "string", "", "Name of the run."),
    Column("objective", "string", "", "Name of the objective."),
    Column("delay", "int64", "updates", "Delay D."),
    Column("interval", "int64", "updates", "Synchronisation interval I."),
    Column("S", "int64", "updates", "Staleness axis of the laws, D + I: largest lag + 1."),
    Column("max_lag", "int64", "updates", "Largest lag of the schedule, D + I - 1."),
    Column("mean_lag", "double", "updates", "Mean lag over whole cycles, D + (I - 1)/2."),
    Column("lr", "double", "1/update", "Learning rate, constant after warm-up."),
    Column("seed", "int64", "", "Seed of prompt order and sampling."),
    Column("status", "string", "", "How the run ended: stable, collapsed, censored or failed."),
    Column(
        "collapse_update",
        "int64",
        "updates",
        "Updates done at the collapse, at least 1: first point of the streak that met the rule, or "
        "the update that was not finite. Empty unless collapsed.",
    ),
    Column(
        "detected_at",
        "int64",
        "updates",
        "Updates done when the rule was met. Empty unless collapsed by the rule.",
    ),
    Column(
        "horizon",
        "int64",
        "updates",
        "Updates done: the run's own censoring time. Of a failed run those whose rows it left.",
    ),
    Column("study_horizon", "int64", "updates", "Updates that the study asked for."),
    Column("group_size", "int64", "responses", "Responses G per prompt."),
    Column("base_pass_rate", "double", "1", "Held-out score before the first update."),
    Column("final_score", "double", "1", "Last held-out score. Empty for a failed run."),
    Column("final_se", "double", "1", "Its standard error, clustered by prompt."),
    Column("best_score", "double", "1", "Best held-out score. Empty for a failed run."),
    Column("reason", "string", "", "Why the run ended as it did."),
)

TABLES: Mapping[str, tuple[Column, ...]] = {
    "runs.csv": RUNS,
    "curves.parquet": (RUNS[0], *EVAL),
    "updates.parquet": (RUNS[0], *LEDGER),
}

# Settings that RUNS already shows; checkpoint_every changes no result.
_SHOWN = frozenset(
    {
        "objective.name",
        "schedule.delay",
        "schedule.interval",
        "learner.lr",
        "learner.updates",
        "learner.checkpoint_every",
        "rollout.group_size",
        "seed",
    }
)


def collect(study: LoadedStudy, out: Path) -> str:
    """Write the three tables to `out`; returns one line that says what they hold.

    Raises ConfigError (one line) for a run that has not ended, a folder that holds another run, and
    a run that has ended but whose tables are missing or do not hold its updates.
    """
    import pyarrow as pa

    from driftlaw.laws.run_table import validate

    manifests = _manifests(study)
    extra = varied_settings(study)
    curves, updates, rows = [], [], []
    for run in study.runs:
        manifest, folder = manifests[run.run_id], layout.run_dir(study.name, run.run_id)
        failed = manifest["status"] == "failed"
        curve = _table(folder, "eval", EVAL, failed)
        ledger = _table(folder, "ledger", LEDGER, failed)
        if not failed:
            _check_complete(folder, manifest, curve, ledger)
        rows.append({**_row(run, manifest, curve, ledger), **extra[run.run_id]})
        curves.append(_named(curve, run.run_id))
        updates.append(_named(ledger, run.run_id))
    table = _frame(rows)
    validate(table)
    write_text(out / "runs.csv", table.to_csv(index=False, lineterminator="\n"))
    write_table(out / "curves.parquet", pa.concat_tables(curves))
    write_table(out / "updates.parquet", pa.concat_tables(updates))
    counts = {s: sum(row["status"] == s for row in rows) for s in STATUSES}
    parts = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
    return f"wrote {out}: {len(rows)} runs ({parts})"


def _manifests(study: LoadedStudy) -> dict[str, dict[str, Any]]:
    """The manifest of every run by run_id; ConfigError for the first that is missing or foreign."""
    paths = {r.run_id: layout.run_dir(study.name, r.run_id) / "manifest.json" for r in study.runs}
    missing = [run_id for run_id, path in paths.items() if not path.exists()]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        allowed = f"has not ended, {paths[missing[0]]} does not exist{more}"
        raise ConfigError(study.where, "run", missing[0], allowed)
    out = {}
    for run_id, path in paths.items():
        out[run_id] = read_json(path)
        held = out[run_id]["identity"]["run_id"]
        if held != run_id:
            raise ConfigError(str(path), "identity.run_id", held, f"must be {run_id}")
        status = out[run_id]["status"]
        if status not in STATUSES:
            raise ConfigError(str(path), "status", status, f"must be one of {', '.join(STATUSES)}")
    return out


def varied_settings(study: LoadedStudy) -> dict[str, dict[str, Any]]:
    """Per run_id, the dotted settings that differ between the study's runs and that RUNS lacks.

    A setting that a run's task or objective does not have, or leaves to its default, is None.
    """
    flat = {r.run_id: dict(_flat(r.settings.model_dump(mode="json"))) for r in study.runs}
    keys = sorted({key for settings in flat.values() for key in settings} - _SHOWN)
    varied = [k for k in keys if len({json.dumps(s.get(k)) for s in flat.values()}) > 1]
    return {run_id: {k: settings.get(k) for k in varied} for run_id, settings in flat.items()}


def _flat(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = []
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            out += _flat(inner, f"{prefix}{key}.")
        else:
            out.append((prefix + key, inner))
    return out


def _table(folder: Path, name: str, columns: tuple[Column, ...], failed: bool) -> pa.Table:
    """A run's table. A failed run's may be missing; its parts are newer than a joined table."""
    import pyarrow as pa

    wanted, whole = schema(columns), folder / f"{name}.parquet"
    parts = sorted((folder / "parts").glob(f"{name}-*.parquet")) if failed else []
    if not parts and not whole.exists():
        if failed:
            return wanted.empty_table()
        raise ConfigError(str(whole), "", whole.name, "is missing, but the run has ended")
    tables = [read_table(path) for path in parts or [whole]]
    if any(table.schema.names != wanted.names for table in tables):
        raise ConfigError(str(whole), "", whole.name, "has other columns than its dictionary")
    return pa.concat_tables([table.cast(wanted) for table in tables])


def _check_complete(
    folder: Path, manifest: Mapping[str, Any], curve: pa.Table, ledger: pa.Table
) -> None:
    done = sum(ledger["applied"].to_pylist())
    if done != manifest["updates"]:
        allowed = f"applied updates, but the manifest says {manifest['updates']}"
        raise ConfigError(str(folder / "ledger.parquet"), "", done, allowed)
    if manifest["status"] != "collapsed" and curve.num_rows == 0:
        raise ConfigError(str(folder / "eval.parquet"), "", 0, "evaluations, but the run has ended")


def _named(table: pa.Table, run_id: str) -> pa.Table:
    import pyarrow as pa

    names = pa.array([run_id] * table.num_rows, pa.string())
    return table.add_column(0, schema(RUNS[:1]).field(0), names)


def _row(
    run: Run, manifest: Mapping[str, Any], curve: pa.Table, ledger: pa.Table
) -> dict[str, Any]:
    s, status = run.settings, manifest["status"]
    schedule = Schedule(s.schedule.delay, s.schedule.interval)
    done = sum(ledger["applied"].to_pylist())
    collapsed = status == "collapsed"
    scores = [x for x in curve["avg_at_k"].to_pylist() if x is not None and math.isfinite(x)]
    ended = status != "failed" and curve.num_rows > 0
    return {
        "run_id": run.run_id,
        "objective": s.objective.name,
        "delay": schedule.delay,
        "interval": schedule.interval,
        "S": schedule.max_lag + 1,
        "max_lag": schedule.max_lag,
        "mean_lag": schedule.mean_lag,
        "lr": s.learner.lr,
        "seed": s.seed,
        "status": status,
        "collapse_update": _collapse_update(manifest) if collapsed else None,
        "detected_at": _detected_at(manifest) if collapsed else None,
        # A run whose first update was not finite collapsed in it: time 1, the first there is.
        "horizon": max(1, done) if collapsed else done,
        "study_horizon": s.learner.updates,
        "group_size": s.rollout.group_size,
        "base_pass_rate": manifest["base_pass_rate"],
        "final_score": _finite(curve["avg_at_k"][-1].as_py()) if ended else None,
        "final_se": _finite(curve["se"][-1].as_py()) if ended else None,
        "best_score": max(scores) if ended and scores else None,
        "reason": manifest["reason"],
    }


def _collapse_update(manifest: Mapping[str, Any]) -> int:
    """Event time: the streak's first point where the rule was met, else the update not finite.

    A run may meet the rule and become non-finite later; the rule's event is the earlier one.
    """
    bracket = manifest.get("collapse_bracket")
    return max(1, int(bracket[1] if bracket else manifest["collapse_update"]))


def _detected_at(manifest: Mapping[str, Any]) -> int | None:
    detected = manifest.get("collapse_detected_at")
    return None if detected is None else max(1, int(detected))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    table = pd.DataFrame(rows)
    types = {"int64": "Int64", "double": "float64"}  # Int64 leaves empty cells empty, not 10.0
    return table.astype({c.name: types[c.type] for c in RUNS if c.type in types})
