"""Settings of the laboratory's dynamics: asynchronous SGD and the mean-field model."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StrictStr, model_validator

from driftlaw.config.section import Int, Real, Section
from driftlaw.objectives import CATALOG


def _rising(values: list[int]) -> list[int]:
    if any(b <= a for a, b in pairwise(values)):
        raise ValueError("must be ascending")
    return values


def _capped(name: str) -> str:
    # One slack eps on trajectories or groups; clip objectives have two radii.
    allowed = [
        key for key, entry in CATALOG.items() if "eps" in entry.own and "eps_low" not in entry.own
    ]
    if name not in allowed:
        raise ValueError(f"must be one of {', '.join(allowed)}")
    return name


Interval = Annotated[Int, Field(ge=2, le=4096)]
Delay = Annotated[Int, Field(ge=0, le=1024)]
Horizon = Annotated[Int, Field(ge=1, le=1_000_000)]
GroupSize = Annotated[Int, Field(ge=2, le=1024)]
Slack = Annotated[Real, Field(gt=0, le=10)]


class AsyncSgdSettings(Section):
    """Claim 4: asynchronous SGD with exact gradients, its step size tuned in every cell.

    The claimed exponents of the delay-dependent term are tau 4/5, eps -2/5, G -2/5, N -4/5.
    """

    responses: Int = Field(16, ge=2, le=1024, description="Responses Y of a prompt; a logit each.")
    prompts: Int = Field(2, ge=1, le=16, description="Prompts; every update has one group of each.")
    rewarded: Int = Field(
        4,
        ge=1,
        description="Responses of reward 1 a prompt, the others 0; with a small share of them |grad J|^2 "
        "rises before it falls, and standing still would score well.",
    )
    flip: Real = Field(0.1, ge=0, le=0.5, description="Probability that a sampled reward flips.")
    logit_scale: Real = Field(
        0.5, ge=0, le=10, description="Standard deviation of the first logits, nats."
    )
    penalty: Real = Field(
        0.03,
        ge=0,
        le=10,
        description="Ridge on the logits' distance from the first ones, in units of reward per nat^2; "
        "it keeps optima away from certainty, where every gradient vanishes.",
    )
    advantage: Literal["leave_one_out", "std"] = Field(
        "leave_one_out",
        description="`leave_one_out`: R minus the mean of the others, unbiased at any delay but for the "
        "cap; `std`: (R - mean)/(std + 1e-4), whose mean is not grad J.",
    )
    methods: list[Annotated[StrictStr, AfterValidator(_capped)]] = Field(
        ["tic_mask", "tic_truncate", "gmc", "gmc_waterfill"],
        min_length=1,
        description="Objectives with one slack eps; `uncapped` trajectory weights run beside them always.",
    )
    taus: Annotated[list[Delay], AfterValidator(_rising)] = Field(
        [0, 8, 16, 32, 64], min_length=2, description="Delays tau, updates; ascending from 0."
    )
    group_sizes: Annotated[list[GroupSize], AfterValidator(_rising)] = Field(
        [2, 4, 8, 16, 32], min_length=1, description="Group sizes G, ascending."
    )
    eps: list[Slack] = Field([0.05, 0.1, 0.2, 0.4], min_length=1, description="Cap slacks, ratios.")
    updates: Annotated[list[Horizon], AfterValidator(_rising)] = Field(
        [200, 400, 800],
        min_length=1,
        description="Horizons N, updates, ascending; they nest, so one run serves all.",
    )
    first_lr: Real = Field(0.4, gt=0, le=1e6, description="Smallest step size eta of the grid.")
    lr_factor: Real = Field(1.6, gt=1, le=10, description="Quotient of neighbouring step sizes.")
    lr_points: Int = Field(10, ge=3, le=64, description="Step sizes of the grid.")
    extensions: Int = Field(
        2, ge=0, le=8, description="Times a grid grows by a third where the best lies at its edge."
    )
    seeds: Int = Field(12, ge=2, le=1000, description="Seeds, common to all cells of one G.")
    resamples: Int = Field(400, ge=20, le=10_000, description="Bootstrap resamples of whole seeds.")
    seed: Int = Field(0, ge=0, description="Seed of the problem, of the runs and of the bootstrap.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.taus[0] != 0:
            raise ValueError("taus: must start with 0, the delay-free reference")
        if self.rewarded >= self.responses:
            raise ValueError(f"rewarded: must be less than responses = {self.responses}")
        return self


class MeanFieldSettings(Section):
    """The mean-field model of collapse: boundary, collapse times, delay against interval."""

    kappa: Real = Field(1.0, gt=0, description="Bias per drift kappa, 1 by convention.")
    nu: Real = Field(
        4e-4, gt=0, description="Noise nu that the bias is compared with, learning rate x updates."
    )
    memory: Real = Field(50.0, gt=1, le=1e6, description="Updates M that a direction persists.")
    radius: Real = Field(
        0.25, gt=0, description="Drift R at which a run has collapsed, learning rate x updates."
    )
    intervals: Annotated[list[Interval], AfterValidator(_rising)] = Field(
        [3, 5, 9, 17, 33, 65, 129],
        min_length=2,
        description="Intervals S of the boundary, updates.",
    )
    horizons: Annotated[list[Horizon], AfterValidator(_rising)] = Field(
        [500, 2000, 8000, 32_000], min_length=1, description="Horizons T of the boundary, updates."
    )
    exit_intervals: Annotated[list[Interval], AfterValidator(_rising)] = Field(
        [5, 17, 65], min_length=1, description="Intervals S of the collapse times, updates."
    )
    exit_lrs: tuple[Real, Real] = Field(
        (1e-5, 1e-2), description="Smallest and largest eta of the collapse times."
    )
    exit_points: Int = Field(61, ge=3, le=1000, description="Learning rates of the collapse times.")
    exit_horizon: Horizon = Field(
        100_000, description="Updates after which a run has not collapsed."
    )
    memories: list[Annotated[Real, Field(gt=1, le=1e6)]] = Field(
        [2.0, 5.0, 20.0, 50.0, 200.0], min_length=1, description="Memories M of equal mean lag."
    )
    delays: Annotated[list[Annotated[Int, Field(ge=1, le=1024)]], AfterValidator(_rising)] = Field(
        [1, 2, 4, 8, 16, 32],
        min_length=1,
        description="Mean lags, as delays D against intervals 2D + 1, updates.",
    )
    equal_lag_horizon: Horizon = Field(8000, description="Horizon T of equal mean lag, updates.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not 0 < self.exit_lrs[0] < self.exit_lrs[1]:
            raise ValueError("exit_lrs: must be two positive numbers, the smaller first")
        return self
