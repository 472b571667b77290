"""What a fitted exponent looks like in a result: plain JSON numbers, null where there is none."""

from __future__ import annotations

import math
from typing import TypedDict


class Exponent(TypedDict):
    """An exponent and its interval, dimensionless; low and high are null when it is unbounded."""

    estimate: float
    low: float | None
    high: float | None
    level: float


def exponent(estimate: float, low: float | None, high: float | None, level: float) -> Exponent:
    """JSON-safe: a bound that is not finite becomes null, and then so does the other.

    Raises ValueError when the estimate itself is not finite: such a result is null, with a reason.
    """
    if not math.isfinite(estimate):
        raise ValueError(f"exponent: estimate = {estimate!r}; allowed: a finite number")
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return {"estimate": float(estimate), "low": None, "high": None, "level": level}
    return {"estimate": float(estimate), "low": float(low), "high": float(high), "level": level}


def check_level(level: float) -> None:
    """Raises ValueError unless 0 < level < 1."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"interval: level = {level!r}; allowed: 0 < level < 1")
