"""Claim 5: the bias inside a synchronisation cycle grows like lag x eta and resets at synchronisation.

The behaviour policy is frozen for S updates while theta moves by the exact mean of the objective's own
estimator, theta_{j+1} = theta_j + eta E g(theta_j; mu). At each lag j the exact bias is |E g - (b)|. With
S updates a cycle the lag is j = t mod S; at j = 0, pi = mu and every weight is 1: the bias is 0.

A bias O(S eta) has exponent 1 in j eta. Without std normalisation a trajectory weight has no bias at all
until a cap binds ((c) = (b)); with it, peers that stay at mu give one of first order. A mask adds jumps,
response by response, as ratios pass the cap.
"""

from __future__ import annotations

import pandas as pd
import torch

from driftlaw.config.lab import CycleSettings
from driftlaw.theory.cells import Row, Say, describe
from driftlaw.theory.estimators import Objective, objectives
from driftlaw.theory.exact import Point
from driftlaw.theory.groups import all_groups
from driftlaw.theory.measures import measures
from driftlaw.theory.moments import moments, targets
from driftlaw.theory.problems import Problem, build
from driftlaw.theory.slopes import fit_slope

# Biases below this share of |(b)| are rounding.
ROUNDING = 1e-12


def cycle(settings: CycleSettings, say: Say) -> dict[str, pd.DataFrame]:
    """Tables `cycle`, a row per advantage, objective, S, eta and update, and `exponents`.

    `budget` = lag x eta. The exponent is fitted to the cells with lag > 0, budget at most `fit_up_to`
    and a bias above rounding, over all S and eta; `by_updates` and `by_rates` hold the other one fixed.
    """
    problem = build(settings.problem)
    rows: list[Row] = []
    for advantage in settings.advantages:
        for objective in objectives(settings.eps, settings.objectives):
            for interval in settings.intervals:
                for lr in settings.lrs:
                    rows += _run(problem, settings, advantage, objective, interval, lr)
            say(f"{objective.name}, advantage {advantage}")
    frame = pd.DataFrame(rows)
    return {"cycle": frame, "exponents": exponents(frame, settings.fit_up_to)}


def _run(
    problem: Problem,
    settings: CycleSettings,
    advantage: str,
    objective: Objective,
    interval: int,
    lr: float,
) -> list[Row]:
    rows: list[Row] = []
    theta = behaviour = problem.start
    for update in range(settings.cycles * interval):
        lag = update % interval
        if lag == 0:
            behaviour = theta
        point = Point(problem, behaviour, theta)
        target = targets(point, settings.group_size, advantage)
        groups = all_groups(point, settings.group_size)
        found = moments(point, groups, objective, advantage, target)
        row: Row = {
            "advantage": advantage,
            "objective": objective.name,
            "interval": interval,
            "lr": lr,
            "update": update,
            "lag": lag,
            "budget": lag * lr,
        }
        rows.append(row | describe(point) | measures(point, found, target))
        mean_d = point.to_parameters(found.mean_bxe[0])
        theta = theta + lr * torch.as_tensor(mean_d)
    return rows


def exponents(frame: pd.DataFrame, fit_up_to: float) -> pd.DataFrame:
    """Log-log slopes of the total bias in lag x eta, per advantage and objective.

    scope  `all`: one line through all cells; `lag`: at each eta, the slope in the lag; `lr`: at each lag
           of the longest interval, the slope in eta; the last two are means over what is fixed, with
           their range as the interval
    `zero`: cells whose bias is 0 to rounding; `at_synchronisation`: the largest relative bias at lag 0.
    """
    rows: list[Row] = []
    for (advantage, name), cells in frame.groupby(["advantage", "objective"], sort=False):
        small = cells[(cells["lag"] > 0) & (cells["budget"] <= fit_up_to)]
        some = small[small["total_bias_relative"] > ROUNDING]
        first = some[(some["update"] < some["interval"])]
        longest = first[first["interval"] == first["interval"].max()]
        shared: Row = {
            "advantage": advantage,
            "objective": name,
            "claimed": 1.0,
            "zero": len(small) - len(some),
            "at_synchronisation": cells.loc[cells["lag"] == 0, "total_bias_relative"].max(),
        }
        line = fit_slope(first["budget"], first["total_bias"])
        rows.append(shared | {"scope": "all", "cells": len(first)} | dict(line._asdict()))
        for scope, fixed, variable in (("lag", "lr", "lag"), ("lr", "lag", "lr")):
            slopes = [
                fit_slope(part[variable], part["total_bias"]).slope
                for _, part in longest.groupby(fixed)
                if len(part) > 1
            ]
            values = pd.Series(slopes, dtype=float).dropna()
            rows.append(
                shared
                | {"scope": scope, "cells": len(longest), "slope": values.mean()}
                | {"low": values.min(), "high": values.max()}
            )
    return pd.DataFrame(rows)
