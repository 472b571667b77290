"""Claim 1: does the bias of a cap vanish as the group grows?

The policies stay where they are and G doubles. A cap on single trajectories loses the mass
E[r 1{r > 1 + eps}] or E(r - 1 - eps)_+ whatever G; a cap on the group's mass loses
E(mean r - 1 - eps)_+ <= Var r / (4 G eps), and far less once eps exceeds the deviation of the
group's mean, sd(r) / sqrt(G) (docs/method.md section 3 [derived]).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from driftlaw.config.lab import GroupSizeSettings
from driftlaw.theory.cells import Cell, Row, Say
from driftlaw.theory.estimators import objectives
from driftlaw.theory.exact import drifted
from driftlaw.theory.problems import LABORATORY, build
from driftlaw.theory.slopes import fit_slope

# Standard errors that a (debiased, squared) bias must be away from 0 to be called resolved. [choice]
RESOLVED = 3.0
FITTED = ("cap_bias", "cap_bias_relative", "mass_loss", "total_bias")
# Expected d log / d log G: for group caps the exponent of the bound Var r / (4 G eps). [derived]
CLAIMED = {"gmc": -1.0, "gmc_waterfill": -1.0, "tic_mask": 0.0, "tic_truncate": 0.0}


def group_size(settings: GroupSizeSettings, say: Say) -> dict[str, pd.DataFrame]:
    """Tables `group_size`, a row per drift, eps, G and objective, and `slopes`.

    `resolved`: exact, or more than 3 standard errors from 0. `mean_ratio_sd` is sd(r) / sqrt(G): where eps
    exceeds it a cap on the group's mass binds rarely. Slopes are fitted to resolved cells alone; they
    say how many there are.
    """
    problem = build(settings.problem)
    rows: list[Row] = []
    for updates in settings.updates:
        point = drifted(problem, updates, settings.lr)
        for size in settings.group_sizes:
            stream = (settings.sampling.seed, LABORATORY, 3, updates, size)
            cell = Cell(point, size, settings.sampling, stream)
            for eps in settings.eps:
                columns = {"updates": updates, "drift": updates * settings.lr, "cap": eps}
                rows += cell.rows(objectives(eps, settings.objectives), **columns)
        say(f"{updates} updates of drift: sd(r) = {point.ratio_sd:.3g}")
    frame = pd.DataFrame(rows)
    frame["mean_ratio_sd"] = frame["ratio_sd"] / np.sqrt(frame["group_size"])
    frame["resolved"] = frame["cap_bias_squared"] > RESOLVED * frame["cap_bias_squared_se"]
    return {"group_size": frame, "slopes": slopes(frame)}


def slopes(frame: pd.DataFrame) -> pd.DataFrame:
    """Exponents in G of the cap's bias, the mass loss and the total bias, per drift, eps and objective.

    The total bias has no claim: with standardised advantages (c) - (b) stays, whatever G. Fitted to all
    group sizes, and to the larger half of them. `vanished`: cells that are not resolved, where nothing is
    left to fit; `falls_to`: the last resolved value over the first.
    """
    rows: list[dict[str, Any]] = []
    keys = ["updates", "drift", "cap", "objective"]
    for key, group in frame.groupby(keys, sort=False):
        half = group["group_size"].median()
        for measure in FITTED:
            error = f"{measure}_se"
            there = group[measure] > RESOLVED * group[error]
            # A relative bias has no square of its own to be judged by: it is resolved with its norm.
            known = group[there & group["resolved"]] if "cap" in measure else group[there]
            for part, cells in (("all", known), ("large", known[known["group_size"] >= half])):
                slope = fit_slope(cells["group_size"], cells[measure], cells[error])
                values = cells[measure].to_numpy()
                rows.append(
                    dict(zip(keys, key, strict=True))
                    | {
                        "measure": measure,
                        "range": part,
                        "slope": slope.slope,
                        "low": slope.low,
                        "high": slope.high,
                        "claimed": np.nan
                        if measure == "total_bias"
                        else CLAIMED.get(str(key[3]), np.nan),
                        "cells": len(cells),
                        "vanished": len(group) - len(known),
                        "falls_to": values[-1] / values[0] if len(values) else np.nan,
                    }
                )
    return pd.DataFrame(rows)
