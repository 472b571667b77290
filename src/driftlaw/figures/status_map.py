"""How runs ended over staleness S and learning rate: a panel a method, delay and interval apart."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.offsetbox import AnnotationBbox, DrawingArea, HPacker
from matplotlib.ticker import FixedLocator, NullLocator

from driftlaw.figures.data import Caption, StudyData, count, lr_text
from driftlaw.figures.score_by_delay import series_of
from driftlaw.figures.style import FAINT, INK, STATUS_LOOKS, finish, legend, new_figure, note
from driftlaw.laws.brackets import brackets
from driftlaw.laws.collapse import STATUSES

MAX_COLUMNS = 4
ROOM_PT = (22.0, 27.0)  # least distance of neighbouring cells, sideways and upwards
PANELS_PT = 650.0  # width of all panels of a row
BRACKET: dict[str, Any] = {
    "color": FAINT,
    "lw": 5,
    "alpha": 0.35,
    "solid_capstyle": "butt",
    "zorder": 1,
}


def status_map(data: StudyData) -> tuple[Figure, Caption]:
    """A cell (S, lr) shows a symbol for each status that its seeds had, and collapsed/all below.

    Grey bars join the largest learning rate with only stable runs and the smallest with a collapsed
    one: there lies the largest stable rate of that S (`laws.brackets`).
    """
    series = series_of(data.runs)
    panels = [
        (name, method, part[part["method"] == method])
        for name, part in series.items()
        for method in data.methods
        if (part["method"] == method).any()
    ]
    s_values, lrs = sorted(set(data.runs["S"])), sorted(set(data.runs["lr"]))
    most = max(sum(p[0] == name for p in panels) for name in series)
    steps = max(_steps(sorted(set(part["S"]))) for part in series.values())
    fit = int(PANELS_PT // (ROOM_PT[0] * (steps + 0.5)))
    columns = max(1, min(MAX_COLUMNS, most, fit))
    height_in = min(6.0, max(1.7, (_steps(lrs) + 1) * ROOM_PT[1] / 72))
    rows: list[list[tuple[str, str, pd.DataFrame]]] = []
    for name in dict.fromkeys(p[0] for p in panels):
        ours = [p for p in panels if p[0] == name]
        rows += [ours[i : i + columns] for i in range(0, len(ours), columns)]
    figure = new_figure(0.8 + (0.8 + height_in) * len(rows))
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for i, (line, panels_here) in enumerate(zip(grid, rows, strict=True)):
        for axes, (name, method, runs) in zip(line, panels_here, strict=False):
            _panel(axes, runs, sorted(set(series[name]["S"])), s_values, lrs)
            axes.set_title(f"{method}\n{name}")
            if i == len(rows) - 1:
                axes.set_xlabel("S = D + I (updates)")
        for axes in line[len(panels_here) :]:
            axes.set_axis_off()
        line[0].set_ylabel("learning rate (1/update)")
        for axes in line[1:]:
            axes.tick_params(labelleft=False)
    finish(figure)
    legend(figure, _handles(data.runs))
    notes = _notes(data)
    note(figure, notes)
    return figure, _caption(data)


def _steps(values: list[float]) -> float:
    """Range of ascending values over their least distance, on a logarithmic axis; 0 for one."""
    logs = [math.log(v) for v in values]
    gaps = [b - a for a, b in itertools.pairwise(logs)]
    return (logs[-1] - logs[0]) / min(gaps) if gaps else 0.0


def _panel(
    axes: Axes, runs: pd.DataFrame, named: list[int], s_values: list[int], lrs: list[float]
) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    _ticks(axes, named, s_values, lrs)
    for row in brackets(runs):
        low, high = row["last_stable"], row["first_collapsed"]
        if low is not None and high is not None:
            axes.plot([row["S"], row["S"]], [low, high], **BRACKET, gid="bracket")
    for s, lr in sorted(set(zip(runs["S"], runs["lr"], strict=True))):
        cell = runs[(runs["S"] == s) & (runs["lr"] == lr)]
        here = [status for status in STATUSES if (cell["status"] == status).any()]
        symbols = HPacker(children=[_symbol(status, len(here)) for status in here], pad=0, sep=0)
        box = AnnotationBbox(symbols, (s, lr), frameon=False, pad=0)
        box.set_gid(f"cell:{s}:{lr:g}:{'+'.join(here)}")
        axes.add_artist(box)
        collapsed = int((cell["status"] == "collapsed").sum())
        axes.annotate(
            f"{collapsed}/{len(cell)}",
            (s, lr),
            xytext=(0, -7),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=8,
            color=INK,
            zorder=2,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )


def _symbol(status: str, neighbours: int) -> DrawingArea:
    """A status's symbol, smaller where several share a cell."""
    marker, ink, filled = STATUS_LOOKS[status]
    room, size = (12.0, 8.5) if neighbours == 1 else (9.0, 6.5)
    area = DrawingArea(room, room)
    area.add_artist(
        Line2D(
            [room / 2],
            [room / 2],
            marker=marker,
            ms=size,
            mfc=ink if filled else "white",
            mec=ink,
            mew=1.3,
            ls="",
        )
    )
    return area


