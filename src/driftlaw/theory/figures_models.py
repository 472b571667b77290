"""Figures of asynchronous SGD (claim 4) and of the mean-field model of collapse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from driftlaw.figures.style import FAINT, INK, finish, legend, new_figure
from driftlaw.theory.figures_parts import (
    Drawn,
    Tables,
    appearance,
    corner,
    curve,
    guide,
    handles,
    log_axes,
    middle,
    plain_log,
    ticks_at,
)

# Column, axis label, exponent of the delay term that is claimed for gmc.
VARIABLES = (
    ("tau", "delay τ, updates", 0.8),
    ("G", "group size G", -0.4),
    ("eps", "slack ε", -0.4),
    ("N", "horizon N, updates", -0.8),
)

# Column's name, axis label.
TERMS = (("delay", "delay term of mean |∇J|²"), ("cap", "of it, the cap's part"))
# Stands for 0 and what is below it until the axis is known.
TINY = 1e-300


def async_sgd(tables: Tables) -> Drawn:
    """The tuned terms over tau, G, eps and N, the others at their middle values; a row per term."""
    cells = tables["cells"]
    cells = cells[cells["tau"] > 0]
    variables = [v for v in VARIABLES if len(cells[v[0]].dropna().unique()) > 1]
    held = {v: middle(cells[v].dropna()) for v, _, _ in VARIABLES if cells[v].notna().any()}
    names = list(dict.fromkeys(cells["method"]))
    figure = new_figure(7.2)
    grid = figure.subplots(len(TERMS), len(variables), squeeze=False, sharex="col", sharey="row")
    for row, (term, label) in zip(grid, TERMS, strict=True):
        row[0].set_ylabel(label)
        here = cells[cells[f"{term}_term"].notna()]
        for axes, (variable, _, exponent) in zip(row, variables, strict=True):
            log_axes(axes)
            axes.margins(x=0.1)
            # A method without a slack has none to hold at its middle, and no line over slacks.
            chosen = here[here[variable].notna()]
            for other in held.keys() - {variable}:
                chosen = chosen[chosen[other].isna() | (chosen[other] == held[other])]
            _terms(axes, chosen, variable, term, names, exponent)
            ticks_at(axes.xaxis, chosen[variable])
    for axes, (_, _, exponent) in zip(grid[0], variables, strict=True):
        axes.set_title(f"dashed: slope {exponent:g}".replace("-", "−"))
    for axes, (_, label, _) in zip(grid[-1], variables, strict=True):
        axes.set_xlabel(label)
    for row in grid:
        _floor(row)
    finish(figure)
    hollow = Line2D(
        [], [], color=INK, ls="none", marker="o", mfc="white", label="not resolved from 0"
    )
    legend(figure, [*handles(names), hollow])
    fixed = ", ".join(f"{v} = {value:g}" for v, value in held.items())
    return figure, {
        "title": "Asynchronous SGD: what a delay costs",
        "caption": "Above: mean squared norm of the exact gradient over a run at delay τ minus that without "
        "delay, each at its own best learning rate. Below: the same minus that of uncapped weights at the "
        "same delay: the cap's part. One variable a panel, the others at their middle values "
        f"({fixed}). Bars: 90% bootstrap intervals over whole seeds, tuned again in every resample. "
        "Hollow: the interval reaches 0; terms of 0 or less stand on the lowest line of their row. Dashed: "
        "the exponents claimed for gmc's delay term. Table: async_sgd/cells.csv; fitted exponents: "
        "async_sgd/exponents.csv.",
    }


def _terms(
    axes: Axes, cells: pd.DataFrame, variable: str, term: str, names: list[str], exponent: float
) -> None:
    """Every method's line with its intervals, and the claimed slope above them all."""
    positive = cells.loc[cells[f"{term}_term"] > 0, f"{term}_term"]
    if positive.empty:
        corner(axes, "no term above 0")
        return
    for name in names:
        own = cells[cells["method"] == name]
        if len(own):
            x, y = own[variable], own[f"{term}_term"].where(own[f"{term}_term"] > 0)
            resolved = own[f"{term}_resolved"].astype(bool)
            curve(axes, x, y, name, hollow=~resolved)
            color = appearance(name).color
            low, high = own[f"{term}_low"].clip(lower=TINY), own[f"{term}_high"].clip(lower=TINY)
            axes.vlines(x, low, high, color=color, lw=1.2)
            zero = x[y.isna()]
            style = appearance(name).line | {"linestyle": "none", "markerfacecolor": "white"}
            if len(zero):
                # Its height is set when the row's axis is known.
                axes.plot(zero, [TINY] * len(zero), gid=f"{name}:zero", **style)
    values = sorted(cells[variable].unique())
    top = 1.6 * float(cells[f"{term}_high"].max())
    start = top * (values[0] / values[-1]) ** exponent
    guide(axes, (values[0], start), exponent, values[-1], label=False)


