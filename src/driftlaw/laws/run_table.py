"""The run table: one row a run, the only input of the fits.

| column            | meaning                                                          | unit    |
|-------------------|------------------------------------------------------------------|---------|
| `S`               | staleness axis, an integer >= 1 (below)                          | updates |
| `lr`              | learning rate, constant over the run, > 0                        |         |
| `seed`            | run seed, an integer                                             |         |
| `status`          | `stable`, `collapsed`, `censored`, `failed` (`laws.collapse`)    |         |
| `collapse_update` | event time, in (0, horizon]; empty unless `collapsed`            | updates |
| `horizon`         | the run's own censoring time: when it was stopped or finished    | updates |

`horizon` is an integer >= 1; a `failed` run may also have 0: it can fail before its first update.
Optional columns that are read when present: `objective`, `delay`, `interval`, `max_lag`,
`detected_at` (the update at which the collapse rule was satisfied, in [collapse_update, horizon]).
Any other column (`run_id`, `mean_lag`, ...) passes through untouched.

Axis. S is the synchronisation interval I where the delay D is 0. In general

    S = max_lag + 1 = D + I        [derived]

because lag(t) is a sawtooth over [D, D + I - 1]; S = 1 has no staleness at all. Where a row gives D
and I, S must agree with them; a given `max_lag` may be the realised one, so it may be smaller than
S - 1 but never larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from driftlaw.laws.collapse import STATUSES

REQUIRED: tuple[str, ...] = ("S", "lr", "seed", "status", "collapse_update", "horizon")
# What makes a run that run; a second row with the same key is the same run counted twice.
RUN_KEY: tuple[str, ...] = ("S", "lr", "seed", "objective", "delay", "interval")


class RunTableError(ValueError):
    """The run table is not one; the message is one line: column, row, value, what is allowed."""


def validate(df: pd.DataFrame, key: Sequence[str] = RUN_KEY) -> pd.DataFrame:
    """A checked copy with fixed dtypes; the argument is left alone.

    df: (runs, columns) as in the module's table. key: the columns that tell two runs apart.
    Returned: S, seed, horizon int64; lr, collapse_update float64 (NaN where there is none); status
        str; other columns as they were; the index as it was.

    Raises RunTableError (one line, the first offending row by its index label) for: a missing
    column, an empty or non-numeric cell, an unknown status, lr, S or horizon out of range, a
    collapsed run without collapse_update or with one outside (0, horizon], a collapse_update on a
    run that did not collapse, S that disagrees with delay and interval or max_lag, and duplicate
    runs (same `key` columns, those present, and same horizon).
    """
    for column in REQUIRED:
        if column not in df.columns:
            raise RunTableError(
                f"run table: column {column} is missing; required: {', '.join(REQUIRED)}"
            )
    out = df.copy()

    _require_filled(out, "status")
    out["status"] = out["status"].astype(str)
    _require(out, "status", out["status"].isin(STATUSES), f"one of {', '.join(STATUSES)}")
    collapsed = out["status"] == "collapsed"

    out["S"] = _integers(out, "S", at_least=1)
    out["seed"] = _integers(out, "seed")
    out["horizon"] = _integers(out, "horizon", at_least=0)
    _require(
        out,
        "horizon",
        (out["horizon"] >= 1) | (out["status"] == "failed"),
        "an integer >= 1 (0 only for a failed run)",
    )
    out["lr"] = _numbers(out, "lr")
    _require(out, "lr", np.isfinite(out["lr"]) & (out["lr"] > 0), "a finite number > 0")

    out["collapse_update"] = _numbers(out, "collapse_update", may_be_empty=True)
    time = out["collapse_update"]
    _require(out, "collapse_update", time.notna() | ~collapsed, "a number for a collapsed run")
    _require(out, "collapse_update", time.isna() | collapsed, "empty unless the run is collapsed")
    inside = (time > 0) & (time <= out["horizon"])
    _require(out, "collapse_update", inside | ~collapsed, "0 < collapse_update <= horizon")

    if "detected_at" in out.columns:
        out["detected_at"] = _numbers(out, "detected_at", may_be_empty=True)
        seen = out["detected_at"]
        inside = seen.isna() | (collapsed & (seen >= time) & (seen <= out["horizon"]))
        _require(
            out,
            "detected_at",
            inside,
            "collapse_update <= detected_at <= horizon, empty unless the run is collapsed",
        )
    _check_axis(out)
    _check_duplicates(out, key)
    return out


def read(path: str | Path) -> pd.DataFrame:
    """The validated run table of a `.csv` or `.parquet` file.

    Raises RunTableError that names the file for another suffix or a table that `validate` refuses,
    and FileNotFoundError when there is no such file.
    """
    path = Path(path)
    if path.suffix == ".csv":
        df = pd.read_csv(path)
    elif path.suffix == ".parquet":
        df = pd.read_parquet(path)
    else:
        raise RunTableError(f"{path}: unknown suffix {path.suffix!r}; allowed: .csv, .parquet")
    try:
        return validate(df)
    except RunTableError as error:
        raise RunTableError(f"{path}: {error}") from None


def at_horizon(df: pd.DataFrame, horizon: int, key: Sequence[str] = RUN_KEY) -> pd.DataFrame:
    """The validated table as a study of length `horizon` (updates) would have recorded it.

    Horizons nest because the learning rate is constant: the first T' updates of a run of length T
    are the run of length T'. A collapse counts if it was *detected* by T' (`detected_at` where
    given, else `collapse_update`); otherwise the run is stable. A healthy run that stopped before
    T' is censored, also one that was stable in a shorter study. A failed run stays failed. [choice]

    Raises RunTableError when `horizon` is not an integer >= 1, or the table is not valid.
    """
    if not float(horizon).is_integer() or horizon < 1:
        raise RunTableError(f"run table: horizon = {horizon!r}; allowed: an integer >= 1")
    out = validate(df, key)
    seen = out["collapse_update"]
    if "detected_at" in out.columns:
        seen = out["detected_at"].fillna(seen)
    collapsed = (out["status"] == "collapsed") & (seen <= horizon)
    healthy = ~collapsed & (out["status"] != "failed")
    out.loc[healthy, "status"] = np.where(
        out.loc[healthy, "horizon"] >= horizon, "stable", "censored"
    )
    out["horizon"] = out["horizon"].clip(upper=int(horizon))
    for column in ("collapse_update", "detected_at"):
        if column in out.columns:
            out.loc[~collapsed, column] = np.nan
    # A run listed at several horizons has become the same row twice: refused, not counted twice.
    return validate(out, key)


def repeated_runs(df: pd.DataFrame, key: Sequence[str] = RUN_KEY) -> int:
    """Rows whose run (`key` columns, those present) already stands in the table."""
    return int(df.duplicated([c for c in key if c in df.columns]).sum())


def _require(df: pd.DataFrame, column: str, ok: pd.Series, allowed: str) -> None:
    """RunTableError for the first row in which `ok` is false."""
    bad = np.flatnonzero(~ok.to_numpy(dtype=bool))
    if bad.size:
        value = df[column].iloc[bad[0]]
        raise RunTableError(
            f"run table: column {column}, row {df.index[bad[0]]}: {value!s}; allowed: {allowed}"
        )


def _require_filled(df: pd.DataFrame, column: str) -> None:
    _require(df, column, df[column].notna(), "a value (the cell is empty)")


def _numbers(df: pd.DataFrame, column: str, may_be_empty: bool = False) -> pd.Series:
    if not may_be_empty:
        _require_filled(df, column)
    numbers = pd.to_numeric(df[column], errors="coerce").astype(float)
    _require(df, column, numbers.notna() | df[column].isna(), "a number")
    return numbers


def _integers(df: pd.DataFrame, column: str, at_least: int | None = None) -> pd.Series:
    numbers = _numbers(df, column)
    allowed = "an integer" if at_least is None else f"an integer >= {at_least}"
    whole = np.isfinite(numbers) & (numbers == numbers.round())
    # Beyond 2**53 a float no longer holds every integer: the cell may not be what was written.
    whole &= numbers.abs() <= 2**53
    if at_least is not None:
        whole &= numbers >= at_least
    _require(df, column, whole, allowed)
    return numbers.astype("int64")


def _check_axis(df: pd.DataFrame) -> None:
    if {"delay", "interval"} <= set(df.columns):
        total = _numbers(df, "delay", may_be_empty=True) + _numbers(
            df, "interval", may_be_empty=True
        )
        _require(df, "S", total.isna() | (df["S"] == total), "S = delay + interval")
    if "max_lag" in df.columns:
        max_lag = _numbers(df, "max_lag", may_be_empty=True)
        _require(df, "max_lag", max_lag.isna() | (max_lag <= df["S"] - 1), "max_lag <= S - 1")


def _check_duplicates(df: pd.DataFrame, key: Sequence[str]) -> None:
    # A run that has a name is itself, whatever else a study varied.
    key = ("run_id",) if "run_id" in df.columns else key
    columns = [c for c in dict.fromkeys((*key, "horizon")) if c in df.columns]
    again = np.flatnonzero(df.duplicated(columns).to_numpy())
    if again.size:
        row = df.iloc[again[0]]
        run = ", ".join(f"{c} = {row[c]}" for c in columns)
        raise RunTableError(
            f"run table: row {df.index[again[0]]} repeats the run {run}; allowed: one row a run"
        )
