"""Settings of the estimator laboratory (`driftlaw.theory`): its problems, and one section an experiment.

Every section is one experiment; a section that is null is not run.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StrictStr, model_validator

from driftlaw.config.lab_dynamics import AsyncSgdSettings, MeanFieldSettings
from driftlaw.config.lab_problem import ProblemSettings
from driftlaw.config.section import Int, Real, Section
from driftlaw.objectives import CATALOG


def _objective(name: str) -> str:
    if name != "uncapped" and name not in CATALOG:
        raise ValueError(f"must be one of uncapped, {', '.join(CATALOG)}")
    return name


def _ascending(values: list[float]) -> list[float]:
    if any(b <= a for a, b in pairwise(values)):
        raise ValueError("must be ascending")
    return values


ObjectiveName = Annotated[StrictStr, AfterValidator(_objective)]
GroupSize = Annotated[Int, Field(ge=2, le=4096)]
Eps = Annotated[Real, Field(gt=0, le=10)]
Updates = Annotated[Int, Field(ge=0, le=100_000)]
Positive = Annotated[Real, Field(gt=0, le=1e6)]


class SamplingSettings(Section):
    """When moments are exact, and how large a sample is where they are not."""

    enumerate_up_to: Int = Field(
        10_000,
        ge=0,
        le=60_000,
        description="Most multisets of outcomes that are enumerated; beyond it groups are sampled.",
    )
    responses: Int = Field(
        40_000, ge=100, description="Sampled responses per prompt: about this / G groups."
    )
    coupled_groups: Int = Field(
        200,
        ge=20,
        description="Sampled groups per prompt of m2po, which takes one group at a time.",
    )
    blocks: Int = Field(20, ge=2, le=1000, description="Blocks of the jackknife.")
    seed: Int = Field(0, ge=0, description="Seed of the samples.")


def _kinds() -> list[ProblemSettings]:
    kinds = [
        ProblemSettings(policy=policy, reward=reward)
        for policy in ("tabular", "network")
        for reward in ("sparse", "dense", "noisy")
    ]
    return [*kinds, ProblemSettings(length=3, rewarded=6)]


class DriftSettings(Section):
    """Every objective against exact targets as the policy drifts from the behaviour policy."""

    problems: list[ProblemSettings] = Field(
        default_factory=_kinds, min_length=1, description="Problems."
    )
    lr: Real = Field(0.5, gt=0, le=1000, description="Size of an exact ascent update on J.")
    updates: list[Updates] = Field(
        [2, 8, 24, 64], min_length=1, description="Drifts: exact ascent updates from mu to pi."
    )
    eps: list[Eps] = Field([0.1, 0.2, 0.4], min_length=1, description="Cap slacks, ratios.")
    group_sizes: list[GroupSize] = Field([2, 4, 16, 64], min_length=1, description="Group sizes G.")
    objectives: list[ObjectiveName] | None = Field(
        None, description="Names; null: all, and `uncapped` trajectory weights."
    )
    sampling: SamplingSettings = Field(default_factory=SamplingSettings, description="Sampling.")


class GroupSizeSettings(Section):
    """Claim 1: the bias of a cap as the group grows."""

    problem: ProblemSettings = Field(default_factory=ProblemSettings, description="Problem.")
    lr: Real = Field(0.5, gt=0, le=1000, description="Size of an exact ascent update on J.")
    updates: list[Updates] = Field(
        [12, 28, 64], min_length=1, description="Drifts, exact ascent updates."
    )
    eps: list[Eps] = Field([0.05, 0.2], min_length=1, description="Cap slacks, ratios.")
    group_sizes: Annotated[list[GroupSize], AfterValidator(_ascending)] = Field(
        [2, 4, 8, 16, 32, 64, 128, 256, 512], min_length=2, description="Group sizes G, ascending."
    )
    objectives: list[ObjectiveName] = Field(
        ["tic_mask", "tic_truncate", "gmc", "gmc_waterfill"], min_length=1, description="Names."
    )
    sampling: SamplingSettings = Field(
        default_factory=lambda: SamplingSettings(responses=400_000), description="Sampling."
    )


class EpsilonSettings(Section):
    """Claim 2: the bias of a cap as its slack grows, for three kinds of ratios."""

    eps: Annotated[list[Eps], AfterValidator(_ascending)] = Field(
        [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8],
        min_length=3,
        description="Cap slacks of the extremal laws and of log-normal ratios, ascending.",
    )
    variances: list[Positive] = Field(
        [1e-8, 1e-6, 1e-4, 1e-2, 1.0],
        min_length=1,
        description="Var r of the extremal two-point laws.",
    )
    group_sizes: list[GroupSize] = Field(
        [2, 4, 8, 16, 32, 64, 128],
        min_length=3,
        description="Group sizes of the extremal laws, ascending.",
    )
    log_sds: list[Positive] = Field(
        [0.1, 0.3, 1.0], min_length=1, description="Standard deviations of log r, nats."
    )
    log_group_size: GroupSize = Field(8, description="G of the log-normal groups.")
    log_groups: Int = Field(200_000, ge=1000, description="Sampled log-normal groups.")
    seed: Int = Field(0, ge=0, description="Seed of the log-normal sample.")
    problem: ProblemSettings = Field(
        default_factory=lambda: ProblemSettings(prompts=1), description="Problem of the policies."
    )
    lr: Real = Field(0.5, gt=0, le=1000, description="Size of an exact ascent update on J.")
    updates: list[Updates] = Field(
        [4, 16, 48], min_length=1, description="Drifts of the policies, exact ascent updates."
    )
    group_size: GroupSize = Field(4, description="G of the policies' groups, enumerated.")
    policy_eps: Annotated[list[Eps], AfterValidator(_ascending)] = Field(
        [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28],
        min_length=3,
        description="Cap slacks of the policies, ascending.",
    )

    @model_validator(mode="after")
    def _enumerable(self) -> Self:
        self.problem.check_enumerable(self.group_size)
        return self


class SecondMomentSettings(Section):
    """Claim 3: the second moment as the policies move apart without limit."""

    problem: ProblemSettings = Field(default_factory=ProblemSettings, description="Problem.")
    group_size: GroupSize = Field(4, description="Group size G, enumerated.")
    eps: Eps = Field(0.2, description="Cap slack, a ratio.")
    objectives: list[ObjectiveName] = Field(
        [
            "uncapped",
            "grpo_noclip",
            "grpo",
            "tic_ppo",
            "tic_mask",
            "tic_truncate",
            "gmc",
            "gmc_waterfill",
        ],
        min_length=1,
        description="Names.",
    )
    lr: Real = Field(1.0, gt=0, le=1000, description="Size of an exact ascent update on J.")
    updates: list[Updates] = Field(
        [0, 8, 16, 32, 64, 128, 256, 512, 1024],
        min_length=1,
        description="Drifts along the ascent of J, exact updates.",
    )
    distances: list[Positive] = Field(
        [0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0],
        min_length=1,
        description="Drifts apart: mu and pi each moved by this length along grad J, one back, one forward.",
    )

    @model_validator(mode="after")
    def _enumerable(self) -> Self:
        self.problem.check_enumerable(self.group_size)
        return self


class CycleSettings(Section):
    """Claim 5: the bias inside a synchronisation cycle with a frozen behaviour policy."""

    problem: ProblemSettings = Field(default_factory=ProblemSettings, description="Problem.")
    group_size: GroupSize = Field(4, description="Group size G, enumerated.")
    eps: Eps = Field(0.2, description="Cap slack or clip radius, a ratio.")
    advantages: list[Literal["std", "mean"]] = Field(
        ["std", "mean"], min_length=1, description="Normalisations of advantages."
    )
    objectives: list[ObjectiveName] = Field(
        ["grpo", "grpo_noclip", "gmc", "tic_mask"], min_length=1, description="Names."
    )
    intervals: list[Annotated[Int, Field(ge=1, le=1024)]] = Field(
        [4, 16], min_length=1, description="Synchronisation intervals S, updates."
    )
    lrs: list[Positive] = Field(
        [0.01, 0.03, 0.1, 0.3, 1.0],
        min_length=1,
        description="Learning rates eta of the mean update.",
    )
    cycles: Int = Field(2, ge=1, le=100, description="Cycles; the second shows the reset.")
    fit_up_to: Real = Field(
        0.5, gt=0, description="Largest (lag x eta) of the cells that the exponent is fitted to."
    )

    @model_validator(mode="after")
    def _enumerable(self) -> Self:
        self.problem.check_enumerable(self.group_size)
        return self


class ReferenceSettings(Section):
    """Mass losses of log-normal ratios, by formula and through the objectives."""

    log_sds: list[Positive] = Field(
        [0.3, 1.0, 2.0], min_length=1, description="Standard deviations of log r, nats."
    )
    group_sizes: list[GroupSize] = Field([8, 64], min_length=1, description="Group sizes G.")
    eps: Eps = Field(0.2, description="Cap slack, a ratio.")
    responses: Int = Field(
        1_600_000, ge=1000, description="Sampled responses of each cell: this / G groups."
    )
    seed: Int = Field(0, ge=0, description="Seed of the sample.")


class LabSettings(Section):
    """The estimator laboratory: a section per experiment, null for those that are not run."""

    drift: DriftSettings | None = Field(None, description="All objectives against drift.")
    group_size: GroupSizeSettings | None = Field(None, description="Claim 1: growing groups.")
    epsilon: EpsilonSettings | None = Field(None, description="Claim 2: the cap's slack.")
    second_moment: SecondMomentSettings | None = Field(
        None, description="Claim 3: bounded second moment."
    )
    async_sgd: AsyncSgdSettings | None = Field(None, description="Claim 4: asynchronous SGD.")
    cycle: CycleSettings | None = Field(None, description="Claim 5: bias inside a cycle.")
    mean_field: MeanFieldSettings | None = Field(None, description="The mean-field model.")
    reference: ReferenceSettings | None = Field(None, description="Log-normal reference values.")

    def chosen(self) -> dict[str, Section]:
        """The sections that are run, by name."""
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: section for name, section in sections.items() if section is not None}
