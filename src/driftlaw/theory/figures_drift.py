"""Figures of every objective against drift: errors and winners, directions, weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullLocator

from driftlaw.figures.style import INK, finish, legend, new_figure, note
from driftlaw.theory.figures_parts import (
    KL,
    Drawn,
    Tables,
    appearance,
    curve,
    handles,
    middle,
    plain_log,
    present,
    problem_name,
)

PROBLEM = ["policy", "rewards", "vocabulary", "length"]
CELL = [*PROBLEM, "updates", "cap", "group_size"]
MAIN = (
    "uncapped",
    "grpo",
    "grpo_noclip",
    "gspo",
    "tic_mask",
    "tic_truncate",
    "gmc_waterfill",
    "gmc",
)
# Edges of the drifts of `winners`, KL per response in nats.
KL_EDGES = (0.01, 0.1, 1.0)
ERRORS = (("mse_relative", "mse / |(b)|²", "winner"), ("scaled_mse", "scaled mse", "scaled_winner"))


class Panel(NamedTuple):
    """One problem, group size and eps, and the rows of all drifts and objectives."""

    title: str
    cells: pd.DataFrame


def mse_by_drift(tables: Tables) -> Drawn:
    """Errors about the on-policy mean over KL; under each panel, who wins where."""
    table = tables["drift"]
    panels, eps = _panels(table)
    figure = new_figure(7.4)
    grid = figure.subplots(
        4, len(panels), squeeze=False, sharex="col", gridspec_kw={"height_ratios": [6, 1, 6, 1]}
    )
    names = present(MAIN, table)
    for column, panel in enumerate(panels):
        grid[0][column].set_title(panel.title)
        for row, (measure, label, winner) in enumerate(ERRORS):
            axes, band = grid[2 * row][column], grid[2 * row + 1][column]
            _lines(axes, panel.cells, measure, names, log=measure == "mse_relative")
            _band(band, panel.cells, winner)
            if column == 0:
                axes.set_ylabel(label)
                band.set_ylabel("winner", rotation=0, ha="right", va="center")
        grid[-1][column].set_xlabel(KL)
    finish(figure)
    legend(figure, handles(names))
    return figure, {
        "title": "Where does each estimator win?",
        "caption": "Errors of one group's estimator about the on-policy mean (b) against drift, ε = "
        f"{eps:g}. Above: |E g − (b)|² + tr Cov g over |(b)|². Below: what is left when the learning "
        f"rate absorbs the scale, min_a E|a g − (b)|² / |(b)|² (1: nothing learnt). Each objective has its "
        f"own advantages. Strips: the objective with the smallest error at each drift, among all of the "
        f"table, also those not drawn; where no cap binds, equal estimators go to the first of the "
        f"table. Exact where groups can be enumerated, else sampled; bars are one jackknife standard "
        f"error. Table: drift/drift.csv.",
    }


def cosine_by_drift(tables: Tables) -> Drawn:
    """Direction and mass loss over KL."""
    rows = (("cosine", "cosine with ∇J", False), ("mass_loss", "mass loss", False))
    figure, eps = _rows(tables["drift"], rows)
    for axes in figure.axes:
        if axes.get_gid() == "cosine":
            axes.axhline(0.0, color=INK, lw=0.8, zorder=1)
    return figure, {
        "title": "Does the mean estimate still point uphill?",
        "caption": f"Above: cosine of E g with the exact gradient ∇J; below 0 the mean update lowers J. "
        f"Below: mass loss, the mean of |r − w| over responses, by how much weights w depart from "
        f"trajectory ratios r (for token-level objectives w is a mean over tokens). ε = {eps:g}. "
        f"Bars are one jackknife standard error where groups are sampled. Table: drift/drift.csv.",
    }


def weights(tables: Tables) -> Drawn:
    """Concentration of the weights over KL."""
    rows = (("largest_share", "largest weight's share", True), ("ess", "ESS / G", False))
    figure, eps = _rows(tables["drift"], rows)
    return figure, {
        "title": "How concentrated are the weights?",
        "caption": f"Above: share of a group's weight that its largest weight has, mean over groups (1/G: "
        f"equal weights). Below: effective sample size (Σw)²/Σw² over G. ε = {eps:g}. Bars are one "
        f"jackknife standard error where groups are sampled. Table: drift/drift.csv.",
    }


def winners(tables: Tables) -> Drawn:
    """Which objective has the smallest error, by drift and group size, over all problems and eps."""
    table = tables["drift"].drop_duplicates(CELL)
    sizes = sorted(table["group_size"].unique())
    bins = np.digitize(table["kl"], KL_EDGES)
    figure = new_figure(4.7)
    for axes, (_, label, winner) in zip(figure.subplots(1, 2, sharey=True), ERRORS, strict=True):
        for row in range(len(KL_EDGES) + 1):
            for column, size in enumerate(sizes):
                here = table[(bins == row) & (table["group_size"] == size)]
                _tally(axes, column, row, here[winner])
        axes.set_title(f"smallest {label}")
        axes.set_xlim(-0.5, len(sizes) - 0.5)
        axes.set_ylim(-0.5, len(KL_EDGES) + 0.5)
        axes.set_xticks(range(len(sizes)), [f"{size:g}" for size in sizes])
        axes.set_yticks(range(len(KL_EDGES) + 1), _bin_names())
        axes.set_xlabel("group size G")
        axes.grid(visible=False)
        axes.tick_params(length=0)
    figure.axes[0].set_ylabel(KL)
    finish(figure)
    count = table.drop_duplicates(PROBLEM).shape[0]
    slacks = ", ".join(f"{eps:g}" for eps in sorted(table["cap"].unique()))
    note(figure, ["Equal estimators, as all caps where none binds, go to the first of the table."])
    return figure, {
        "title": "Who wins, by drift and group size",
        "caption": f"The three objectives that have the smallest error in most cells, with the number of "
        f"cells, over {count} problems and ε of {slacks}; the colour is the first one's. Left by mse "
        f"relative to |(b)|², right by scaled mse, which the learning rate cannot change. An estimate "
        f"is one group a prompt: where noise rules, small estimates win by mse. Equal estimators go to "
        f"the first of the table, uncapped before all: it wins by scaled mse also where no cap "
        f"binds. m2po takes part only where it is exact. Table: drift/drift.csv.",
    }


def _panels(table: pd.DataFrame) -> tuple[list[Panel], float]:
    """The first problem at a small and at the largest G, a network's at the largest; and the middle eps."""
    eps = middle(table["cap"])
    table = table[table["cap"] == eps]
    sizes = sorted(table["group_size"].unique())
    small, large = sizes[min(1, len(sizes) - 1)], sizes[-1]
    problems = table.drop_duplicates(PROBLEM)
    networks = problems[problems["policy"] == "network"]
    noisy = networks[networks["rewards"] == "noisy"]
    chosen = [(problems.iloc[0], small)]
    if large != small:
        chosen.append((problems.iloc[0], large))
    if len(networks):
        chosen.append(((noisy if len(noisy) else networks).iloc[0], large))
    panels = []
    for problem, size in chosen:
        same = (table[PROBLEM] == problem[PROBLEM]).all(axis=1) & (table["group_size"] == size)
        panels.append(Panel(f"{problem_name(problem)}\nG = {size:g}", table[same]))
    return panels, eps


