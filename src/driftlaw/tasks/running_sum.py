"""Sums answered by running sums: `37+05+88=` is answered `042,130`.

Characters are tokens; every number of a level has the same width, so prompts of a level have one
length. The answer is the last number, exact match. Small enough that a policy of 100 k parameters
learns it in a minute, and long enough that a response's importance ratio is a product of several.
"""

from __future__ import annotations

import random

from driftlaw.config.settings import RunningSumTask
from driftlaw.tasks.matching import last_number
from driftlaw.tasks.problem import Grade, Problem

# level -> (terms, digits of a term)
LEVELS = {1: (2, 1), 2: (2, 2), 3: (3, 2), 4: (4, 2), 5: (4, 3)}


def prompt_space(level: int) -> int:
    """How many distinct prompts a level has."""
    terms, digits = LEVELS[level]
    return int(10 ** (terms * digits))


def response_tokens(level: int) -> int:
    """Length of a right response in tokens, end-of-text included."""
    terms, digits = LEVELS[level]
    return (terms - 1) * (digits + 1) + (terms - 2) + 1


def problem(level: int, index: int) -> Problem:
    """Problem number `index` (0 <= index < prompt_space(level)) of a level."""
    terms, digits = LEVELS[level]
    numbers = [(index // 10 ** (digits * i)) % 10**digits for i in reversed(range(terms))]
    partial = [sum(numbers[: i + 1]) for i in range(1, terms)]
    return Problem(
        prompt="+".join(f"{n:0{digits}d}" for n in numbers) + "=",
        answer=str(partial[-1]),
        demonstration=",".join(f"{s:0{digits + 1}d}" for s in partial),
    )


class RunningSum:
    """The task of `task.name: running_sum`."""

    def __init__(self, settings: RunningSumTask) -> None:
        self.settings = settings

    def problems(self) -> tuple[list[Problem], list[Problem]]:
        s = self.settings
        chosen = random.Random(f"running_sum/{s.level}/{s.seed}").sample(
            range(prompt_space(s.level)), s.heldout_prompts + s.train_prompts
        )
        made = [problem(s.level, index) for index in chosen]
        return made[s.heldout_prompts :], made[: s.heldout_prompts]

    def grade(self, problem: Problem, response: str, truncated: bool) -> Grade:
        number = None if truncated else last_number(response)
        return Grade(
            float(number is not None and number == int(problem.answer)), number is not None
        )
