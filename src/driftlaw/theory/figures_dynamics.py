"""Figures of the second moment far from the behaviour policy and of the bias inside a cycle."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from driftlaw.figures.style import INK, finish, legend, new_figure
from driftlaw.theory.experiments_cycle import ROUNDING
from driftlaw.theory.figures_parts import (
    KL,
    Drawn,
    Tables,
    corner,
    curve,
    guide,
    handles,
    log_axes,
    middle,
)

PATHS = {
    "ascent": "ascent: π climbs J",
    "apart": "apart: rewarded responses rare under μ",
    "against": "against: ratios grow where A < 0",
}


def second_moment(tables: Tables) -> Drawn:
    """E|g|^2 over KL on three paths, with the bound of the capped ones."""
    table = tables["second_moment"]
    paths = [path for path in PATHS if path in set(table["path"])]
    names = list(dict.fromkeys(table["objective"]))
    figure = new_figure(4.9)
    grid = figure.subplots(1, len(paths), squeeze=False, sharey=True)[0]
    for axes, path in zip(grid, paths, strict=True):
        here = table[table["path"] == path]
        log_axes(axes)
        for name in names:
            cells = here[(here["objective"] == name) & (here["kl"] > 0)]
            curve(axes, cells["kl"], cells["second_moment"], name)
        bound = here[here["bound"].notna() & (here["kl"] > 0)].drop_duplicates("kl")
        bound = bound.sort_values("kl")
        axes.plot(bound["kl"], bound["bound"], color=INK, lw=2.6, ls=":", gid="bound")
        axes.set_title(PATHS[path])
        axes.set_xlabel(KL)
    grid[0].set_ylabel("second moment E|g|²")
    finish(figure)
    row = table.iloc[0]
    eps = table["eps"].dropna().iloc[0]
    bounded = list(dict.fromkeys(table.loc[table["bound"].notna(), "objective"]))
    label = "bound of the capped" if bounded else "no bound"
    legend(figure, [*handles(names), Line2D([], [], color=INK, lw=2.6, ls=":", label=label)])
    return figure, {
        "title": "Second moment as the policies move apart",
        "caption": f"Exact second moment E|g|² of one group's estimator, G = {row['group_size']}, ε = "
        f"{eps:g}, advantages {row['advantage']}, along three paths on which the policies move apart. "
        f"Dotted: the bound (1 + ε)² (G − 1) max|∇log π|² that {', '.join(bounded) or 'none'} keep; the "
        f"others guarantee none. Exact: no error bars. The point of no drift, where all are equal, is not "
        f"on the axis. Table: second_moment/second_moment.csv; largest values: second_moment/sup.csv.",
    }


def cycle_bias(tables: Tables) -> Drawn:
    """Total bias over lag x eta, and over updates through a synchronisation."""
    table = tables["cycle"]
    advantages = list(dict.fromkeys(table["advantage"]))
    names = list(dict.fromkeys(table["objective"]))
    figure = new_figure(4.7)
    panels = figure.subplots(1, len(advantages) + 1, squeeze=False)[0]
    first = table[(table["lag"] > 0) & (table["update"] < table["interval"])]
    for axes, advantage in zip(panels, advantages, strict=False):
        _over_budget(axes, first[first["advantage"] == advantage], names)
        axes.set_title(f"advantages: {advantage}")
        axes.set_xlabel("lag × η")
    panels[0].set_ylabel("total bias (share of |(b)|)")
    shown = [a for a in panels[: len(advantages)] if a.lines]
    low, high = (f(a.get_ylim()[i] for a in shown) for i, f in ((0, min), (1, max)))
    for axes in panels[: len(advantages)]:
        axes.set_ylim(low, high)
    interval, lr = int(table["interval"].max()), middle(table["lr"])
    here = table[
        (table["advantage"] == advantages[0])
        & (table["interval"] == interval)
        & (table["lr"] == lr)
    ]
    _over_updates(panels[-1], here, names, interval)
    panels[-1].set_title(f"S = {interval}, η = {lr:g}, {advantages[0]}")
    finish(figure)
    legend(figure, handles(names))
    intervals = " and ".join(f"{s:g}" for s in sorted(table["interval"].unique()))
    return figure, {
        "title": "Bias inside a synchronisation cycle",
        "caption": "Exact total bias |E g − (b)| as a share of |(b)| while μ is frozen for S updates and "
        "θ moves by the objective's own mean estimate. Panels over lag × η: every lag > 0 of the first "
        f"cycle, S = {intervals}, all η; dashed: slope 1; where objectives coincide, small markers lie on "
        "large ones; biases of 0 to rounding are not on the axis, and are counted in the panel. Last "
        "panel: bias over updates through synchronisations (dotted), where it falls to 0, off the axis. "
        "Exact: no error bars. Table: cycle/cycle.csv; fitted slopes: cycle/exponents.csv.",
    }


def _over_budget(axes: Axes, cells: pd.DataFrame, names: list[str]) -> None:
    """Points, the first objective's largest: coinciding ones stay visible as rings."""
    log_axes(axes)
    zeros, top = [], None
    for place, name in enumerate(names):
        own = cells[cells["objective"] == name]
        some = own[own["total_bias_relative"] > ROUNDING]
        size = 7.5 - 4.5 * place / max(len(names) - 1, 1)
        style: dict[str, Any] = {"linestyle": "none", "markersize": size}
        style |= {"markeredgecolor": "white", "markeredgewidth": 0.3}
        curve(axes, some["budget"], some["total_bias_relative"], name, **style)
        if len(some) < len(own):
            zeros.append(f"{name} in {len(own) - len(some)} of {len(own)}")
        if len(some) and top is None:
            top = some.sort_values("budget").iloc[0]
    if top is not None:
        start = (float(top["budget"]), 2.5 * float(top["total_bias_relative"]))
        last = float(cells["budget"].max())
        guide(axes, start, 1.0, last / 8)
    if zeros:
        corner(axes, "\n".join(["0 to rounding:", *zeros]))


def _over_updates(axes: Axes, cells: pd.DataFrame, names: list[str], interval: int) -> None:
    for place, name in enumerate(names):
        own = cells[cells["objective"] == name]
        every = (place, len(names))
        curve(axes, own["update"], own["total_bias_relative"], name, markevery=every)
    for start in range(0, int(cells["update"].max()) + 1, interval):
        axes.axvline(start, color=INK, ls=":", lw=1.2, zorder=1, gid="synchronisation")
    some = cells.loc[cells["total_bias_relative"] > ROUNDING, "total_bias_relative"]
    axes.set_yscale("log")
    axes.yaxis.set_minor_locator(NullLocator())
    if len(some):
        axes.set_ylim(float(some.min()) / 2, 2 * float(some.max()))
    axes.set_xlabel("update")
