"""Held-out score and training reward against update, a column for each staleness."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from driftlaw.figures.data import Caption, Cell, StudyData, count, lr_text, missing
from driftlaw.figures.lines import (
    base_handle,
    base_rates,
    draw_seeds_and_mean,
    method_handles,
    smoothed,
    wide,
    window_of,
)
from driftlaw.figures.style import PALETTE, empty, finish, legend, look, new_figure, note

MAX_PANELS, COLUMNS = 12, 4
COLLAPSE_MARK: dict[str, Any] = {
    "marker": "X",
    "color": PALETTE[3],
    "ms": 8,
    "mec": "white",
    "mew": 0.8,
    "ls": "",
}


def curves(data: StudyData) -> tuple[Figure, Caption]:
    """Upper rows: held-out avg@k against updates done. Lower rows: mean reward of training samples.

    A panel holds the runs of one (D, I, lr); panels beyond MAX_PANELS are named in a note.
    """
    cells = data.cells(data.runs)
    drawn, left = cells[:MAX_PANELS], cells[MAX_PANELS:]
    columns = min(COLUMNS, len(drawn))
    blocks = math.ceil(len(drawn) / columns)
    figure = new_figure(0.9 + 4.3 * blocks)
    grid = figure.subplots(2 * blocks, columns, squeeze=False)
    window = window_of(data.updates)
    smoothing = f"mean of {window} updates" if window > 1 else "not smoothed"
    for i in range(blocks * columns):
        upper, lower = (
            grid[2 * (i // columns)][i % columns],
            grid[2 * (i // columns) + 1][i % columns],
        )
        if i >= len(drawn):
            upper.set_axis_off()
            lower.set_axis_off()
            continue
        _heldout(upper, data, drawn[i])
        _reward(lower, data, drawn[i], window)
        upper.set_title(_title(data, drawn[i]))
        lower.set_xlabel("update")
        if i % columns == 0:
            upper.set_ylabel("held-out score (avg@k)")
            lower.set_ylabel(f"training reward\n({smoothing})")
        else:
            upper.tick_params(labelleft=False)
            lower.tick_params(labelleft=False)
    _one_scale(grid[0::2])
    _one_scale(grid[1::2])
    finish(figure)
    collapsed = Line2D([], [], **COLLAPSE_MARK, label="collapsed")
    handles = [*method_handles(data, data.methods), base_handle()]
    legend(figure, handles + ([collapsed] if (data.runs["status"] == "collapsed").any() else []))
    notes = missing(data.runs)
    if left:
        lrs = ", ".join(lr_text(lr) for lr in sorted({c.lr for c in left}))
        notes.append(f"{count(len(left), 'further panel')} (lr {lrs}) not drawn: see the table.")
    note(figure, notes)
    return figure, _caption(data, window)


def _title(data: StudyData, cell: Cell) -> str:
    if len(set(data.runs["lr"])) == 1:
        return cell.staleness
    return f"{cell.staleness}\nlr {lr_text(cell.lr)}"


def _heldout(axes: Axes, data: StudyData, cell: Cell) -> None:
    runs = data.runs_of(cell)
    base_rates(axes, runs)
    nothing = True
    for place, method in enumerate(data.methods):
        ours = runs[runs["method"] == method]
        table = wide(data.curves, list(ours["run_id"]), "avg_at_k")
        if table.empty:
            continue
        nothing = False
        style = look(data.objective(method), data.variant[method])
        draw_seeds_and_mean(axes, table, ours, style, place, method)
        if table.shape[1] == 1:
            se = wide(data.curves, list(ours["run_id"]), "se").iloc[:, 0]
            score = table.iloc[:, 0]
            axes.fill_between(
                table.index, score - se, score + se, color=style.color, alpha=0.2, lw=0
            )
        for run_id in ours.loc[ours["status"] == "collapsed", "run_id"]:
            if run_id in table and table[run_id].notna().any():
                end = table[run_id].dropna()
                axes.plot(end.index[-1:], end.iloc[-1:], **COLLAPSE_MARK, zorder=5, gid="collapse")
    if nothing:
        empty(axes, _nothing(runs, "held-out score"))


def _reward(axes: Axes, data: StudyData, cell: Cell, window: int) -> None:
    runs = data.runs_of(cell)
    nothing = True
    for place, method in enumerate(data.methods):
        ours = runs[runs["method"] == method]
        table = smoothed(wide(data.updates, list(ours["run_id"]), "reward_mean"), window)
        if table.empty:
            continue
        nothing = False
        style = look(data.objective(method), data.variant[method])
        draw_seeds_and_mean(axes, table, ours, style, place, method)
    if nothing:
        empty(axes, _nothing(runs, "reward"))


def _nothing(runs: pd.DataFrame, what: str) -> str:
    failed = int((runs["status"] == "failed").sum())
    return f"no {what}:\n{failed} of {count(len(runs), 'run')} failed"


def _one_scale(rows: Iterable[Iterable[Axes]]) -> None:
    """The same vertical axis, from 0, in all panels of a kind."""
    used = [axes for row in rows for axes in row if axes.lines]
    values = [np.asarray(line.get_ydata(), float) for axes in used for line in axes.lines]
    tops = [float(y[np.isfinite(y)].max()) for y in values if np.isfinite(y).any()]
    top = max(tops, default=1.0)
    for axes in used:
        axes.set_ylim(-0.03 * max(top, 0.1), 1.06 * max(top, 0.1))


def _caption(data: StudyData, window: int) -> Caption:
    seeds = data.runs["seed"].nunique()
    several = (
        "Thin lines are seeds, thick lines the mean of those that did not fail, up to the last "
        "update that all of them reached and, where only some collapsed, before the first collapse"
        if seeds > 1
        else "Bands are one standard error, clustered by prompt"
    )
    collapsed = int((data.runs["status"] == "collapsed").sum())
    ends = f" A cross ends each of {count(collapsed, 'collapsed run')}." if collapsed else ""
    return Caption(
        "Held-out score and training reward",
        f"Held-out score (above) and mean reward of the training samples (below, trailing mean of "
        f"{window} updates) against update, by method and staleness: delay D, synchronisation "
        f"interval I, in updates. {count(len(data.runs), 'run')}, {count(seeds, 'seed')}. "
        f"{several}; no interval over seeds is drawn.{ends} The reward is the behaviour policy's, "
        f"which lags behind the learner. Dotted: held-out score of the base policy. Tables: "
        f"{data.table('curves.parquet')}, {data.table('updates.parquet')}.",
        data.table("curves.parquet"),
        "Results",
    )
