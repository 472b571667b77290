"""Exponents of a delay's term in tau, G, eps and N, by one log-log regression a method.

    log term = a + sum_v e_v log v      over the method's resolved cells, equal weights [choice]

One regression over all variables, so that a cell left out in one corner does not pose as an exponent of
another variable. Cells that are not resolved are left out and counted: they are the small terms, so their
absence flattens the fit. Intervals are those of the bootstrap's draws: they say how well the seeds
determine the fit, not how well a power law describes the cells; for that there is `scatter`.
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

    scope       `all`, and `inside`: without cells whose step size stayed at its grid's edge
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
    return pd.DataFrame(rows)


def _fit(method: str, some: pd.DataFrame, draws: Floats, column: str) -> list[Row]:
    claimed = CLAIMED.get(method, {})
    varied = [v for v in VARIABLES if some[v].notna().all() and some[v].nunique() > 1]
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
