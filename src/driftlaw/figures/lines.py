"""Lines over updates: every seed thin, their mean thick, and where a mean must end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from driftlaw.figures.data import StudyData
from driftlaw.figures.style import FAINT, Look, look


def wide(table: pd.DataFrame, run_ids: Sequence[str], column: str) -> pd.DataFrame:
    """(updates, runs) values of `column`, updates ascending; runs without rows are left out."""
    rows = table[table["run_id"].isin(run_ids)]
    return rows.set_index(["update", "run_id"])[column].unstack("run_id")  # noqa: PD010


def common(table: pd.DataFrame, runs: pd.DataFrame) -> pd.Series:
    """(updates,) mean over the runs (columns) as long as they are one population.

    It ends with the last update that all reached, since beyond it would be a mean of survivors,
    and, if some of them collapsed and others did not, before the first collapse: a mean of healthy
    and collapsed runs describes neither.
    """
    ours = runs[runs["run_id"].isin(table.columns)]
    collapsed = ours["status"] == "collapsed"
    mean = table.dropna().mean(axis=1)
    if collapsed.any() and not collapsed.all():
        mean = mean[mean.index < ours["collapse_update"].min()]
    return mean


def smoothed(table: pd.DataFrame, window: int, log: bool = False) -> pd.DataFrame:
    """Trailing means over `window` updates, fewer at the start; geometric with `log`."""
    if log:
        logs = table.clip(lower=float(np.finfo(float).tiny)).map(math.log)
        return smoothed(logs, window).map(math.exp)
    # A run's rows have no holes, so what is missing is its end, and stays missing.
    return table.rolling(window, min_periods=1).mean().where(table.notna())


def window_of(table: pd.DataFrame) -> int:
    """Updates to smooth over: a twenty-fourth of the longest run, at least 1."""
    longest = int(table["update"].max()) + 1 if len(table) else 1
    return max(1, longest // 24)


def draw_seeds_and_mean(
    axes: Axes, table: pd.DataFrame, runs: pd.DataFrame, style: Look, place: int, label: str
) -> None:
    """Thin lines of the runs (columns) and the thick line of their common mean.

    A failed run's line, cut off by no fault of the policy, is drawn but no part of the mean.
    runs: rows of runs.csv. place: the method's number in the panel.
    """
    failed = set(runs.loc[runs["status"] == "failed", "run_id"])
    whole = table.drop(columns=[c for c in table.columns if c in failed])
    for run_id in table.columns:
        line = table[run_id].dropna()
        if run_id not in whole or whole.shape[1] > 1:
            axes.plot(
                line.index, line, color=style.color, lw=0.9, alpha=0.5, gid=f"{label}:{run_id}"
            )
    if whole.shape[1]:
        mean = common(whole, runs)
        axes.plot(mean.index, mean, **thick(style, len(mean), place), gid=f"{label}:mean")


def thick(style: Look, points: int, place: int) -> dict[str, Any]:
    """How a mean is drawn where lines may coincide: broken over solid, markers staggered."""
    every = max(1, points // 6)
    start = (place * every // 3) % every
    return {**style.line, "markevery": (start, every), "zorder": 3 + 0.1 * len(style.dash[1])}


def base_rates(axes: Axes, runs: pd.DataFrame) -> None:
    """Dotted lines at the base policies' held-out scores."""
    for rate in sorted(runs["base_pass_rate"].dropna().unique()):
        axes.axhline(rate, color=FAINT, ls=":", lw=1.4, zorder=1, gid="base")


def method_handles(data: StudyData, methods: Sequence[str]) -> list[Line2D]:
    """Legend entries of methods."""
    return [
        Line2D([], [], **look(data.objective(m), data.variant[m]).line, label=m) for m in methods
    ]


def base_handle() -> Line2D:
    return Line2D([], [], color=FAINT, ls=":", lw=1.4, label="base policy")
