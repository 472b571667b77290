"""Which objectives there are, with their parameters, defaults and sources; `get` builds one.

One line an objective. The functions live one file a family and are imported when they are asked for,
so that reading a study's settings does not import torch.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftlaw.objectives.batch import Batch, Result

LENGTH_NORMS = ("sequence", "constant", "token")


@dataclass(frozen=True)
class Parameter:
    """A number that an objective takes: default, inclusive range, unit."""

    default: float | int | None
    low: float
    high: float
    unit: str

    def allows(self, value: Any) -> bool:
        """Whether `value` may be given; None stands for a default that depends on another parameter."""
        if value is None:
            return True
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and self.low <= value <= self.high

    @property
    def allowed(self) -> str:
        return f"must be a number from {self.low:g} to {self.high:g} ({self.unit})"

    def check(self, name: str, value: Any) -> None:
        if not self.allows(value):
            raise ValueError(f"{name}: {value!r}: {self.allowed}")


@dataclass(frozen=True)
class Entry:
    """One objective. `needs_full_support`: its analysis rests on E[ratio] = 1 under the sampler."""

    function: str
    source: str
    mark: str
    length_norm: str
    own: Mapping[str, Parameter]
    needs_full_support: bool = True

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters, the shared ones last."""
        return (*self.own, *SHARED)


_EPS = Parameter(0.2, 0.0, 100.0, "ratio")
_EPS_LOW = Parameter(None, 0.0, 1.0, "ratio; default eps")
_EPS_HIGH = Parameter(None, 0.0, 100.0, "ratio; default eps")
_CLIP = {"eps": Parameter(0.2, 0.0, 1.0, "ratio"), "eps_low": _EPS_LOW, "eps_high": _EPS_HIGH}
_CAP = {"eps": _EPS}
_TIC, _GMC, _LAWS = "arXiv 2508.02833", "arXiv 2610.01896", "arXiv 2607.01083"
# Every objective also takes these; `clamp` bounds log-ratios (nats) so that exp stays finite.
SHARED = ("length_norm", "l_max", "clamp")
CLAMP = Parameter(20.0, 1e-6, 80.0, "nats")

CATALOG: dict[str, Entry] = {
    "grpo": Entry(
        "ppo_clip:grpo", "arXiv 2402.03300; vanilla of " + _LAWS, "paper", "sequence", _CLIP, False
    ),
    "grpo_noclip": Entry("ppo_clip:grpo_noclip", "ablation", "choice", "sequence", {}, False),
    "tic_mask": Entry(
        "trajectory:tic_mask", f"{_TIC} as {_GMC} analyses it", "derived", "constant", _CAP
    ),
    "tic_truncate": Entry("trajectory:tic_truncate", "sequence TIS", "derived", "constant", _CAP),
    "gmc": Entry("group_mass:gmc", _GMC, "paper", "constant", _CAP),
}


def get(name: str, **params: Any) -> Callable[[Batch], Result]:
    """The objective `name` with its parameters bound: a callable from Batch to Result.

    Parameters: `length_norm` ("sequence", "constant" or "token"; each objective has its own default),
    `l_max` (tokens, needed by "constant"), `clamp` (nats), and those of the objective (`CATALOG`).
    Raises ValueError, one line, for an unknown name, an unknown parameter or a value out of range.
    """
    if name not in CATALOG:
        raise ValueError(f"objective: {name!r}: must be one of {', '.join(CATALOG)}")
    entry = CATALOG[name]
    for key, value in params.items():
        if key not in entry.parameters:
            raise ValueError(
                f"{key}: not a parameter of {name}; allowed: {', '.join(entry.parameters)}"
            )
        if key in entry.own:
            entry.own[key].check(key, value)
    given = {key: value for key, value in params.items() if value is not None}
    bound = {key: given.get(key, parameter.default) for key, parameter in entry.own.items()}
    if "eps_low" in bound:
        bound["eps_low"] = bound["eps"] if bound["eps_low"] is None else bound["eps_low"]
        bound["eps_high"] = bound["eps"] if bound["eps_high"] is None else bound["eps_high"]
        del bound["eps"]
    length_norm = params.get("length_norm")
    length_norm = entry.length_norm if length_norm is None else length_norm
    if length_norm not in LENGTH_NORMS:
        raise ValueError(f"length_norm: {length_norm!r}: must be one of {', '.join(LENGTH_NORMS)}")
    l_max = params.get("l_max")
    whole = isinstance(l_max, int) and not isinstance(l_max, bool) and l_max >= 1
    if not whole and (l_max is not None or length_norm == "constant"):
        raise ValueError(
            f"l_max: {l_max!r}: must be a whole number of tokens >= 1 for length_norm 'constant'"
        )
    clamp = params.get("clamp", CLAMP.default)
    clamp = CLAMP.default if clamp is None else clamp
    CLAMP.check("clamp", clamp)
    assert clamp is not None and math.isfinite(clamp)
    module, function = entry.function.split(":")
    implementation = getattr(importlib.import_module(f"driftlaw.objectives.{module}"), function)

    def objective(batch: Batch) -> Result:
        result: Result = implementation(batch, length_norm, l_max, clamp, **bound)
        return result

    return objective
