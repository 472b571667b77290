"""One cell of an experiment: a pair of policies and a group size, under several objectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from driftlaw.config.lab import SamplingSettings
from driftlaw.streams import StreamName, generator
from driftlaw.theory.estimators import COUPLED, Objective
from driftlaw.theory.exact import Point
from driftlaw.theory.groups import Groups, all_groups, enumerable, sample_groups
from driftlaw.theory.measures import measures
from driftlaw.theory.moments import Targets, moments, targets

Row = dict[str, Any]
Say = Callable[[str], None]


class Cell:
    """Groups and targets are made once, and every objective is measured on the same groups.

    advantage  a normalisation for all objectives; None is each one's own
    stream     name of the sample's random numbers
    """

    def __init__(
        self,
        point: Point,
        group_size: int,
        sampling: SamplingSettings,
        stream: StreamName,
        advantage: str | None = None,
    ) -> None:
        self.point, self.group_size, self.sampling = point, group_size, sampling
        self.stream, self.advantage = stream, advantage
        self._groups: dict[str, Groups] = {}
        self._targets: dict[str, Targets] = {}
        self._rows: dict[Objective, Row] = {}

    def row(self, objective: Objective) -> Row:
        """Every measure of the objective, with its identity, the targets' norms and the sample's size.

        `eps` is NaN where the objective takes none.
        """
        if objective not in self._rows:
            self._rows[objective] = self._measure(objective)
        return dict(self._rows[objective])

    def rows(self, chosen: Sequence[Objective], **columns: Any) -> list[Row]:
        """The rows of several objectives, with `columns` before them."""
        return [columns | describe(self.point) | self.row(objective) for objective in chosen]

    def target(self, advantage: str) -> Targets:
        if advantage not in self._targets:
            self._targets[advantage] = targets(self.point, self.group_size, advantage)
        return self._targets[advantage]

    def _measure(self, objective: Objective) -> Row:
        advantage = self.advantage or objective.advantage
        groups, target = self._drawn(objective), self.target(advantage)
        found = moments(self.point, groups, objective, advantage, target)
        norms = {
            "gradient_norm": _norm(self.point.gradient),
            "on_policy_norm": _norm(self.point.to_parameters(target.on_policy)),
            "importance_norm": _norm(self.point.to_parameters(target.importance)),
        }
        return {
            "group_size": self.group_size,
            "objective": objective.name,
            "eps": float("nan") if objective.eps is None else objective.eps,
            "advantage": advantage,
            "exact": groups.exact,
            "groups": 0 if groups.exact else groups.outcome_xmg.shape[1],
            **norms,
            **measures(self.point, found, target),
        }

    def _drawn(self, objective: Objective) -> Groups:
        coupled = objective.name in COUPLED
        kind = "coupled" if coupled else "any"
        if kind not in self._groups:
            self._groups[kind] = self._draw(coupled)
        return self._groups[kind]

    def _draw(self, coupled: bool) -> Groups:
        outcomes, plan = len(self.point.problem.response_o), self.sampling
        if enumerable(outcomes, self.group_size, plan.enumerate_up_to, coupled):
            return all_groups(self.point, self.group_size, coupled)
        count = plan.coupled_groups if coupled else plan.responses // self.group_size
        count = max(count // plan.blocks, 2) * plan.blocks
        random = generator(self.stream)
        return sample_groups(self.point, self.group_size, count, plan.blocks, random)


def describe(point: Point) -> Row:
    """What says how far apart the policies are."""
    return {
        "kl": point.kl,
        "ratio_sd": point.ratio_sd,
        "largest_ratio": float(point.ratio_xy.max()),
        "reward": point.reward,
    }


def _norm(vector_d: Any) -> float:
    return float((vector_d @ vector_d) ** 0.5)
