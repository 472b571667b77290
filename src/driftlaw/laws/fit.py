"""Fit the laws of one run table, as one JSON-serialisable result per group of runs and for all of
them pooled.

Three exponents: of S in eta_max (paper: -1), of lr in T_c (paper: -1), of S in T_c (paper: 0)
[paper] (LAWS, arXiv 2607.01083). What does not exist is null with a one-line `reason`; no number is
ever NaN or infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import pandas as pd

from driftlaw.laws.boundary import Boundary, fit_boundary
from driftlaw.laws.brackets import count_statuses
from driftlaw.laws.collapse import Status
from driftlaw.laws.collapse_time import CollapseTime, fit_collapse_time
from driftlaw.laws.run_table import (
    RUN_KEY,
    RunTableError,
    at_horizon,
    read,
    repeated_runs,
    validate,
)

POOLED = "pooled"


class LawFit(TypedDict):
    """boundary, collapse_time: as their modules say. counts: all runs by status, at `horizon`.

    horizon: the one asked for (updates), null when every run kept its own.
    stable_horizons: the horizons (updates) at which runs were stable, ascending; the boundary
        belongs to a horizon.
    notes: cautions about the table, one line each.
    """

    boundary: Boundary
    collapse_time: CollapseTime
    counts: dict[Status, int]
    horizon: int | None
    stable_horizons: list[int]
    notes: list[str]


def fit(df: pd.DataFrame, level: float = 0.90, horizon: int | None = None) -> LawFit:
    """Both laws of all runs in the table.

    df: (runs, columns) run table. level: coverage of every interval, in (0, 1).
    horizon: cut the study to this many updates first (`run_table.at_horizon`); None keeps each
        run's own.

    Raises RunTableError for a table that is not valid, ValueError for the level.
    """
    return _fit(df, level, horizon, RUN_KEY)


def fit_by(
    df: pd.DataFrame,
    by: Sequence[str] = ("objective",),
    level: float = 0.90,
    horizon: int | None = None,
) -> dict[str, LawFit]:
    """`fit` for every group of runs that agree in the columns `by`, and for all runs under the key
    "pooled".

    A group's key is `column=value`, several joined by ", ": "objective=gmc", "objective=gmc,
    delay=0". The pooled fit takes the groups' runs as one population: read it only where the
    groups' exponents agree.

    Raises RunTableError when `by` is empty, a column of it is missing or has an empty cell; else as
    `fit`.
    """
    columns = list(by)
    if not columns:
        raise RunTableError("run table: nothing to group by; allowed: at least one column")
    for column in columns:
        if column not in df.columns:
            raise RunTableError(f"run table: column {column} is missing; required to group by it")
        empty = df.index[df[column].isna()]
        if len(empty):
            raise RunTableError(
                f"run table: column {column}, row {empty[0]}: empty; allowed: a value to group by"
            )
    result: dict[str, LawFit] = {}
    # Runs of different groups are different runs, whatever the column that groups them.
    pooled = _fit(df, level, horizon, (*RUN_KEY, *columns))
    for values, runs in df.groupby(columns, sort=True):
        names = values if isinstance(values, tuple) else (values,)
        key = ", ".join(f"{column}={value}" for column, value in zip(columns, names, strict=True))
        result[key] = fit(runs, level, horizon)
    result[POOLED] = pooled
    return result


def fit_file(path: Path, level: float = 0.90, horizon: int | None = None) -> dict[str, object]:
    """`driftlaw fit`: the pooled fit of a run table, and under `by` the fit of every group.

    Groups agree in `objective` and in every other setting that the study varied (dotted columns, as
    `driftlaw collect` names them), where the table has such columns. Raises as `read` and `fit`.
    """
    table = read(path)
    columns = [c for c in table.columns if c == "objective" or "." in c]
    if not columns:
        return {**fit(table, level, horizon), "by": {}, "runs": str(path)}
    # An objective without a parameter has no value for it.
    named = table.assign(**{c: table[c].astype("string").fillna("default") for c in columns})
    groups = fit_by(named, columns, level, horizon)
    pooled = groups.pop(POOLED)
    return {**pooled, "by": groups, "runs": str(path)}


def _fit(df: pd.DataFrame, level: float, horizon: int | None, key: Sequence[str]) -> LawFit:
    runs = validate(df, key) if horizon is None else at_horizon(df, horizon, key)
    stable_horizons = sorted({int(h) for h in runs.loc[runs["status"] == "stable", "horizon"]})
    notes = []
    if len(stable_horizons) > 1:
        notes.append(
            f"runs are stable at {len(stable_horizons)} horizons, which one boundary mixes"
        )
    repeats = repeated_runs(runs, key)
    if repeats:
        notes.append(
            f"{repeats} rows repeat a run at another horizon as independent: intervals too narrow"
        )
    return {
        "boundary": fit_boundary(runs, level),
        "collapse_time": fit_collapse_time(runs, level),
        "counts": count_statuses(runs),
        "horizon": None if horizon is None else int(horizon),
        "stable_horizons": stable_horizons,
        "notes": notes,
    }
