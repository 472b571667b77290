"""Figures of the caps' biases: against the group size (claim 1) and against the slack (claim 2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from driftlaw.figures.style import FAINT, INK, finish, legend, new_figure, note
from driftlaw.theory.experiments_epsilon import CLAIMED_EPS, ROUNDING
from driftlaw.theory.figures_parts import (
    Drawn,
    Tables,
    appearance,
    curve,
    guide,
    handles,
    log_axes,
    number,
    present,
    ticks_at,
)

CAPS = ("tic_mask", "tic_truncate", "gmc_waterfill", "gmc")
# Half a marker below the smallest bias that is drawn: where biases of exactly 0 are put.
FLOOR = 0.35


def bias_by_group_size(tables: Tables) -> Drawn:
    """The cap's relative bias over G, a row per eps and a column per drift."""
    table = tables["group_size"]
    drifts, slacks = sorted(table["updates"].unique()), sorted(table["cap"].unique())
    figure = new_figure(1.3 + 2.5 * len(slacks))
    grid = figure.subplots(len(slacks), len(drifts), squeeze=False, sharex=True, sharey=True)
    names = present(CAPS, table)
    positive = table.loc[table["cap_bias_relative"] > 0, "cap_bias_relative"]
    floor = float(positive.min()) * FLOOR
    for row, eps in zip(grid, slacks, strict=True):
        row[0].set_ylabel(f"ε = {eps:g}\ncap bias (share of target)")
        for axes, updates in zip(row, drifts, strict=True):
            log_axes(axes)
            cells = table[(table["cap"] == eps) & (table["updates"] == updates)]
            for name in names:
                _over_groups(axes, cells[cells["objective"] == name], name, floor)
            _crossing(axes, cells, eps)
            _slope_of_one(axes, cells, names)
    for axes, updates in zip(grid[0], drifts, strict=True):
        first = table[table["updates"] == updates].iloc[0]
        axes.set_title(f"KL = {number(first['kl'])} nats, sd(r) = {number(first['ratio_sd'])}")
    for axes in grid[-1]:
        axes.set_xlabel("group size G")
        ticks_at(axes.xaxis, table["group_size"])
    grid[0][0].set_ylim(floor / 1.6, 3)
    finish(figure)
    crossing = Line2D([], [], color=INK, ls=":", lw=1.4, label="ε = sd(r)/√G")
    hollow = Line2D(
        [], [], color=INK, ls="none", marker="o", mfc="white", label="not resolved from 0"
    )
    slope = Line2D([], [], color=FAINT, ls="--", lw=1.2, label="slope −1")
    legend(figure, [*handles(names), slope, crossing, hollow])
    note(figure, ["Hollow markers on the lowest line: no sampled group reached the cap, bias 0."])
    return figure, {
        "title": "Bias of a cap as the group grows",
        "caption": "Norm of the cap's bias E g − (c), as a share of |(c)|, against the group size G; "
        "columns: drift, rows: slack ε. Exact where groups can be enumerated, else sampled; bars "
        "are one jackknife standard error. Hollow: the squared bias is within 3 standard errors of 0, "
        "and on the lowest line it is 0 because no sampled group reached the cap. Dotted: the G "
        "at which ε = sd(r)/√G; beyond it a cap on the group's mass binds rarely and its bias "
        "falls faster than 1/G. Dashed: slope −1, that of the bound Var r / (4 G ε). "
        "Table: group_size/group_size.csv; fitted slopes: group_size/slopes.csv.",
    }


def _over_groups(axes: Axes, cells: pd.DataFrame, name: str, floor: float) -> None:
    """One objective's line; zeros, which a log axis lacks, stand on the floor and end the line."""
    bias = cells["cap_bias_relative"]
    there, zero = cells[bias > 0], cells[bias == 0]
    curve(
        axes,
        there["group_size"],
        there["cap_bias_relative"],
        name,
        there["cap_bias_relative_se"],
        ~there["resolved"].astype(bool),
    )
    if len(zero):
        style = appearance(name).line | {"linestyle": "none", "markerfacecolor": "white"}
        at = np.full(len(zero), floor)
        axes.plot(zero["group_size"], at, gid=f"{name}:zero", **style)


def _crossing(axes: Axes, cells: pd.DataFrame, eps: float) -> None:
    group = (cells["ratio_sd"].iloc[0] / eps) ** 2
    if 1 < group <= 2 * cells["group_size"].max():
        axes.axvline(group, color=INK, ls=":", lw=1.4, zorder=1, gid="crossing")


def _slope_of_one(axes: Axes, cells: pd.DataFrame, names: list[str]) -> None:
    pooled = cells[(cells["objective"] == names[-1]) & cells["resolved"].astype(bool)]
    if len(pooled):
        first = pooled.sort_values("group_size").iloc[0]
        last = float(cells["group_size"].max())
        start = (float(first["group_size"]), 1.6 * float(first["cap_bias_relative"]))
        guide(axes, start, -1.0, last, label=False)


