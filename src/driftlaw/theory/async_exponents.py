"""Exponents of a delay's term in tau, G, eps and N, by one log-log regression a method.

    log term = a + sum_v e_v log v      over the method's resolved cells, equal weights [choice]

One regression over all variables, so that a cell left out in one corner does not pose as an exponent of
another variable. Cells that are not resolved are left out and counted: they are the small terms, so
their absence flattens the fit. Scope `lines` has no such selection: for a variable v it takes those
lines of cells (all other variables fixed) on which every value of v is resolved, each line with a
constant of its own. Intervals are those of the bootstrap's draws: they say how well the seeds determine
the fit, not how well a power law describes the cells; for that there is `scatter`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from driftlaw.theory.mean_field import Floats
from driftlaw.theory.slopes import LEVEL

Row = dict[str, Any]
VARIABLES = ("tau", "G", "eps", "N")

_POOLED = {"tau": 0.8, "G": -0.4, "eps": -0.4, "N": -0.8}
CLAIMED: Mapping[str, Mapping[str, float]] = {
    "gmc": _POOLED,
    "gmc_waterfill": _POOLED,
    "tic_truncate": _POOLED | {"G": 0.0},
    "tic_mask": _POOLED | {"G": 0.0, "eps": -0.8},
}


def exponents(cells: pd.DataFrame, draws: Floats, term: str = "delay") -> pd.DataFrame:
    """A row per method and variable; NaN where it takes fewer than two values among the cells used.

    cells: rows with method, tau, G, eps, N, at_edge, and <term>_term, <term>_resolved; draws: cells x B
    bootstrap draws of the term. Rows whose term is NaN (tau = 0; `cap` of `uncapped`) are skipped. A draw
    at or below 0 has no logarithm: its cell is left out of that resample.

    scope       `all` · `inside`: without cells whose step size stayed at its grid's edge · `lines`
    estimate, low, high   exponent and 90 % interval; claimed: NaN where nothing is claimed
    cells       cells used; unresolved, edge: cells of the method left out, or used with a step at the edge
    scatter     root mean square residual of log term, nats: how far from a power law
    """
    rows: list[Row] = []
    known = cells[f"{term}_term"].notna().to_numpy()
    for method in dict.fromkeys(cells.loc[known, "method"]):
        mine = known & (cells["method"] == method).to_numpy()
        resolved = mine & cells[f"{term}_resolved"].to_numpy(dtype=bool)
        edge = cells["at_edge"].to_numpy(dtype=bool)
        for scope, used in (("all", resolved), ("inside", resolved & ~edge)):
            some = cells[used]
            shared: Row = {
                "term": term,
                "method": method,
                "scope": scope,
                "cells": int(used.sum()),
                "unresolved": int((mine & ~resolved).sum()),
                "edge": int((used & edge).sum()),
            }
            rows += [shared | row for row in _fit(method, some, draws[used], f"{term}_term")]
        for variable in VARIABLES:
            used = resolved & _on_whole_lines(cells, mine, resolved, variable)
            line = _line_fit(cells[used], draws[used], f"{term}_term", variable)
            counts: Row = {
                "term": term,
                "method": method,
                "scope": "lines",
                "cells": int(used.sum()),
                "unresolved": int((mine & ~resolved).sum()),
                "edge": int((used & edge).sum()),
                "claimed": CLAIMED.get(method, {}).get(variable, np.nan),
            }
            rows.append(counts | {"variable": variable} | line)
    return pd.DataFrame(rows)


def _fit(method: str, some: pd.DataFrame, draws: Floats, column: str) -> list[Row]:
    claimed = CLAIMED.get(method, {})
    varied = [v for v in VARIABLES if some[v].notna().all() and len(set(some[v])) > 1]
    design = np.column_stack([np.ones(len(some)), *(np.log(some[v]) for v in varied)])
    rows: list[Row] = [
        {"variable": v, "estimate": np.nan, "low": np.nan, "high": np.nan, "scatter": np.nan}
        | {"claimed": claimed.get(v, np.nan)}
        for v in VARIABLES
    ]
    if len(some) <= design.shape[1] or np.linalg.matrix_rank(design) < design.shape[1]:
        return rows
    y = np.log(some[column].to_numpy(dtype=float))
    coefficient = np.linalg.lstsq(design, y, rcond=None)[0]
    scatter = float(np.sqrt(((y - design @ coefficient) ** 2).mean()))
    resampled = []
    for draw in draws.T:
        use = draw > 0
        if use.sum() > design.shape[1] and np.linalg.matrix_rank(design[use]) == design.shape[1]:
            resampled.append(np.linalg.lstsq(design[use], np.log(draw[use]), rcond=None)[0])
    quantiles = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = (
        np.quantile(resampled, quantiles, axis=0)
        if resampled
        else np.full((2, design.shape[1]), np.nan)
    )
    for row in rows:
        if row["variable"] in varied:
            k = 1 + varied.index(row["variable"])
            row |= {"estimate": coefficient[k], "low": low[k], "high": high[k], "scatter": scatter}
    return rows


def _on_whole_lines(
    cells: pd.DataFrame, mine: np.ndarray, resolved: np.ndarray, variable: str
) -> np.ndarray:
    """Which rows lie on a line along `variable` whose cells, at least two, are all resolved."""
    others = [v for v in VARIABLES if v != variable]
    table = cells.loc[mine, others].assign(resolved=resolved[mine])
    whole = table.groupby(others, dropna=False)["resolved"].transform(
        lambda line: line.all() and len(line) > 1
    )
    out = np.zeros(len(cells), dtype=bool)
    out[np.flatnonzero(mine)] = whole.to_numpy(dtype=bool)
    return out


def _line_fit(some: pd.DataFrame, draws: Floats, column: str, variable: str) -> Row:
    """One slope for all lines, each with its own constant; a line with a draw at or below 0 sits out."""
    nothing: Row = dict.fromkeys(("estimate", "low", "high", "scatter"), np.nan)
    if some.empty:
        return nothing
    others = [v for v in VARIABLES if v != variable]
    line = some.groupby(others, dropna=False).ngroup().to_numpy()
    member = line == np.arange(line.max() + 1)[:, None]
    mean = member / member.sum(axis=1, keepdims=True)
    x = np.log(some[variable].to_numpy(dtype=float))
    x = x - (mean @ x)[line]
    # The terms themselves first, then the draws.
    values = np.column_stack([some[column].to_numpy(dtype=float), draws])
    positive = ~(member.astype(float) @ (values <= 0) > 0)[line]
    y = np.log(np.where(positive, values, 1.0))
    y = (y - (mean @ y)[line]) * positive
    spread = (x**2) @ positive
    if spread[0] == 0:
        return nothing
    use = spread > 0
    slope = (x @ y)[use] / spread[use]
    low, high = np.nan, np.nan
    if len(slope) > 1:
        low, high = np.quantile(slope[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    residual = y[:, 0] - slope[0] * x
    scatter = float(np.sqrt((residual**2).mean()))
    return {"estimate": slope[0], "low": low, "high": high, "scatter": scatter}
