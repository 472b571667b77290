"""How far samples have drifted: ratios, effective sample size, group mass, the cap's share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from driftlaw.figures.data import Caption, Cell, StudyData, count, lr_text, missing, one_rate
from driftlaw.figures.lines import common, method_handles, smoothed, thick, wide, window_of
from driftlaw.figures.style import INK, Look, finish, legend, look, new_figure, note

MAX_PANELS = 5
# (axis label, ledger column, logarithmic, thin companion)
ROWS: tuple[tuple[str, str, bool, str | None], ...] = (
    ("trajectory ratio,\nsecond moment", "traj_ratio_m2", True, None),
    ("trajectory ratio,\nlargest", "traj_ratio_max", True, None),
    ("trajectory ESS\n(share of batch)", "traj_ratio_ess", False, None),
    ("mean group mass\n(1)", "group_weight_mass_mean", False, "group_ratio_mass_mean"),
    ("bound by the cap\n(share)", "cap_bound_share", False, None),
)


def ratios(data: StudyData) -> tuple[Figure, Caption]:
    """Rows: what `ROWS` names. Columns: staleness, at the main learning rate. Lines: methods."""
    runs = data.at_main_lr()
    cells = data.cells(runs)
    drawn = _spread(cells, MAX_PANELS)
    window = window_of(data.updates)
    figure = new_figure(1.0 + 1.5 * len(ROWS))
    grid = figure.subplots(len(ROWS), len(drawn), squeeze=False, sharex="col", sharey="row")
    for column, cell in enumerate(drawn):
        here = data.runs_of(cell)
        some = data.updates["run_id"].isin(here["run_id"]).any()
        for row, (label, name, log, companion) in enumerate(ROWS):
            axes = grid[row][column]
            if row == 0:
                axes.set_title(cell.staleness)
            if column == 0:
                axes.set_ylabel(label, fontsize=9)
            if some:
                _lines(axes, data, here, name, log, companion, window)
            else:
                where: dict[str, Any] = {
                    "transform": axes.transAxes,
                    "ha": "center",
                    "va": "center",
                }
                axes.text(0.5, 0.5, "no updates", color=INK, **where)
        grid[-1][column].set_xlabel("update")
    for line, (_, _, log, _) in zip(grid, ROWS, strict=True):
        if log:
            _logarithmic(line)
    finish(figure)
    thin = Line2D([], [], color=INK, lw=0.9, alpha=0.7, label="group mass before the cap (thin)")
    shown = [m for m in data.methods if m in set(runs["method"])]
    legend(figure, [*method_handles(data, shown), thin])
    note(figure, _notes(data, runs, len(cells) - len(drawn)))
    return figure, _caption(data, runs, window)


def _logarithmic(row: Sequence[Axes]) -> None:
    """A shared logarithmic axis, also around one value alone: on-policy all ratios are 1."""
    values = np.concatenate(
        [np.empty(0), *(np.asarray(line.get_ydata(), float) for a in row for line in a.lines)]
    )
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (1.0, 1.0)
    room = max((high / low) ** 0.05, 1.05)
    row[0].set_ylim(low / room, high * room)
    row[0].set_yscale("log")
    plain = FuncFormatter(lambda value, _: f"{value:.3g}")
    row[0].yaxis.set_major_formatter(plain)
    row[0].yaxis.set_minor_formatter(plain if high < 10 * low else NullFormatter())


def _lines(
    axes: Axes,
    data: StudyData,
    runs: pd.DataFrame,
    name: str,
    log: bool,
    companion: str | None,
    window: int,
) -> None:
    runs = runs[runs["status"] != "failed"]
    for place, method in enumerate(data.methods):
        ids = list(runs.loc[runs["method"] == method, "run_id"])
        style = look(data.objective(method), data.variant[method])
        for column, where in ((companion, None), (name, place)):
            if column:
                table = smoothed(wide(data.updates, ids, column), window, log)
                _mean(axes, table, runs, style, log, where)


def _mean(
    axes: Axes, table: pd.DataFrame, runs: pd.DataFrame, style: Look, log: bool, place: int | None
) -> None:
    """The seeds' common mean, thin without a `place`; where it ends, each seed's own line."""
    if table.empty:
        return
    mean = common(table.map(math.log), runs).map(math.exp) if log else common(table, runs)
    if place is None:
        axes.plot(mean.index, mean, color=style.color, lw=0.9, alpha=0.7, gid="before")
    else:
        axes.plot(mean.index, mean, **thick(style, len(mean), place), gid="mean")
    for run_id in table.columns:
        rest = table[run_id].dropna()
        rest = rest[rest.index >= mean.index.max()] if len(mean) else rest
        if len(rest) > 1:
            axes.plot(rest.index, rest, color=style.color, lw=0.8, alpha=0.5, gid="rest")


def _spread(cells: list[Cell], most: int) -> list[Cell]:
    """At most `most` of the cells, the first and the last among them, evenly spread."""
    if len(cells) <= most:
        return cells
    return [cells[round(i * (len(cells) - 1) / (most - 1))] for i in range(most)]


def _notes(data: StudyData, runs: pd.DataFrame, left: int) -> list[str]:
    notes = missing(runs)
    notes += one_rate(data)
    if left:
        notes.append(f"{count(left, 'further staleness setting')} not drawn: see the table.")
    return notes


def _caption(data: StudyData, runs: pd.DataFrame, window: int) -> Caption:
    return Caption(
        "Ratios, effective sample size, group mass and cap",
        f"Ratio diagnostics of each update's batch at lr {lr_text(data.main_lr)}, by method and "
        f"staleness: second moment and largest of the trajectory ratios r = pi/mu, their effective "
        f"sample size over the number of responses, the mean group mass before (thin) and after "
        f"(thick) the cap, and the share of what the cap acts on (tokens, responses or groups, by "
        f"objective: not comparable between them) that it binds. {count(len(runs), 'run')}; lines "
        f"are means over seeds as long as all of them go on, then single seeds; trailing mean "
        f"of {window} updates (geometric on logarithmic axes); no error bars. On-policy "
        f"every ratio is 1. Table: {data.table('updates.parquet')}.",
        data.table("updates.parquet"),
        "Diagnostics",
    )