def bias_by_eps(tables: Tables) -> Drawn:
    """Mass loss or bias over eps: extremal laws, log-normal ratios, policies."""
    figure = new_figure(4.5)
    panels = figure.subplots(1, 3)
    for axes in panels:
        log_axes(axes)
        axes.set_xlabel("slack ε")
    variance, group_size = _extremal(panels[0], tables["extremal"])
    panels[0].set_title(f"two-point laws, Var r = {variance:.0e}".replace("e-0", "e−"))
    panels[0].set_ylabel("mass loss")
    shown = _lognormal(panels[1], tables["lognormal"])
    panels[1].set_title(f"log-normal ratios, s = {shown[0]:g} and {shown[1]:g}")
    panels[1].set_ylabel("mass loss")
    kls = _policies(panels[2], tables["policies"])
    panels[2].set_title(f"policies, KL = {number(kls[0])} and {number(kls[1])} nats")
    panels[2].set_ylabel("cap bias (share of target)")
    finish(figure)
    names = present(CAPS, tables["policies"])
    bound = Line2D([], [], color=FAINT, ls=":", lw=2.2, label="bound (left)")
    legend(figure, [*handles(names), bound])
    sizes = tables["lognormal"]["group_size"].iloc[0], tables["policies"]["group_size"].iloc[0]
    return figure, {
        "title": "Bias of a cap as its slack grows",
        "caption": f"Left: the largest mass loss over two-point laws of variance {variance:g}, G = "
        f"{group_size}, with its bound (dotted) and the claimed exponents in ε (dashed): −2 for a mask, "
        f"−1 for truncation and for gmc. They hold while Var r is far below ε², and saturate at the left. "
        f"Middle: mass loss of log-normal ratios, log r ~ N(−s²/2, s²), G = {sizes[0]}, thick: larger s; "
        f"gmc is sampled, with bars of one standard error, the others are exact. Right: exact cap bias "
        f"of policies as a share of |(c)|, G = {sizes[1]}, thick: larger drift; a line ends where no ratio "
        f"exceeds the cap. Neither has a power law. Tables: epsilon/extremal.csv, "
        f"epsilon/lognormal.csv, epsilon/policies.csv; fitted slopes: epsilon/exponents.csv.",
    }


def _extremal(axes: Axes, table: pd.DataFrame) -> tuple[float, int]:
    """Worst laws of the smallest variance at which both regimes show; returns it, and G."""
    reach = table.groupby("variance")["variance_over_eps2"].max()
    both = reach[reach >= 0.1]
    variance = float(both.index.min() if len(both) else reach.index.max())
    group_size = int(min(table["group_size"].unique(), key=lambda g: abs(g - 8)))
    here = table[(table["variance"] == variance) & (table["group_size"] == group_size)]
    for name in present(CAPS, here):
        cells = here[here["objective"] == name]
        axes.plot(cells["eps"], cells["bound"], color=FAINT, ls=":", lw=2.2, gid=f"{name}:bound")
        curve(axes, cells["eps"], cells["mass_loss"], name)
        anchor = cells.sort_values("eps").iloc[-(len(cells) // 2) - 1]
        start = (float(anchor["eps"]), 1.8 * float(anchor["mass_loss"]))
        last = float(cells["eps"].max())
        guide(axes, start, CLAIMED_EPS[name], last)
    axes.set_xlim(float(here["eps"].min()) / 1.4, 9 * float(here["eps"].max()))
    return variance, group_size


def _lognormal(axes: Axes, table: pd.DataFrame) -> tuple[float, float]:
    """The two largest s; losses below a millionth are left out. Returns the two."""
    strong = sorted(table["log_sd"].unique())[-2:]
    for s in strong:
        thick = s == strong[-1]
        for name in present(CAPS, table):
            cells = table[(table["objective"] == name) & (table["log_sd"] == s)]
            cells = cells[cells["mass_loss"] > 1e-6]
            _thick_or_thin(axes, cells, "mass_loss", name, thick, f":{s:g}")
    return float(strong[0]), float(strong[-1])


def _policies(axes: Axes, table: pd.DataFrame) -> tuple[float, float]:
    """The two largest drifts; returns their KL."""
    strong = sorted(table["updates"].unique())[-2:]
    for updates in strong:
        here = table[(table["updates"] == updates) & (table["cap_bias_relative"] > ROUNDING)]
        for name in present(CAPS, table):
            cells = here[here["objective"] == name]
            thick = updates == strong[-1]
            _thick_or_thin(axes, cells, "cap_bias_relative", name, thick, f":{updates:g}")
    kl = table.groupby("updates")["kl"].first()
    return float(kl[strong[0]]), float(kl[strong[-1]])


def _thick_or_thin(
    axes: Axes, cells: pd.DataFrame, column: str, name: str, thick: bool, suffix: str
) -> None:
    size: dict[str, Any] = {} if thick else {"lw": 1.0, "markersize": 3.0}
    error = cells[f"{column}_se"]
    curve(axes, cells["eps"], cells[column], name, error, suffix=suffix, **size)
