"""When a run has collapsed: the declared rule on the frozen held-out evaluation curve, and the
run's status.

Let (u_k, s_k) be the evaluated updates and their held-out scores, k = 0, 1, ... . With

    B_k = max(s_0, ..., s_k)                                       (running best)

the run collapses at u_k, the *first* point of the earliest streak k, ..., k + m - 1 in which

    B_{k-1} >= floor   and   s_j < fraction * B_{k-1}   for j = k, ..., k + m - 1

with m = `consecutive`.

The best is taken before the streak, so a falling score never lowers its own bar; the floor keeps a
run that never learned anything from "collapsing" out of noise. A score that is not finite is
collapse at once: it is below every bar, needs no floor, and completes a streak of any length.

[choice] the rule's form and its three numbers; the frozen held-out curve, because training rewards
are the behaviour policy's; and that the event time is the first point of the streak, not the point
at which the rule became satisfied: the streak's length guards against noise and is no part of the
run's life. The true time lies in `bracket`, because the curve is only seen where it was evaluated.

This module is read on the training loop's start-up path: standard library and numpy only.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Status = Literal["stable", "collapsed", "censored", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True)
class CollapseRule:
    """The declared rule. [choice]

    fraction: a score below `fraction` x running best is low; 0 < fraction <= 1, dimensionless.
    floor: the running best must have reached this score, in units of the score; finite, >= 0.
    consecutive: low evaluation points in a row that make a collapse; an integer >= 1.

    Raises ValueError (one line) when a value is out of range.
    """

    fraction: float = 0.5
    floor: float = 0.15
    consecutive: int = 2

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise ValueError(
                f"collapse rule: fraction = {self.fraction!r}; allowed: 0 < fraction <= 1"
            )
        if not (math.isfinite(self.floor) and self.floor >= 0.0):
            raise ValueError(
                f"collapse rule: floor = {self.floor!r}; allowed: a finite number >= 0"
            )
        if type(self.consecutive) is not int or self.consecutive < 1:
            raise ValueError(
                f"collapse rule: consecutive = {self.consecutive!r}; allowed: an integer >= 1"
            )


@dataclass(frozen=True)
class CollapseEvent:
    """A collapse, in updates completed (u = 0 is the evaluation before any update).

    update: event time, the first point of the streak.
    detected_at: the point at which the rule was satisfied; the run could not have been stopped
        earlier.
    bracket: (last evaluated update before the streak, `update`): the collapse happened in (left,
        right]. Left is None when the very first point is not finite.
    best: running best before the streak, in units of the score; None when there was no point before
        it.
    score: score at `update`; may be NaN or infinite.
    """

    update: int
    detected_at: int
    bracket: tuple[int | None, int]
    best: float | None
    score: float


def find_collapse(
    updates: Sequence[int] | NDArray[np.integer],
    scores: Sequence[float] | NDArray[np.floating],
    rule: CollapseRule,
) -> CollapseEvent | None:
    """The collapse on one run's held-out curve, or None.

    updates: (K,) update ordinals at which the frozen evaluation was made, strictly increasing,
        >= 0.
    scores: (K,) held-out scores, higher is better.

    Causal: the event found on a prefix of the curve is the event of the whole curve. A streak still
    shorter than `rule.consecutive` at the end of the curve is no collapse.

    Raises ValueError when the lengths differ, or an update is not an integer, negative, or not
    increasing.
    """
    ordinals = _checked_updates(updates)
    if len(ordinals) != len(scores):
        raise ValueError(f"evaluation curve: {len(ordinals)} updates but {len(scores)} scores")

    best: float | None = None
    streak: list[int] = []
    for k, raw in enumerate(scores):
        score = float(raw)
        finite = math.isfinite(score)
        low = finite and best is not None and best >= rule.floor and score < rule.fraction * best
        if finite and not low:
            streak = []
            best = score if best is None else max(best, score)
            continue
        streak.append(k)
        if not finite or len(streak) >= rule.consecutive:
            first = streak[0]
            return CollapseEvent(
                update=ordinals[first],
                detected_at=ordinals[k],
                bracket=(ordinals[first - 1] if first > 0 else None, ordinals[first]),
                best=best,
                score=float(scores[first]),
            )
    return None


def status(
    event: CollapseEvent | None, updates_done: int, horizon: int, failed: bool = False
) -> Status:
    """A run's status at the study's horizon: one of `STATUSES`, which are never merged.

        collapsed   the rule was satisfied at or before the horizon
        failed      infrastructure ended the run
        stable      reached the horizon uncollapsed
        censored    stopped earlier, healthy

    tested in that order: what the curve had shown before the infrastructure broke stays an
    observation, and a failed run is never called stable. [choice]
    Because the rule is causal, `horizon` may be any T' <= the horizon that was run (horizons nest).

    updates_done: updates completed by the run, >= 0. horizon: the study's horizon in updates, >= 1.

    Raises ValueError when either is out of range, or the event was detected after `updates_done`.
    """
    if updates_done < 0:
        raise ValueError(f"status: updates_done = {updates_done!r}; allowed: an integer >= 0")
    if horizon < 1:
        raise ValueError(f"status: horizon = {horizon!r}; allowed: an integer >= 1")
    if event is not None and event.detected_at > updates_done:
        raise ValueError(
            f"status: collapse detected at update {event.detected_at} of {updates_done} done"
        )
    if event is not None and event.detected_at <= horizon:
        return "collapsed"
    if failed:
        return "failed"
    return "stable" if updates_done >= horizon else "censored"


def _checked_updates(updates: Sequence[int] | NDArray[np.integer]) -> list[int]:
    """The ordinals as Python integers; ValueError unless they are >= 0 and strictly increasing."""
    ordinals: list[int] = []
    for value in updates:
        try:
            ordinal = operator.index(value)
        except TypeError:
            raise ValueError(
                f"evaluation curve: update {value!r}; allowed: integers >= 0"
            ) from None
        if ordinal < 0:
            raise ValueError(f"evaluation curve: update {ordinal}; allowed: integers >= 0")
        if ordinals and ordinal <= ordinals[-1]:
            raise ValueError(
                f"evaluation curve: update {ordinal} after {ordinals[-1]}; allowed: increasing"
            )
        ordinals.append(ordinal)
    return ordinals
