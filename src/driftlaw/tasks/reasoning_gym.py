"""Any procedural data set of the `reasoning-gym` package, scored by the package's own verifier.

Only full marks count as solved: the verifier's small consolation scores for a wrong but readable
answer would make pass@k meaningless.
"""

from __future__ import annotations

import json

from driftlaw.config.load import ConfigError
from driftlaw.config.settings import ReasoningGymTask
from driftlaw.tasks.problem import Grade, Problem


class ReasoningGym:
    """The task of `task.name: reasoning_gym`."""

    # Entries drawn per distinct prompt wanted, before a data set counts as too small.
    OVERDRAW = 20

    def __init__(self, settings: ReasoningGymTask) -> None:
        self.settings = settings
        self._dataset = self._create(size=1)

    def _create(self, size: int):  # type: ignore[no-untyped-def]  # the package is not typed
        import reasoning_gym

        s = self.settings
        try:
            return reasoning_gym.create_dataset(s.dataset, size=size, seed=s.seed, **s.options)
        except (TypeError, ValueError, AssertionError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ConfigError(
                "", "task.options", s.options, f"{s.dataset} says: {reason}"
            ) from None

    def problems(self) -> tuple[list[Problem], list[Problem]]:
        s = self.settings
        wanted = s.heldout_prompts + s.train_prompts
        found: dict[str, Problem] = {}
        dataset = self._create(size=wanted * self.OVERDRAW)
        for i in range(wanted * self.OVERDRAW):
            entry = dataset[i]
            prompt, answer = f"{entry['question']}\n", str(entry["answer"])
            if prompt not in found:
                text = json.dumps(entry, sort_keys=True, default=str)
                found[prompt] = Problem(prompt, answer, answer, text)
            if len(found) == wanted:
                break
        else:
            allowed = (
                f"with held-out prompts must be at most {len(found)}, all that {s.dataset} gives"
            )
            raise ConfigError("", "task.train_prompts", s.train_prompts, allowed)
        made = list(found.values())
        return made[s.heldout_prompts :], made[: s.heldout_prompts]

    def grade(self, problem: Problem, response: str, truncated: bool) -> Grade:
        text = response.strip()
        if truncated or not text:
            return Grade(0.0, False)
        score = self._dataset.score_answer(text, json.loads(problem.entry))
        return Grade(float(score >= 1.0), True)
