"""The laboratory's tables of the mean-field model: its boundary, its collapse times, and what M does.

boundary    largest stable eta against the interval S for several horizons T, with the closed form
exit_times  collapse time against eta for several S, with the budget T_c eta
exponents   of collapse time in eta, and of the boundary in S
equal_lag   the boundary under delay (D, 1) and interval (0, 2D + 1), of equal mean lag D, against M
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from driftlaw.config.lab_dynamics import MeanFieldSettings
from driftlaw.schedule import Schedule
from driftlaw.theory.mean_field import MeanField
from driftlaw.theory.slopes import fit_slope, local_slopes

Row = dict[str, Any]
Say = Callable[[str], None]


def mean_field(settings: MeanFieldSettings, say: Say) -> dict[str, pd.DataFrame]:
    """The section's tables; see the module."""
    model = MeanField(settings.kappa, settings.nu, settings.memory, settings.radius)
    boundaries = boundary_table(model, settings.intervals, settings.horizons)
    say(f"boundary of {len(boundaries)} schedules and horizons")
    times = exit_times(
        model,
        settings.exit_intervals,
        settings.exit_lrs,
        settings.exit_points,
        settings.exit_horizon,
    )
    say(f"{len(times)} collapse times")
    equal = equal_lag_table(model, settings.memories, settings.delays, settings.equal_lag_horizon)
    say(f"{len(equal)} schedules of equal mean lag")
    return {
        "boundary": boundaries,
        "exit_times": times,
        "exponents": pd.concat([exit_exponents(times), boundary_exponents(boundaries)]),
        "equal_lag": equal,
    }


def boundary_table(
    model: MeanField, intervals: Sequence[int], horizons: Sequence[int]
) -> pd.DataFrame:
    """A row per horizon T and interval S.

    lr_max            largest stable eta; NaN where nothing up to R collapses
    predicted, ratio  max(2 nu / (kappa (S - 1)), R/T), and lr_max / predicted
    binding           the term that sets `predicted`: `growth` or `budget`
    """
    plans = [Schedule(0, interval) for interval in intervals]
    rows: list[Row] = []
    for horizon in horizons:
        for plan, lr in zip(plans, model.largest_stable_lr(plans, horizon), strict=True):
            predicted = model.boundary(plan, horizon)
            rows.append(
                {
                    "T": horizon,
                    "S": plan.interval,
                    "mean_lag": plan.mean_lag,
                    "lr_max": lr,
                    "predicted": predicted,
                    "ratio": lr / predicted,
                    "binding": "growth" if predicted > model.radius / horizon else "budget",
                }
            )
    return pd.DataFrame(rows)


def boundary_exponents(boundaries: pd.DataFrame) -> pd.DataFrame:
    """d log lr_max / d log (S - 1) per horizon, over the S where each term of the prediction binds.

    `claimed`: -1 where growth binds, 0 where the budget does. low and high are the range of the local
    slopes: the numbers have no noise, so an interval would say nothing.
    """
    rows: list[Row] = []
    for (horizon, binding), part in boundaries.groupby(["T", "binding"], sort=False):
        line = fit_slope(part["S"] - 1, part["lr_max"])
        if np.isfinite(line.slope):
            local = local_slopes(part["S"] - 1, part["lr_max"])
            rows.append(
                {
                    "quantity": "boundary",
                    "variable": "S - 1",
                    "T": horizon,
                    "scope": binding,
                    "points": len(part),
                    "slope": line.slope,
                    "low": np.nanmin(local),
                    "high": np.nanmax(local),
                    "claimed": -1.0 if binding == "growth" else 0.0,
                }
            )
    return pd.DataFrame(rows)


def exit_times(
    model: MeanField, intervals: Sequence[int], lrs: tuple[float, float], points: int, horizon: int
) -> pd.DataFrame:
    """A row per interval S and eta, log-spaced from lrs[0] to lrs[1], that collapses within `horizon`.

    gain          g = kappa eta (mean lag) / nu
    collapse      first update with |x| >= R
    budget        collapse time x eta, in units of R; saturated drift alone gives `predicted`
    predicted     1 / sqrt(1 - 1/g^2), NaN where g <= 1
    local_slope   d log(collapse time) / d log eta, the time interpolated inside its update
    """
    grid = np.geomspace(*lrs, points)
    frames = []
    for interval in intervals:
        plan = Schedule(0, interval)
        time = model.crossing(grid, plan, horizon)
        left = np.isfinite(time)
        lr, time = grid[left], time[left]
        with np.errstate(divide="ignore"):
            ideal = lr / model.speed(lr, plan)
        frames.append(
            pd.DataFrame(
                {
                    "S": interval,
                    "lr": lr,
                    "gain": model.gain(lr, plan),
                    "collapse": np.ceil(time),
                    "budget": time * lr / model.radius,
                    "predicted": np.where(np.isfinite(ideal), ideal, np.nan),
                    "local_slope": local_slopes(lr, time)
                    if len(lr) > 1
                    else np.full(len(lr), np.nan),
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def exit_exponents(times: pd.DataFrame) -> pd.DataFrame:
    """d log(collapse time) / d log eta per S, overall and by gain; claimed -1.

    scope: `all` · `near` g < 2, where growth is slow · `middle` 2 <= g < 20 · `far` g >= 20. low and high
    are the range of the local slopes.
    """
    rows: list[Row] = []
    for interval, part in times.groupby("S", sort=False):
        gain = part["gain"]
        scopes = {
            "all": gain > 0,
            "near": gain < 2,
            "middle": (gain >= 2) & (gain < 20),
            "far": gain >= 20,
        }
        for scope, chosen in scopes.items():
            some = part[chosen]
            line = fit_slope(some["lr"], some["budget"] / some["lr"])
            if np.isfinite(line.slope):
                rows.append(
                    {
                        "quantity": "collapse time",
                        "variable": "eta",
                        "S": interval,
                        "scope": scope,
                        "points": len(some),
                        "slope": line.slope,
                        "low": some["local_slope"].min(),
                        "high": some["local_slope"].max(),
                        "claimed": -1.0,
                    }
                )
    return pd.DataFrame(rows)


def equal_lag_table(
    model: MeanField, memories: Sequence[float], delays: Sequence[int], horizon: int
) -> pd.DataFrame:
    """A row per M and mean lag D: the boundary of (D, 1), of (0, 2D + 1), and their quotient."""
    rows: list[Row] = []
    for memory in memories:
        here = MeanField(model.kappa, model.nu, memory, model.radius)
        plans = [Schedule(delay, 1) for delay in delays]
        plans += [Schedule(0, 2 * delay + 1) for delay in delays]
        by_delay, by_interval = here.largest_stable_lr(plans, horizon).reshape(2, -1)
        for k, delay in enumerate(delays):
            rows.append(
                {
                    "memory": memory,
                    "mean_lag": float(delay),
                    "T": horizon,
                    "lr_max_delay": by_delay[k],
                    "lr_max_interval": by_interval[k],
                    "interval_over_delay": by_interval[k] / by_delay[k],
                    "predicted": here.boundary(plans[k], horizon),
                }
            )
    return pd.DataFrame(rows)