def _ticks(axes: Axes, candidates: list[int], s_values: list[int], lrs: list[float]) -> None:
    """Ticks at what was run, but not too close; the same limits in every panel."""
    named: list[int] = []
    apart = 0.07 * math.log2(max(s_values) / min(s_values) + 1)
    for s in candidates:
        if not named or math.log2(s / named[-1]) > apart:
            named.append(int(s))
    axes.xaxis.set_major_locator(FixedLocator(named))
    axes.set_xticks(named, [str(s) for s in named])
    axes.set_yticks(lrs, [lr_text(lr) for lr in lrs])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    room = max(1.3, (max(s_values) / min(s_values)) ** 0.09)
    axes.set_xlim(min(s_values) / room, max(s_values) * room)
    room = max(1.2, (max(lrs) / min(lrs)) ** (0.45 / max(_steps(lrs), 1)))
    axes.set_ylim(min(lrs) / room**1.6, max(lrs) * room)


def _handles(runs: pd.DataFrame) -> list[Line2D]:
    out = []
    for status in STATUSES:
        marker, ink, filled = STATUS_LOOKS[status]
        face = ink if filled else "white"
        label = f"{status} ({count(int((runs['status'] == status).sum()), 'run')})"
        out.append(Line2D([], [], ls="", marker=marker, ms=8.5, mfc=face, mec=ink, label=label))
    return [*out, Line2D([], [], **{**BRACKET, "zorder": 3}, label="holds the largest stable rate")]


def _notes(data: StudyData) -> list[str]:
    runs = data.runs
    notes = ["Numbers under symbols: runs collapsed / all runs of the cell."]
    bounds = {"collapsed": "above", "stable": "below"}
    for status, side in bounds.items():
        if not (runs["status"] == status).any():
            notes.append(f"No run {status}: nothing bounds the largest stable rate from {side}.")
    if len(set(runs["lr"])) == 1:
        notes.append("One learning rate: the study does not show where the boundary lies.")
    failed = int((runs["status"] == "failed").sum())
    if failed:
        notes.append(f"{count(failed, 'run')} failed: infrastructure, not collapse.")
    return notes


def _caption(data: StudyData) -> Caption:
    runs = data.runs
    counts = ", ".join(f"{int((runs['status'] == s).sum())} {s}" for s in STATUSES)
    horizons = sorted(runs["study_horizon"].unique())
    horizon = " or ".join(str(h) for h in horizons)
    return Caption(
        "Status over staleness and learning rate",
        f"How {count(len(runs), 'run')} ended ({counts}) over S = D + I, the largest lag plus 1, "
        f"and learning rate, both axes logarithmic; delay and interval apart (runs without "
        f"staleness stand in both). A symbol for each status among the seeds of a cell; below it, "
        f"collapsed / all. Horizon {horizon} updates. Grey: from the largest rate at and below "
        f"which no run collapsed to the smallest with a collapsed one. No error bars: "
        f"counts. Table: {data.table('runs.csv')}.",
        data.table("runs.csv"),
        "Results",
    )
