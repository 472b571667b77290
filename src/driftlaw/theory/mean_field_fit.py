"""Fitting the mean-field model to a run table.

What a table identifies [derived]. A drift of one saturated update is eta, which fixes the scale of x;
q's scale is free, so only kappa/nu counts. A table can give three numbers:

    sensitivity  kappa/nu, per (learning rate x updates): from the boundary, lag eta = nu/kappa
    radius       R, learning rate x updates: from collapse times well above the boundary, T_c eta -> R
    memory       M, updates: from how late runs near the boundary collapse, and from delay against
                 interval schedules of equal mean lag

kappa = 1 by convention, so nu = 1/sensitivity. A table without collapses bounds two of them from one side;
runs far above the boundary alone say nothing of kappa/nu; lags far below M say little of M.

Misfit [choice]: the mean squared error of log collapse time, with the censoring of survival analysis.
With t the model's time (interpolated inside an update; LATE x the run's last update if it never comes),

    collapsed at c           (log t - log(c - 1/2))^2, as c is the crossing rounded up
    stable, censored at h    (log t - log h)^2 where t < h, else 0
    failed                   left out

h is `horizon`; for `censored`, the last healthy update in column `updates` where there is one. Log time
because an exponent of collapse time is what the model is asked for, and because the error of a
multiplicative noise is then the same at all learning rates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from driftlaw.laws.collapse import STATUSES
from driftlaw.schedule import Schedule
from driftlaw.theory.mean_field import Floats, MeanField

# A run that the model does not collapse counts as collapsing at LATE times its last update.
LATE = 2.0
NAMES = ("sensitivity", "radius", "memory")
START_MEMORIES = (4.0, 32.0, 256.0)
SHIFT = 1.25


@dataclass(frozen=True)
class Fit:
    """The best model, kappa = 1.

    misfit      mean squared error of log collapse time, nats^2
    runs        runs in it, those that failed left out
    collapsed   of these, runs that collapsed
    rises       per combination of NAMES, the smaller rise of the misfit when it is moved by SHIFT up or
                down and the others stay; 0: the table does not hold it from that side
    """

    model: MeanField
    misfit: float
    runs: int
    collapsed: int
    rises: dict[str, float]

    @property
    def combinations(self) -> dict[str, float]:
        """The three identifiable numbers, by NAMES."""
        values = (self.model.kappa / self.model.nu, self.model.radius, self.model.memory)
        return dict(zip(NAMES, values, strict=True))


def misfit(parameters: MeanField, runs: pd.DataFrame) -> float:
    """The module's misfit of a model against a run table.

    runs: columns D, I, lr, status, collapse_update (NaN unless collapsed), horizon, optionally updates.
    Raises ValueError (one line) when a column is missing, a status is unknown, or no run is left.
    """
    return _Table(runs).misfit(parameters)


def fit(runs: pd.DataFrame, start: MeanField | None = None) -> Fit:
    """The model of least misfit, by Nelder-Mead on the logarithms of the three combinations.

    start: where to begin; None: R and kappa/nu guessed from the runs, with each of START_MEMORIES.
    Raises ValueError as `misfit` does, and when no run collapsed or every one did: then the boundary
    or the budget has no data.
    """
    table = _Table(runs)
    if not 0 < table.collapsed.sum() < len(table.lr):
        raise ValueError(
            f"mean field: {table.collapsed.sum()} of {len(table.lr)} runs collapsed; "
            "allowed: some, not all"
        )

    def value(point: Floats) -> float:
        return table.misfit(_model(point))

    if start is None:
        starts = sorted((table.guess(m) for m in START_MEMORIES), key=value)[:2]
    else:
        starts = [np.log([start.kappa / start.nu, start.radius, start.memory - 1.0])]
    options = {"xatol": 1e-4, "fatol": 1e-9, "maxfev": 400}
    found = [
        minimize(
            value,
            point,
            method="Nelder-Mead",
            # The default simplex is 5 % of a logarithm, which is nothing near 0.
            options=options | {"initial_simplex": np.vstack([point, point + 0.5 * np.eye(3)])},
        )
        for point in starts
    ]
    best = min(found, key=lambda result: float(result.fun))
    rises = {}
    for i, name in enumerate(NAMES):
        shift = np.zeros(3)
        shift[i] = np.log(SHIFT)
        rises[name] = min(value(best.x + shift), value(best.x - shift)) - float(best.fun)
    return Fit(_model(best.x), float(best.fun), len(table.lr), int(table.collapsed.sum()), rises)


def _model(point: Floats) -> MeanField:
    """From (log sensitivity, log R, log(M - 1)); M > 1, so its logarithm would have an edge."""
    sensitivity, radius, more = map(float, np.exp(np.clip(point, -30.0, 30.0)))
    return MeanField(1.0, 1.0 / sensitivity, 1.0 + more, radius)


class _Table:
    """The runs that count, as arrays."""

    def __init__(self, runs: pd.DataFrame) -> None:
        for column in ("D", "I", "lr", "status", "collapse_update", "horizon"):
            if column not in runs.columns:
                raise ValueError(f"mean field: column {column} is missing in the run table")
        unknown = set(runs["status"]) - set(STATUSES)
        if unknown:
            raise ValueError(
                f"mean field: status {min(map(str, unknown))!r}: {', '.join(STATUSES)}"
            )
        used = runs[runs["status"] != "failed"]
        if used.empty:
            raise ValueError("mean field: no run that did not fail; allowed: at least one")
        self.schedules = [
            Schedule(int(d), int(i)) for d, i in zip(used["D"], used["I"], strict=True)
        ]
        self.lr = used["lr"].to_numpy(dtype=float)
        self.collapsed = (used["status"] == "collapsed").to_numpy()
        last = used["horizon"].to_numpy(dtype=float)
        if "updates" in used.columns:
            stopped = used["updates"].to_numpy(dtype=float)
            healthy = (used["status"] == "censored").to_numpy() & np.isfinite(stopped)
            last = np.where(healthy, stopped, last)
        event = used["collapse_update"].to_numpy(dtype=float)
        # Update 0 has no logarithm; a run that stops there says nothing.
        self.last = np.maximum(np.where(self.collapsed, event - 0.5, last), 0.5)
        self.horizon = int(np.ceil(LATE * self.last.max()))

    def misfit(self, model: MeanField) -> float:
        time = model.crossing(self.lr, self.schedules, self.horizon)
        limit = LATE * self.last
        error = np.log(np.where(np.isnan(time), limit, np.minimum(time, limit)) / self.last)
        return float(np.where(self.collapsed | (error < 0), error**2, 0.0).mean())

    def guess(self, memory: float) -> Floats:
        """R = the smallest eta T_c; nu/kappa = the smallest lag x eta of a collapsed run."""
        lag = np.array([s.mean_lag for s in self.schedules])
        stale = self.collapsed & (lag > 0)
        product = (lag * self.lr)[stale].min() if stale.any() else self.lr.max()
        budget = (self.lr * self.last)[self.collapsed].min()
        return np.log([1.0 / product, budget, memory - 1.0])
