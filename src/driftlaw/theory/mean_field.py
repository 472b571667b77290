"""A mean-field model of collapse: a scalar drift whose direction persists, under a declared schedule.

With the schedule's version v(t) (`driftlaw.schedule`) and a learning rate eta, update t does

    b_t     = kappa (x_t - x_{v(t)})                      bias of the stale gradient, 0 where lag(t) = 0
    q_{t+1} = q_t + (b_t - q_t) / M                       directions persist M updates, across syncs
    x_{t+1} = x_t + eta q_{t+1} / sqrt(q_{t+1}^2 + nu^2)  optimizer-normalised: the speed saturates at eta

from x_0 = 0, q_0 = nu/100; a run has collapsed at the first t with |x_t| >= R. S = I at D = 0.
(method.md section 4 [derived]; the start of q is a [choice])

Predictions for M at least of the order of the lag [derived], with L the mean lag D + (I - 1)/2:

    gain      g = kappa eta L / nu     g < 1: the drift decays; g > 1: it grows and saturates
    speed     eta sqrt(1 - 1/g^2)      where g > 1, else 0
    boundary  max(nu / (kappa L), R/T) = max(2 nu / (kappa (S - 1)), R/T) for interval schedules

The second term of the boundary holds for every schedule: T updates of less than eta < R/T stay inside R.

Units. x is measured in learning rate x updates, so that a saturated drift of one update is eta: this
fixes the scale of x. q's scale is free: (kappa, nu) -> (c kappa, c nu) changes nothing, so kappa/nu, M
and R are what a run depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftlaw.schedule import Schedule

Floats = NDArray[np.float64]
Schedules = Schedule | Sequence[Schedule]

# q_0 in units of nu.
FIRST_DIRECTION = 0.01
# Updates after which finished runs are dropped; learning rates tried at once in a search.
BLOCK = 256
SECTIONS = 24


@dataclass(frozen=True)
class MeanField:
    """The model's parameters; ValueError where one is out of range.

    kappa   bias per drift: units of q / (learning rate x updates)
    nu      noise that the bias is compared with: units of q
    memory  M > 1, updates that a direction persists; at M = 1 the first one is forgotten and x stays 0
    radius  R, the drift at which a run has collapsed: learning rate x updates
    """

    kappa: float
    nu: float
    memory: float
    radius: float

    def __post_init__(self) -> None:
        for name, low in (("kappa", 0.0), ("nu", 0.0), ("memory", 1.0), ("radius", 0.0)):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > low):
                raise ValueError(f"mean field: {name} = {value!r}; allowed: finite, above {low:g}")

    def gain(self, lr: ArrayLike, schedule: Schedule) -> Floats:
        """g, dimensionless; shape of `lr`."""
        return self.kappa * np.asarray(lr, dtype=float) * schedule.mean_lag / self.nu

    def speed(self, lr: ArrayLike, schedule: Schedule) -> Floats:
        """Drift of one update once it has saturated, in units of x; shape of `lr`."""
        gain = np.maximum(self.gain(lr, schedule), 1.0)
        return np.asarray(lr, dtype=float) * np.sqrt(1.0 - gain**-2)

    def boundary(self, schedule: Schedule, horizon: int) -> float:
        """Predicted largest stable learning rate at a horizon of T updates; inf without staleness."""
        lag = schedule.mean_lag
        return max(self.nu / (self.kappa * lag), self.radius / horizon) if lag else np.inf

    def collapse_update(self, lr: ArrayLike, schedules: Schedules, horizon: int) -> Floats:
        """First t in 1..horizon with |x_t| >= R; NaN for runs that never get there.

        lr: scalar or (n,); schedules: one, or n of them. Returned: (n,).
        """
        return np.ceil(self.crossing(lr, schedules, horizon))

    def crossing(self, lr: ArrayLike, schedules: Schedules, horizon: int) -> Floats:
        """`collapse_update` before it is rounded up: |x| interpolated inside the update that crosses R."""
        rates, plans = _paired(lr, schedules)
        if horizon < 1:
            raise ValueError(f"mean field: horizon {horizon}; allowed: at least 1 update")
        out = np.full(len(rates), np.nan)
        runs = _Runs(self, rates, plans)
        alive = np.arange(len(rates))
        while runs.t < horizon and len(alive):
            path = np.abs(runs.advance(min(BLOCK, horizon - runs.t)))
            beyond = path[1:] >= self.radius
            left = beyond.any(axis=0)
            k = beyond.argmax(axis=0)[left]
            before, after = path[k, left], path[k + 1, left]
            first = runs.t - len(beyond) + k
            share = np.clip((self.radius - before) / (after - before), 1e-9, 1.0)
            out[alive[left]] = first + share
            if left.any():
                alive = alive[~left]
                runs.keep(np.flatnonzero(~left))
        return out

    def trajectory(self, lr: ArrayLike, schedules: Schedules, updates: int) -> Floats:
        """(updates + 1) x n drifts x_t, x_0 = 0 first; they are followed beyond R too."""
        runs = _Runs(self, *_paired(lr, schedules))
        return runs.advance(updates)

    def largest_stable_lr(
        self,
        schedules: Schedules,
        horizon: int,
        tolerance: float = 1e-4,
        upper: float | None = None,
    ) -> Floats:
        """Per schedule, the learning rate below which no run collapses within `horizon` updates.

        Searched on log eta from R/T, which is stable always, to `upper` (R: one update may collapse);
        every pass tries SECTIONS rates a schedule and keeps the gap below the first that collapses,
        until its relative width is under `tolerance`. NaN where nothing up to `upper` collapses. A
        window of collapse narrower than the first pass's gaps can be missed.
        """
        plans = [schedules] if isinstance(schedules, Schedule) else list(schedules)
        low = np.full(len(plans), np.log(self.radius / horizon))
        high = np.full(len(plans), np.log(self.radius if upper is None else upper))
        found = high > low
        repeated = [plan for plan in plans for _ in range(SECTIONS)]
        while np.max(high - low, where=found, initial=0.0) > tolerance:
            # The last one is `high`: known to collapse, but for the first pass.
            share = np.arange(1, SECTIONS + 1) / SECTIONS
            grid = low[:, None] + (high - low)[:, None] * share
            times = self.crossing(np.exp(grid).ravel(), repeated, horizon)
            collapsed = ~np.isnan(times.reshape(grid.shape))
            found &= collapsed.any(axis=1)
            first = collapsed.argmax(axis=1)
            rows = np.arange(len(plans))
            low = np.where(first > 0, grid[rows, np.maximum(first - 1, 0)], low)
            high = grid[rows, first]
        return np.where(found, np.exp(low), np.nan)


class _Runs:
    """n runs side by side; `ring` holds the last max_lag + 1 drifts of each."""

    def __init__(self, model: MeanField, lr: Floats, schedules: list[Schedule]) -> None:
        self.model, self.lr, self.t = model, lr, 0
        self.delay = np.array([s.delay for s in schedules], dtype=np.int64)
        self.interval = np.array([s.interval for s in schedules], dtype=np.int64)
        self.x = np.zeros(len(lr))
        self.q = np.full(len(lr), FIRST_DIRECTION * model.nu)
        self.ring = np.zeros((max((s.max_lag for s in schedules), default=0) + 1, len(lr)))

    def advance(self, updates: int) -> Floats:
        """(updates + 1) x n: the drifts now and after each of the next `updates` updates."""
        slots, n = self.ring.shape
        t = np.arange(self.t, self.t + updates)[:, None]
        # Schedule.version for all runs at once.
        version = np.maximum(0, self.interval * ((t - self.delay) // self.interval))
        flat = version % slots * n + np.arange(n)
        path = np.empty((updates + 1, n))
        path[0] = x = self.x
        q, kappa, memory, nu2 = self.q, self.model.kappa, self.model.memory, self.model.nu**2
        for k in range(updates):
            bias = kappa * (x - self.ring.take(flat[k]))
            q = q + (bias - q) / memory
            x = x + self.lr * q / np.sqrt(q * q + nu2)
            self.ring[(self.t + k + 1) % slots] = x
            path[k + 1] = x
        self.x, self.q, self.t = x, q, self.t + updates
        return path

    def keep(self, chosen: NDArray[np.int64]) -> None:
        for name in ("lr", "delay", "interval", "x", "q"):
            setattr(self, name, getattr(self, name)[chosen])
        self.ring = np.ascontiguousarray(self.ring[:, chosen])


def _paired(lr: ArrayLike, schedules: Schedules) -> tuple[Floats, list[Schedule]]:
    rates = np.atleast_1d(np.asarray(lr, dtype=float))
    plans = [schedules] if isinstance(schedules, Schedule) else list(schedules)
    n = max(len(rates), len(plans))
    if not (len(rates) in (1, n) and len(plans) in (1, n)):
        raise ValueError(
            f"mean field: {len(rates)} rates, {len(plans)} schedules; allowed: equal, or one"
        )
    return np.broadcast_to(rates, (n,)), plans * n if len(plans) == 1 else plans