def _floor(row: Sequence[Axes]) -> None:
    """End the row's axis below its least positive term, and stand what is 0 or less on that end."""
    drawn = [
        y for a in row for line in a.lines for y in np.asarray(line.get_ydata(), float) if y > TINY
    ]
    if not drawn:
        return
    floor = min(drawn) / 2
    row[0].set_ylim(floor / 1.6, 1.3 * max(drawn))
    for axes in row:
        for line in axes.lines:
            if str(line.get_gid()).endswith(":zero"):
                line.set_ydata([floor] * len(np.asarray(line.get_xdata())))


def mean_field(tables: Tables) -> Drawn:
    """Boundary over S, collapse budget over the gain, and interval against delay of equal mean lag."""
    figure = new_figure(5.0)
    left, centre, right = figure.subplots(1, 3)
    _boundary(left, tables["boundary"])
    _budget(centre, tables["exit_times"])
    _equal_lag(right, tables["equal_lag"])
    for axes in (left, centre, right):
        axes.legend(frameon=False, fontsize=8.5, handlelength=1.6)
    finish(figure)
    closed = Line2D([], [], color=FAINT, ls="--", lw=1.6, label="closed form")
    legend(figure, [Line2D([], [], color=INK, marker="o", label="model"), closed])
    horizon = tables["equal_lag"]["T"].iloc[0]
    return figure, {
        "title": "The mean-field model of collapse",
        "caption": "A model, not a training run; no noise, no error bars. Left: largest stable learning rate "
        "against the interval S by horizon T; dashed: max(2ν/(κ(S − 1)), R/T). Middle: collapse time × η "
        "over R against the gain g = κη(mean lag)/ν, by S; dashed: 1/√(1 − 1/g²), saturated drift without "
        f"onset. Right: boundary of interval 2D + 1 over that of delay D, of equal mean lag D, at T = "
        f"{horizon}, by memory M; dashed: 1, where the mean lag alone decides. Tables: "
        "mean_field/boundary.csv, mean_field/exit_times.csv, mean_field/equal_lag.csv; exponents: "
        "mean_field/exponents.csv.",
    }


def _levels(values: pd.Series) -> list[tuple[float, dict[str, Any]]]:
    """Every distinct value, ascending, with its look: from light to dark, each with its own marker."""
    levels = sorted(values.unique())
    shades = sns.color_palette("flare", len(levels)).as_hex()
    return [
        (float(level), {"color": shade, "marker": "os^Dv"[place % 5], "markersize": 4.5})
        for place, (level, shade) in enumerate(zip(levels, shades, strict=True))
    ]


def _boundary(axes: Axes, table: pd.DataFrame) -> None:
    log_axes(axes)
    for horizon, style in _levels(table["T"]):
        part = table[table["T"] == horizon]
        axes.plot(part["S"], part["predicted"], color=FAINT, ls="--", lw=1.6, gid="predicted")
        axes.plot(
            part["S"], part["lr_max"], label=f"T = {horizon:g}", gid=f"T={horizon:g}", **style
        )
    axes.set_title("boundary")
    axes.set_xlabel("interval S, updates")
    axes.set_ylabel("largest stable η")
    ticks_at(axes.xaxis, table["S"])


def _budget(axes: Axes, table: pd.DataFrame) -> None:
    log_axes(axes)
    widest = table.sort_values("gain")
    axes.plot(widest["gain"], widest["predicted"], color=FAINT, ls="--", lw=1.6, gid="predicted")
    for interval, style in _levels(table["S"]):
        part = table[table["S"] == interval]
        every = max(1, len(part) // 10)
        gid = f"S={interval:g}"
        axes.plot(
            part["gain"],
            part["budget"],
            label=f"S = {interval:g}",
            gid=gid,
            markevery=every,
            **style,
        )
    axes.set_title("collapse time")
    axes.set_xlabel("gain g")
    axes.set_ylabel("collapse time × η / R")
    plain_log(axes.yaxis)


def _equal_lag(axes: Axes, table: pd.DataFrame) -> None:
    axes.set_xscale("log", base=2)
    for memory, style in _levels(table["memory"]):
        part = table[table["memory"] == memory]
        gid, y = f"M={memory:g}", part["interval_over_delay"]
        axes.plot(part["mean_lag"], y, label=f"M = {memory:g}", gid=gid, **style)
    axes.axhline(1.0, color=FAINT, ls="--", lw=1.6, zorder=1)
    axes.set_title("interval against delay")
    axes.set_xlabel("mean lag D, updates")
    axes.set_ylabel("boundary, interval over delay")
    ticks_at(axes.xaxis, table["mean_lag"])
