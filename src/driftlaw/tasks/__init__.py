"""Tasks: prompts in, reward out. `build(settings)` gives the task that a study names."""

from __future__ import annotations

from driftlaw.config.settings import FileTask, ReasoningGymTask, RunningSumTask
from driftlaw.tasks.problem import Grade, Problem, Task

__all__ = ["Grade", "Problem", "Task", "build"]


def build(settings: RunningSumTask | ReasoningGymTask | FileTask) -> Task:
    """The task of a study. A new task is one file with these three methods, and one line here."""
    if isinstance(settings, RunningSumTask):
        from driftlaw.tasks.running_sum import RunningSum

        return RunningSum(settings)
    if isinstance(settings, ReasoningGymTask):
        from driftlaw.tasks.reasoning_gym import ReasoningGym

        return ReasoningGym(settings)
    from driftlaw.tasks.local_file import LocalFile

    return LocalFile(settings)
