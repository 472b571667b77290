"""What every task speaks: problems, grades, and the protocol of a task."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Problem:
    """One prompt with its answer.

    `demonstration` is a response that solves it, without end-of-text, for supervised training;
    `entry` is what the task's own grader needs besides, as JSON text.
    """

    prompt: str
    answer: str
    demonstration: str
    entry: str = ""

    @property
    def prompt_id(self) -> str:
        """SHA-256 of the prompt's text, first 16 hex digits: disjoint sets are proved by it."""
        return hashlib.sha256(self.prompt.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Grade:
    """Score in [0, 1] of one response, and whether an answer could be found in it at all."""

    score: float
    parsed: bool


class Task(Protocol):
    """Prompts in, reward out."""

    def problems(self) -> tuple[list[Problem], list[Problem]]:
        """(training, held-out) problems: a pure function of the settings, with no prompt in both."""
        ...

    def grade(self, problem: Problem, response: str, truncated: bool) -> Grade:
        """Grade one response; a truncated one (no end-of-text within the limit) scores 0."""
        ...