def _rows(table: pd.DataFrame, rows: Sequence[tuple[str, str, bool]]) -> tuple:
    panels, eps = _panels(table)
    names = present(MAIN, table)
    figure = new_figure(6.2)
    grid = figure.subplots(len(rows), len(panels), squeeze=False, sharex="col")
    for column, panel in enumerate(panels):
        grid[0][column].set_title(panel.title)
        for row, (measure, label, log) in enumerate(rows):
            _lines(grid[row][column], panel.cells, measure, names, log)
            if column == 0:
                grid[row][column].set_ylabel(label)
        grid[-1][column].set_xlabel(KL)
    finish(figure)
    legend(figure, handles(names))
    return figure, eps


def _lines(axes: Axes, cells: pd.DataFrame, measure: str, names: Sequence[str], log: bool) -> None:
    axes.set_gid(measure)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    if log:
        axes.set_yscale("log")
        plain_log(axes.yaxis)
    for name in names:
        own = cells[cells["objective"] == name]
        curve(axes, own["kl"], own[measure], name, own[f"{measure}_se"])


def _band(axes: Axes, cells: pd.DataFrame, winner: str) -> None:
    """A strip coloured and named by the winner; drifts meet half way, on the log axis, between points."""
    each = cells.drop_duplicates("updates").sort_values("kl")
    kl = each["kl"].to_numpy()
    inner = np.sqrt(kl[1:] * kl[:-1])
    edge = np.sqrt(kl[1] / kl[0]) if len(kl) > 1 else 2.0
    edges = np.array([kl[0] / edge, *inner, kl[-1] * edge])
    for left, right, name in zip(edges[:-1], edges[1:], each[winner], strict=True):
        colour = appearance(name).color
        axes.add_patch(
            Rectangle(
                (left, 0), right - left, 1, facecolor=colour, alpha=0.3, edgecolor=INK, lw=0.6
            )
        )
        text = name.replace("_", "_\n", 1)
        axes.text((left * right) ** 0.5, 0.48, text, ha="center", va="center", fontsize=8)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.grid(visible=False)


def _tally(axes: Axes, column: int, row: int, winner: pd.Series) -> None:
    """A cell: its three most frequent winners with their counts."""
    if winner.empty:
        axes.text(column, row, "no cell", ha="center", va="center", fontsize=8, color=INK)
        return
    # Equal counts in the order of names: the same text from equal tables.
    count = winner.value_counts().rename_axis("name").reset_index(name="cells")
    count = count.sort_values(["cells", "name"], ascending=[False, True]).head(3)
    colour = appearance(str(count["name"].iloc[0])).color
    axes.add_patch(
        Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, alpha=0.3, edgecolor="white")
    )
    lines = [f"{name} {cells}" for name, cells in zip(count["name"], count["cells"], strict=True)]
    first, rest = lines[0], lines[1:]
    axes.text(column, row + 0.2, first, ha="center", va="center", fontsize=8, weight="bold")
    axes.text(
        column, row - 0.16, "\n".join([*rest, f"of {len(winner)}"]), ha="center", va="center",
        fontsize=7.5, color=INK,
    )  # fmt: skip


def _bin_names() -> list[str]:
    edges = [f"{edge:g}" for edge in KL_EDGES]
    inner = [f"{low} to {high}" for low, high in itertools.pairwise(edges)]
    return [f"below {edges[0]}", *inner, f"above {edges[-1]}"]
