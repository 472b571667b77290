"""Claim 4: asynchronous SGD with the step size tuned in every cell, and the exponents of its delay.

A cell is (method, tau, G, eps, N). Its step size is the best of a log-spaced grid, by the mean of
`metric` over seeds; its delay-dependent term is

    delay_term = metric(tau, eta tuned at tau) - metric(0, eta tuned at 0)

    cap_term   = metric(tau, eta tuned at tau) - metric of `uncapped` at the same tau, tuned there

At tau = 0 every ratio is 1 and all methods are the same, so one reference serves each (G, N). The
second difference is ours [choice]: delay acts on an uncapped estimator too, through its variance, and
that part, of either sign, is no cap's doing. What is claimed of the first, from balancing 1/(eta N)
with the bound of the cap's squared bias (method.md section 3; G of gmc [paper], the rest [derived]):

    gmc, gmc_waterfill   (tau eta)^4 / (G^2 eps^2)   tau^{4/5} G^{-2/5} eps^{-2/5} N^{-4/5}
    tic_truncate         (tau eta)^4 / eps^2         tau^{4/5} eps^{-2/5} N^{-4/5}
    tic_mask             (tau eta)^4 / eps^4         tau^{4/5} eps^{-4/5} N^{-4/5}

Between grid points the minimum is that of the parabola through the best three (log eta, log metric). A
best step at the grid's edge extends the grid, a limited number of times, and is flagged where it stays
there. Intervals have 90 %: a bootstrap over whole seeds, all cells and the reference with the same
seeds, the step size tuned again in every resample. A cell is *resolved*, for each of the two terms,
where its interval lies above 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from driftlaw.config.lab_dynamics import AsyncSgdSettings
from driftlaw.streams import generator
from driftlaw.theory.async_exponents import exponents
from driftlaw.theory.async_sgd import (
    ASYNC_SGD,
    BOOTSTRAP,
    Floats,
    Softmax,
    build,
    random_numbers,
    simulate,
)
from driftlaw.theory.estimators import UNCAPPED, Objective
from driftlaw.theory.problems import LABORATORY
from driftlaw.theory.slopes import LEVEL

Row = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Sweep:
    """Of one cell: E step sizes ascending; metric and reward H x E x S."""

    lrs: Floats
    metric: Floats
    reward: Floats


def async_sgd(settings: AsyncSgdSettings, say: Say) -> dict[str, pd.DataFrame]:
    """Tables `cells`, `exponents` and `curves`.

    cells    a row per method, tau, G, eps and N. tau = 0 has the method `reference`; eps is empty there and
             for `uncapped`. lr: tuned step size; at_edge: it stayed at its grid's edge; metric, metric_se:
             |grad J|^2; reward: expected reward after N updates at the grid's best step; delay_term and
             cap_term with _se, _low and _high, and whether they are resolved; relative: delay_term / metric
             of the reference
    exponents  see `async_exponents.exponents`, of both terms
    curves   mean metric and reward of every step size: what the tuning saw
    """
    problem = build(settings)
    table = _Cells(settings)
    taus = settings.taus[1:]
    for group_size in settings.group_sizes:
        random = random_numbers(
            settings.seed,
            range(settings.seeds),
            max(settings.updates),
            settings.prompts,
            group_size,
        )
        (sweep,) = _sweeps(problem, Objective(UNCAPPED), [0], random, settings)
        reference = table.add({"method": "reference", "tau": 0, "G": group_size}, sweep)
        uncapped: dict[int, Floats] = {}
        for tau, sweep in zip(
            taus, _sweeps(problem, Objective(UNCAPPED), taus, random, settings), strict=True
        ):
            key: Row = {"method": UNCAPPED, "tau": tau, "G": group_size}
            uncapped[tau] = table.add(key, sweep, reference)
        for name in settings.methods:
            for eps in settings.eps:
                sweeps = _sweeps(problem, Objective(name, eps), taus, random, settings)
                for tau, sweep in zip(taus, sweeps, strict=True):
                    key = {"method": name, "tau": tau, "G": group_size, "eps": eps}
                    table.add(key, sweep, reference, uncapped[tau])
            say(f"G {group_size}, {name}")
    return table.finished()


class _Cells:
    """Rows as they come, with their bootstrap draws: B + 1 of each, the sample itself first."""

    def __init__(self, settings: AsyncSgdSettings) -> None:
        draw = generator((settings.seed, LABORATORY, ASYNC_SGD, BOOTSTRAP))
        picks = draw.integers(settings.seeds, size=(settings.resamples, settings.seeds))
        counts = [np.bincount(pick, minlength=settings.seeds) for pick in picks]
        self.share_bs = np.vstack([np.ones(settings.seeds), *counts]) / settings.seeds
        self.horizons = settings.updates
        self.rows: list[Row] = []
        self.curves: list[Row] = []
        self.draws: dict[str, list[Floats]] = {"delay": [], "cap": []}

    def add(
        self,
        key: Row,
        sweep: Sweep,
        reference: Floats | None = None,
        uncapped: Floats | None = None,
    ) -> Floats:
        """Append a cell, a row per N; returned: H x (B + 1) tuned metrics."""
        # A diverged run counts as 1e6, so that a share of 0 leaves it out.
        metric_hbe = np.einsum("hes,bs->hbe", np.minimum(sweep.metric, 1e6), self.share_bs)
        lr, best, edge = tune(sweep.lrs, metric_hbe)
        nothing = np.full_like(best, np.nan)
        terms = {
            "delay": nothing if reference is None else best - reference,
            "cap": nothing if uncapped is None else best - uncapped,
        }
        for h, horizon in enumerate(self.horizons):
            key = key | {"N": horizon}
            mean = sweep.metric[h].mean(-1)
            reward = sweep.reward[h].mean(-1)
            row = key | {
                "lr": lr[h, 0],
                "at_edge": bool(edge[h, 0]),
                "metric": best[h, 0],
                "metric_se": best[h, 1:].std(),
                "reward": reward[mean.argmin()],
            }
            for name, draw in terms.items():
                low, high = np.quantile(draw[h, 1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
                row |= {f"{name}_term": draw[h, 0], f"{name}_se": draw[h, 1:].std()}
                row |= {f"{name}_low": low, f"{name}_high": high, f"{name}_resolved": low > 0}
                self.draws[name].append(draw[h, 1:])
            if reference is not None:
                row["relative"] = terms["delay"][h, 0] / reference[h, 0]
            self.rows.append(row)
            self.curves += [
                key | {"lr": eta, "metric": mean[k], "reward": reward[k]}
                for k, eta in enumerate(sweep.lrs)
            ]
        return best

    def finished(self) -> dict[str, pd.DataFrame]:
        cells = pd.DataFrame(self.rows)
        fitted = [exponents(cells, np.stack(draws), name) for name, draws in self.draws.items()]
        return {
            "cells": cells,
            "exponents": pd.concat(fitted, ignore_index=True),
            "curves": pd.DataFrame(self.curves),
        }


def tune(lrs: Floats, metric: Floats) -> tuple[Floats, Floats, np.ndarray]:
    """(best step, its metric, best at an edge) over the last axis of `metric` (... x E).

    lrs: E, log-spaced. Inside the grid the vertex of the parabola in (log eta, log metric) through the best
    point and its neighbours; at the edge the point itself.
    """
    at = metric.argmin(-1)
    edge = (at == 0) | (at == len(lrs) - 1)
    middle = np.clip(at, 1, len(lrs) - 2)

    def log_at(k: np.ndarray) -> Floats:
        return np.log(np.take_along_axis(metric, k[..., None], -1)[..., 0])

    below, here, above = (log_at(middle + k) for k in (-1, 0, 1))
    # >= 0 as `here` is the least, or unused at an edge.
    bend = below - 2.0 * here + above
    shift = np.where(bend > 0, 0.5 * (below - above) / np.where(bend > 0, bend, 1.0), 0.0)
    step = np.log(lrs[1] / lrs[0])
    lr = np.where(edge, lrs[at], np.exp(np.log(lrs[middle]) + shift * step))
    best = np.where(edge, metric.min(-1), np.exp(here - 0.25 * (below - above) * shift))
    return lr, best, edge


def _sweeps(
    problem: Softmax,
    objective: Objective,
    taus: list[int],
    random: Floats,
    settings: AsyncSgdSettings,
) -> list[Sweep]:
    """One `Sweep` per delay, its grid extended where the best step lies at an edge."""

    def run(some: list[int], first: int, points: int) -> list[Sweep]:
        powers = np.arange(first, first + points, dtype=np.float64)
        lrs: Floats = settings.first_lr * np.power(settings.lr_factor, powers)
        trace = simulate(
            problem, objective, some, lrs, random, settings.updates, settings.advantage
        )
        return [Sweep(lrs, trace.metric[:, k], trace.reward[:, k]) for k in range(len(some))]

    points = settings.lr_points
    more = max(points // 3, 1)
    found = dict(zip(taus, run(taus, 0, points), strict=True))
    ends = {tau: [0, points] for tau in taus}
    for _ in range(settings.extensions):
        best = {tau: sweep.metric.mean(-1).argmin(-1) for tau, sweep in found.items()}
        low = [tau for tau in taus if (best[tau] == 0).any()]
        high = [tau for tau in taus if (best[tau] == len(found[tau].lrs) - 1).any()]
        for some, side in ((low, 0), (high, 1)):
            for tau in some:
                first = ends[tau][0] - more if side == 0 else ends[tau][1]
                (new,) = run([tau], first, more)
                pair = (new, found[tau]) if side == 0 else (found[tau], new)
                found[tau] = _joined(*pair)
                ends[tau][side] += more if side else -more
    return [found[tau] for tau in taus]


def _joined(low: Sweep, high: Sweep) -> Sweep:
    return Sweep(
        np.concatenate([low.lrs, high.lrs]),
        np.concatenate([low.metric, high.metric], axis=1),
        np.concatenate([low.reward, high.reward], axis=1),
    )
