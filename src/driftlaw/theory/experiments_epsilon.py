"""Claim 2: how the bias of a cap falls with its slack eps: eps^-4 to eps^-2 in squares.

Three kinds of ratios, from the law that attains the bounds to policies:

extremal    two-point laws of variance v, worst over the jump: exponents -2 (mask), -1 (truncation), -1
            (gmc) in eps while v << eps^2, and -1 in G for gmc; at v >= eps^2 they saturate
log-normal  log r ~ N(-s^2/2, s^2): far fewer responses beyond the cap, so no power law
policies    the exact norm of the cap's bias: as eps -> 0 it saturates, and beyond the largest ratio it is 0

Local slopes d log / d log eps say which regime a cell is in.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from driftlaw.config.lab import EpsilonSettings, SamplingSettings
from driftlaw.config.lab_problem import MOST_MULTISETS
from driftlaw.streams import generator
from driftlaw.theory.cells import Cell, Row, Say
from driftlaw.theory.estimators import objectives
from driftlaw.theory.exact import drifted
from driftlaw.theory.problems import LABORATORY, build
from driftlaw.theory.reference import (
    CAPS,
    bound,
    extremal,
    lognormal_mass_loss,
    lognormal_ratios,
    mass_loss,
)
from driftlaw.theory.slopes import fit_slope, local_slopes

CLAIMED_EPS = {"tic_mask": -2.0, "tic_truncate": -1.0, "gmc": -1.0, "gmc_waterfill": -1.0}
# A bias below this share of (c) is rounding: no ratio exceeds the cap.
ROUNDING = 1e-12
# The regime of the claimed exponents: Var r at most this share of eps^2, and eps at most SMALL. [choice]
SHARE, SMALL = 0.01, 0.1
CLAIMED_GROUP = {"tic_mask": 0.0, "tic_truncate": 0.0, "gmc": -1.0}


def epsilon(settings: EpsilonSettings, say: Say) -> dict[str, pd.DataFrame]:
    """Tables `extremal`, `exponents`, `lognormal` and `policies`."""
    worst = extremal_table(settings)
    say("extremal two-point laws")
    lognormal = lognormal_table(settings)
    say("log-normal ratios")
    policies = policy_table(settings)
    say("policies")
    return {
        "extremal": worst,
        "exponents": exponent_table(worst),
        "lognormal": lognormal,
        "policies": policies,
    }


def extremal_table(settings: EpsilonSettings) -> pd.DataFrame:
    """Worst mass loss per variance, G, cap and eps, with its jump, its bound and the local slope."""
    rows: list[Row] = []
    for variance in settings.variances:
        for group_size in settings.group_sizes:
            for name in CAPS:
                found = [extremal(name, variance, eps, group_size) for eps in settings.eps]
                slope = local_slopes(settings.eps, [loss for loss, _ in found])
                for eps, (loss, jump), local in zip(settings.eps, found, slope, strict=True):
                    rows.append(
                        {
                            "variance": variance,
                            "group_size": group_size,
                            "objective": name,
                            "eps": eps,
                            "variance_over_eps2": variance / eps**2,
                            "mass_loss": loss,
                            "jump": jump,
                            "bound": bound(name, variance, eps, group_size),
                            "local_slope": local,
                        }
                    )
    return pd.DataFrame(rows)


def exponent_table(worst: pd.DataFrame) -> pd.DataFrame:
    """Fitted exponents of the worst mass loss in eps (per variance and G) and in G (per variance and eps).

    range  `all` cells, or `small`: those with v <= 0.01 eps^2 and eps <= 0.1, where the claims are made
           (the mask's v/eps^2 + v/eps bends at larger eps); NaN under two such cells
    Exponents of the squared mass loss are twice these.
    """
    rows: list[Row] = []
    plans = (
        ("eps", ["variance", "objective", "group_size"], CLAIMED_EPS),
        ("group_size", ["variance", "objective", "eps"], CLAIMED_GROUP),
    )
    for variable, keys, claimed in plans:
        for key, group in worst.groupby(keys, sort=False):
            variance, name, other = key
            small = group[(group["variance_over_eps2"] <= SHARE) & (group["eps"] <= SMALL)]
            for part, cells in (("all", group), ("small", small)):
                slope = fit_slope(cells[variable], cells["mass_loss"])
                rows.append(
                    {
                        "variable": variable,
                        "variance": variance,
                        "objective": name,
                        "at": other,
                        "range": part,
                        "slope": slope.slope,
                        "low": slope.low,
                        "high": slope.high,
                        "claimed": claimed[str(name)],
                        "largest_variance_over_eps2": cells["variance_over_eps2"].max(),
                        "cells": len(cells),
                    }
                )
    return pd.DataFrame(rows)


def lognormal_table(settings: EpsilonSettings) -> pd.DataFrame:
    """Mass loss of log-normal ratios: by formula where there is one, else sampled (the same groups)."""
    rows: list[Row] = []
    size = settings.log_group_size
    for s in settings.log_sds:
        random = generator((settings.seed, LABORATORY, 5, round(1000 * s)))
        ratio_mg = lognormal_ratios(s, settings.log_groups, size, random)
        for name in CAPS:
            found = [
                (lognormal_mass_loss(name, s, eps), 0.0)
                if name != "gmc"
                else mass_loss(name, eps, ratio_mg)
                for eps in settings.eps
            ]
            slope = local_slopes(settings.eps, [loss for loss, _ in found])
            for eps, (loss, error), local in zip(settings.eps, found, slope, strict=True):
                rows.append(
                    {
                        "log_sd": s,
                        "group_size": size,
                        "objective": name,
                        "eps": eps,
                        "mass_loss": loss,
                        "mass_loss_se": error,
                        "local_slope": local,
                    }
                )
    return pd.DataFrame(rows)


def policy_table(settings: EpsilonSettings) -> pd.DataFrame:
    """Exact cap bias of policies at fixed drifts, per objective and eps, with the local slope.

    `share_above` is the probability under mu that a ratio exceeds 1 + eps.
    """
    problem = build(settings.problem)
    names = list(CLAIMED_EPS)
    exact = SamplingSettings(enumerate_up_to=MOST_MULTISETS)
    rows: list[Row] = []
    for updates in settings.updates:
        point = drifted(problem, updates, settings.lr)
        stream = (exact.seed, LABORATORY, 6, updates)
        cell = Cell(point, settings.group_size, exact, stream)
        mu_xy = np.exp(point.logmu_xyl.sum(2))
        for eps in settings.policy_eps:
            above = float((mu_xy * (point.ratio_xy > 1 + eps)).sum(1).mean())
            columns = {"updates": updates, "drift": updates * settings.lr, "share_above": above}
            rows += cell.rows(objectives(eps, names), **columns)
    frame = pd.DataFrame(rows)
    frame["local_slope"] = np.nan
    for _, cells in frame.groupby(["updates", "objective"], sort=False):
        there = cells["cap_bias"].where(cells["cap_bias_relative"] > ROUNDING, 0.0)
        frame.loc[cells.index, "local_slope"] = local_slopes(cells["eps"], there)
    return frame
