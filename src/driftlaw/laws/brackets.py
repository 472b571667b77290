"""Per S, where the largest stable learning rate lies: the boundary as the runs show it, without a
model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TypedDict

import pandas as pd

from driftlaw.laws.collapse import STATUSES, Status


class ExponentSet(TypedDict):
    """A closed interval of exponents, dimensionless; a null side is unbounded."""

    low: float | None
    high: float | None


class Bracket(TypedDict):
    """The bracket of eta_max at one S.

    last_stable: the largest stable lr at which and below which no run collapsed; null if none.
    first_collapsed: the smallest lr with a collapsed run; null if none.
    overlap: a run was stable at or above `first_collapsed`: not a sharp boundary over the seeds.
    The rest counts this S's runs by status.
    """

    S: int
    last_stable: float | None
    first_collapsed: float | None
    overlap: bool
    stable: int
    collapsed: int
    censored: int
    failed: int


def brackets(df: pd.DataFrame) -> list[Bracket]:
    """One `Bracket` per S, ascending, S = 1 included (it estimates the lag-0 limit eta_0).

    df: (runs, columns) validated run table. Censored and failed runs are counted and bound nothing.
    """
    rows: list[Bracket] = []
    for _, runs in df.groupby("S", sort=True):
        stable = runs.loc[runs["status"] == "stable", "lr"]
        collapsed = runs.loc[runs["status"] == "collapsed", "lr"]
        first = float(collapsed.min()) if len(collapsed) else None
        below = stable if first is None else stable[stable < first]
        counts = count_statuses(runs)
        rows.append(
            {
                "S": int(runs["S"].iloc[0]),
                "last_stable": float(below.max()) if len(below) else None,
                "first_collapsed": first,
                "overlap": first is not None and bool((stable >= first).any()),
                "stable": counts["stable"],
                "collapsed": counts["collapsed"],
                "censored": counts["censored"],
                "failed": counts["failed"],
            }
        )
    return rows


def consistent_exponents(rows: Sequence[Bracket]) -> ExponentSet | None:
    """All e for which a sharp eta_max(S) = A * S^e lies inside every bracket; None if no e.

    With l_i <= log eta_max(S_i) <= h_i (infinite where open) and x_i = log S_i, an A exists for a
    given e when the intervals [l_i - e x_i, h_i - e x_i] all meet, that is, when each two meet:

        (l_j - h_i) / (x_j - x_i) <= e <= (h_j - l_i) / (x_j - x_i)    for all x_i < x_j   [derived]

    An overlap at any S means that no sharp boundary separates the runs: None. The set assumes no
    noise at the boundary and has no coverage level; with fewer than two S it is unbounded.
    """
    if any(row["overlap"] for row in rows):
        return None
    low, high = -math.inf, math.inf
    for a, b in combinations(sorted(rows, key=lambda row: row["S"]), 2):
        width = math.log(b["S"] / a["S"])
        least = _log(b["last_stable"], -math.inf) - _log(a["first_collapsed"], math.inf)
        most = _log(b["first_collapsed"], math.inf) - _log(a["last_stable"], -math.inf)
        low, high = max(low, least / width), min(high, most / width)
    if low > high:
        return None
    return {
        "low": low if math.isfinite(low) else None,
        "high": high if math.isfinite(high) else None,
    }


def _log(lr: float | None, absent: float) -> float:
    return absent if lr is None else math.log(lr)


def count_statuses(df: pd.DataFrame) -> dict[Status, int]:
    """Runs of each status, all four always present."""
    return {status: int((df["status"] == status).sum()) for status in STATUSES}
