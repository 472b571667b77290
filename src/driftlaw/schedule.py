"""Declared staleness: which version of the weights samples the batch of update t.

    v(t)   = max(0, I * floor((t - D) / I))        version that samples the batch of update t
    lag(t) = t - v(t)                              staleness, in optimizer updates

t counts the updates completed before this one, from 0; update t turns version t into version t + 1.
D >= 0 is the delay, I >= 1 the synchronisation interval. lag(t) = t for t < D; from t = D on it is a
sawtooth over [D, D + I - 1] with mean D + (I - 1)/2 over whole cycles. (0, 1) is synchronous GRPO.
With n updates done the batch of update t may be generated iff v(t) <= n, that is
t <= D + I - 1 + I * floor(n / I). Nothing else in driftlaw knows how staleness is made.
(method.md section 2 [derived])
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """Delay `delay` >= 0 and synchronisation interval `interval` >= 1, both in updates."""

    delay: int
    interval: int

    def __post_init__(self) -> None:
        for name, value, low in (("delay", self.delay, 0), ("interval", self.interval, 1)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"schedule.{name}: {value!r}: must be a whole number")
            if value < low:
                raise ValueError(f"schedule.{name}: {value}: must be at least {low}")

    def version(self, t: int) -> int:
        """v(t): the version that samples the batch of update t >= 0 (ValueError below 0)."""
        if t < 0:
            raise ValueError(f"update {t}: must be at least 0")
        return max(0, self.interval * ((t - self.delay) // self.interval))

    def lag(self, t: int) -> int:
        """lag(t) = t - v(t), in updates."""
        return t - self.version(t)

    def last_ready(self, n: int) -> int:
        """The last update whose batch may be generated when n updates are done."""
        if n < 0:
            raise ValueError(f"updates done {n}: must be at least 0")
        return self.delay + self.interval - 1 + self.interval * (n // self.interval)

    @property
    def max_lag(self) -> int:
        """Largest lag, D + I - 1 (reached when the run is long enough)."""
        return self.delay + self.interval - 1

    @property
    def mean_lag(self) -> float:
        """Mean lag over whole cycles, D + (I - 1)/2."""
        return self.delay + (self.interval - 1) / 2
