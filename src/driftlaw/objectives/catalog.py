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
class Switch:
    """A yes-or-no parameter of an objective, with the interface of `Parameter`."""

    default: bool
    unit: str

    def allows(self, value: Any) -> bool:
        return value is None or isinstance(value, bool)

    @property
    def allowed(self) -> str:
        return f"must be true or false ({self.unit})"

    def check(self, name: str, value: Any) -> None:
        if not self.allows(value):
            raise ValueError(f"{name}: {value!r}: {self.allowed}")


@dataclass(frozen=True)
class Entry:
    """One objective.

    function            "module:function" in this package
    mark                [paper], [derived] or [choice], as in docs/method.md
    length_norm         default of the shared parameter
    own                 its other parameters
    needs_full_support  its analysis rests on E[ratio] = 1 under the sampler
    advantage           default of a study's `advantage.normalise`
    fixed_length_norm   the ratio carries the length normalisation; `length_norm` has no effect
    """

    function: str
    source: str
    mark: str
    length_norm: str
    own: Mapping[str, Parameter | Switch]
    needs_full_support: bool = True
    advantage: str = "std"
    fixed_length_norm: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters, the shared ones last."""
        return (*self.own, *SHARED)


def _clip(low: float, high: float) -> dict[str, Parameter | Switch]:
    """Clip radii below and above 1; `eps` sets both of those that are not given."""
    return {
        "eps": Parameter(None, 0.0, 1.0, "ratio; sets both radii"),
        "eps_low": Parameter(low, 0.0, 1.0, "ratio"),
        "eps_high": Parameter(high, 0.0, 100.0, "ratio"),
    }


_CLIP = _clip(0.2, 0.2)
_CAP: dict[str, Parameter | Switch] = {"eps": Parameter(0.2, 0.0, 100.0, "ratio")}
_GRAD = {"through_gradient": Switch(False, "differentiate through the weights")}
_M2 = {"m2_threshold": Parameter(0.04, 0.0, 1e4, "nats^2")}
_PROX: dict[str, Parameter | Switch] = {
    "cap": Parameter(5.0, 0.0, 1e6, "ratio"),
    "alpha": Parameter(0.5, 0.0, 1.0, "share of the way from mu to pi"),
}


def _token_cap(cap: float) -> dict[str, Parameter | Switch]:
    return {"cap": Parameter(cap, 0.0, 1e6, "ratio")}


_TIC, _GMC, _LAWS = "arXiv 2508.02833", "arXiv 2610.01896", "arXiv 2607.01083"
# Every objective also takes these; `clamp` bounds log-ratios (nats) so that exp stays finite.
SHARED = ("length_norm", "l_max", "clamp")
CLAMP = Parameter(20.0, 1e-6, 80.0, "nats")

CATALOG: dict[str, Entry] = {
    "grpo": Entry(
        "ppo_clip:grpo", f"arXiv 2402.03300; vanilla of {_LAWS}", "paper", "sequence", _CLIP, False
    ),
    "grpo_noclip": Entry("ppo_clip:grpo_noclip", "ablation", "choice", "sequence", {}, False),
    "dapo": Entry("ppo_clip:grpo", "arXiv 2503.14476", "paper", "token", _clip(0.2, 0.28), False),
    "dr_grpo": Entry(
        "ppo_clip:grpo", "arXiv 2503.20783", "paper", "constant", _CLIP, False, advantage="mean"
    ),
    "tic_mask": Entry(
        "trajectory:tic_mask", f"{_TIC} as {_GMC} analyses it", "derived", "constant", _CAP
    ),
    "tic_ppo": Entry(
        "trajectory:tic_ppo", f"re-implementations of {_TIC}", "derived", "constant", _CAP
    ),
    "tic_truncate": Entry("trajectory:tic_truncate", "sequence TIS", "derived", "constant", _CAP),
    "gmc": Entry("group_mass:gmc", _GMC, "paper", "constant", _CAP | _GRAD),
    "gmc_waterfill": Entry(
        "group_mass:gmc_waterfill",
        f"least capping in the class of {_GMC}",
        "derived",
        "constant",
        _CAP,
    ),
    "gepo": Entry(
        "sequence_clip:gepo",
        "arXiv 2508.17850",
        "paper",
        "sequence",
        _CLIP,
        False,
        fixed_length_norm=True,
    ),
    "gspo": Entry(
        "sequence_clip:gspo",
        "arXiv 2507.18071",
        "paper",
        "sequence",
        _clip(3e-4, 4e-4),
        False,
        fixed_length_norm=True,
    ),
    "cispo": Entry(
        "token_truncate:token_truncate",
        "arXiv 2506.13585; cap ours",
        "paper",
        "token",
        _token_cap(5.0),
        False,
    ),
    "tis": Entry(
        "token_truncate:token_truncate",
        "token-level truncated importance sampling",
        "paper",
        "token",
        _token_cap(2.0),
        False,
    ),
    "m2po": Entry("m2po:m2po", "arXiv 2510.01161", "paper", "token", _M2, False),
    "decoupled_ppo": Entry(
        "decoupled_ppo:decoupled_ppo",
        "AReaL, arXiv 2505.24298; cap and alpha ours",
        "paper",
        "token",
        _CLIP | _PROX,
        False,
    ),
}


def get(name: str, **params: Any) -> Callable[[Batch], Result]:
    """The objective `name` with its parameters bound: a callable from Batch to Result.

    Parameters: `length_norm` ("sequence", "constant" or "token"; each objective has its own default),
    `l_max` (tokens, needed by "constant"), `clamp` (nats), and those of the objective (`CATALOG`):
    `eps` (cap slack; in clip objectives both radii), `eps_low`, `eps_high`, `cap` (ratio), `alpha`,
    `m2_threshold` (nats^2), `through_gradient`. None stands for the default. gspo and gepo have their
    own length normalisation: they accept `length_norm` and `l_max`, which have no effect there.
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
        both = bound.pop("eps")
        for key in ("eps_low", "eps_high"):
            bound[key] = bound[key] if both is None or key in given else both
    length_norm = params.get("length_norm")
    length_norm = entry.length_norm if length_norm is None else length_norm
    if length_norm not in LENGTH_NORMS:
        raise ValueError(f"length_norm: {length_norm!r}: must be one of {', '.join(LENGTH_NORMS)}")
    l_max = params.get("l_max")
    whole = isinstance(l_max, int) and not isinstance(l_max, bool) and l_max >= 1
    needed = length_norm == "constant" and not entry.fixed_length_norm
    if not whole and (l_max is not None or needed):
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
