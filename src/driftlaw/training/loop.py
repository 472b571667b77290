"""The training loop: with n updates done, sample what the schedule allows, take update n, repeat.

    for every t with v(t) = n that is not yet sampled: generate and grade cohort t with version n
    take cohort n from the queue -> objective -> one optimizer update -> one ledger row
    evaluate and check for collapse at the declared ordinals -> checkpoint when due

A batch is sampled as soon as its version exists, which is also the only moment when the weights of
that version are in memory: the queue holds at most D + I batches, and never a second set of weights.
Nothing is dropped and every sample is used once; the ledger's counts close.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from driftlaw.config.settings import RunSettings
from driftlaw.evaluation.heldout import evaluate
from driftlaw.laws.collapse import CollapseEvent, CollapseRule, find_collapse
from driftlaw.learner import checkpoint
from driftlaw.learner.update import Learner
from driftlaw.models.text import Text
from driftlaw.objectives.catalog import CATALOG, CLAMP
from driftlaw.rollout.protocol import NonFinitePolicy
from driftlaw.rollout.torch_engine import TorchEngine
from driftlaw.schedule import Schedule
from driftlaw.tasks import Problem, Task
from driftlaw.training import rows
from driftlaw.training.cohorts import Cohort, advantages, generate_cohort, grade_cohort
from driftlaw.training.run_folder import RunFolder


@dataclass(frozen=True)
class World:
    """What a run trains in: problems, their token ids, task and tokenizer."""

    train: Sequence[Problem]
    train_ids: Sequence[Sequence[int]]
    heldout: Sequence[Problem]
    heldout_ids: Sequence[Sequence[int]]
    task: Task
    text: Text


@dataclass
class Outcome:
    """How the loop ended. `collapse_update` is None unless the run collapsed."""

    updates: int
    collapse_update: int | None
    reason: str
    interrupted: bool = False


@dataclass
class _State:
    """Everything besides weights and moments that the next update depends on."""

    updates: int = 0
    generated: int = 0
    consumed: int = 0
    next_cohort: int = 0
    queue: dict[int, Cohort] = field(default_factory=dict)
    curve_updates: list[int] = field(default_factory=list)
    curve_scores: list[float] = field(default_factory=list)
    detected_at: int | None = None
    resumed: int = 0


class Loop:
    """One run, from where its folder stands."""

    def __init__(
        self,
        settings: RunSettings,
        world: World,
        learner: Learner,
        engine: TorchEngine,
        evaluator: TorchEngine,
        folder: RunFolder,
        say: Callable[[str], None],
    ) -> None:
        self.settings, self.world, self.folder, self.say = settings, world, folder, say
        self.learner, self.engine, self.evaluator = learner, engine, evaluator
        self.schedule = Schedule(settings.schedule.delay, settings.schedule.interval)
        c = settings.collapse
        self.rule = CollapseRule(c.fraction, c.floor, c.consecutive)
        # null in the settings is the objective's default.
        self.normalise = settings.advantage.normalise or CATALOG[settings.objective.name].advantage
        self.clamp = settings.objective.clamp or float(CLAMP.default or 0)
        self.state = _State()
        self.rows: dict[str, list[Mapping[str, Any]]] = {}
        self.saved_at = 0
        self.started_unix_s, self.started_at_update = time.time(), 0
        self._clear_rows()

    def run(
        self, stop_at: int, interrupted: Callable[[], bool], tick: Callable[[int], None]
    ) -> Outcome:
        """Train to `stop_at` updates, a collapse, or an interruption (which leaves a checkpoint)."""
        self._restore()
        state = self.state
        try:
            if not state.curve_updates:
                self._evaluate(timing={})
            while state.updates < stop_at:
                if self._stop_after_collapse():
                    break
                if interrupted():
                    self._save()
                    return Outcome(state.updates, None, "interrupted", interrupted=True)
                if not self._one_update():
                    return self._not_finite("non-finite loss or gradient")
                tick(state.updates)
                self._tell()
                if state.updates % self.settings.learner.checkpoint_every == 0:
                    self._save()
        except NonFinitePolicy as error:
            return self._not_finite(str(error))
        event = self._collapse()
        if event is None:
            return self._ended(None, "reached the horizon" if state.updates == stop_at else "")
        return self._ended(event.update, self._why(event))

    def _not_finite(self, what: str) -> Outcome:
        """A collapse at this update, unless the rule has seen one before.

        No checkpoint: nothing can go on from here, and a start after a kill must go through the event
        again, from the last healthy checkpoint, to end the same.
        """
        event, done = self._collapse(), self.state.updates
        reason = f"{what} at update {done}"
        self._write_parts(done + 1)  # past every checkpoint: such a start drops them
        if event is not None:
            return Outcome(done, event.update, f"{self._why(event)}; then {reason}")
        # Collapse times are positive: a run that is not finite at once collapsed in its first update.
        return Outcome(done, max(1, done), reason)

    def _why(self, event: CollapseEvent) -> str:
        return (
            f"held-out score {event.score:.3f} below {self.rule.fraction:g} of its best "
            f"{event.best:.3f} for {self.rule.consecutive} evaluations"
        )

    def _ended(self, collapse_update: int | None, reason: str) -> Outcome:
        self._save()
        return Outcome(self.state.updates, collapse_update, reason)

    def _one_update(self) -> bool:
        """Sample what is due, take the next update; False if it was not finite."""
        state, settings, world = self.state, self.settings, self.world
        t = state.updates
        timing = {"sampling_s": 0.0, "grading_s": 0.0}
        self._fill(timing)
        started = time.perf_counter()
        cohort = state.queue.pop(t)
        assert cohort.update == t and cohort.version == self.schedule.version(t)
        advantage_n = advantages(
            cohort.reward, settings.rollout.group_size, self.normalise, settings.advantage.delta
        )
        record = self.learner.update(
            t,
            [world.train_ids[i] for i in cohort.problem],
            torch.from_numpy(cohort.response),
            torch.from_numpy(cohort.behaviour_logp),
            cohort.mask(),
            torch.from_numpy(advantage_n).float(),
            settings.rollout.group_size,
        )
        state.consumed += len(cohort.reward)
        timing["learning_s"] = time.perf_counter() - started
        counts = {
            "generated": state.generated,
            "consumed": state.consumed,
            "pending_batches": len(state.queue),
        }
        self.rows["ledger"].append(
            rows.ledger_row(cohort, record, settings.rollout.group_size, self.clamp, counts)
        )
        if settings.rollout.keep_samples:
            self.rows["samples"].extend(
                rows.sample_rows(cohort, advantage_n, settings.rollout.group_size, world.train)
            )
        if record.applied:
            state.updates = self.engine.version = self.evaluator.version = t + 1
            every, horizon = settings.evaluation.every, settings.learner.updates
            if state.updates % every == 0 or state.updates == horizon:
                self._evaluate(timing)
        self.rows["timing"].append(rows.timing_row(t, timing))
        return record.applied

    def _fill(self, timing: dict[str, float]) -> None:
        """Sample every cohort whose version is the one in memory."""
        state, settings, world = self.state, self.settings, self.world
        last = min(self.schedule.last_ready(state.updates), settings.learner.updates - 1)
        while state.next_cohort <= last:
            t = state.next_cohort
            started = time.perf_counter()
            problem_rows, samples = generate_cohort(
                self.engine,
                t,
                self.schedule.version(t),
                settings.seed,
                settings.rollout,
                world.train,
                world.train_ids,
                world.text.pad_id,
            )
            sampled = time.perf_counter()
            texts = world.text.decode(samples)
            state.queue[t] = grade_cohort(t, problem_rows, samples, texts, world.train, world.task)
            state.generated += len(problem_rows)
            state.next_cohort += 1
            timing["sampling_s"] += sampled - started
            timing["grading_s"] += time.perf_counter() - sampled

    def _evaluate(self, timing: dict[str, float]) -> None:
        started = time.perf_counter()
        state, world = self.state, self.world
        point = evaluate(
            self.evaluator,
            state.updates,
            world.heldout,
            world.heldout_ids,
            world.task,
            world.text.decode,
            self.settings.evaluation,
        )
        self.rows["eval"].append(point.row())
        state.curve_updates.append(point.update)
        state.curve_scores.append(point.avg_at_k)
        timing["evaluation_s"] = time.perf_counter() - started
        event = self._collapse()
        if event is not None and state.detected_at is None:
            state.detected_at = point.update
            self.say(f"collapse seen at update {point.update} (since update {event.update})")
        self.say(f"update {point.update}: held-out {point.avg_at_k:.3f} ± {point.se:.3f}")

    def _collapse(self) -> CollapseEvent | None:
        return find_collapse(self.state.curve_updates, self.state.curve_scores, self.rule)

    def _stop_after_collapse(self) -> bool:
        stop_after = self.settings.collapse.stop_after
        detected = self.state.detected_at
        return (
            stop_after is not None
            and detected is not None
            and (self.state.updates >= detected + stop_after)
        )

    def _tell(self) -> None:
        state, settings = self.state, self.settings
        self.folder.progress(
            {
                "updates": state.updates,
                "horizon": settings.learner.updates,
                "score": state.curve_scores[-1] if state.curve_scores else None,
                "started_unix_s": self.started_unix_s,
                "started_at_update": self.started_at_update,
            }
        )

    # -- checkpoints ------------------------------------------------------------------------------

    def _clear_rows(self) -> None:
        self.rows = {name: [] for name in ("ledger", "eval", "samples", "timing")}

    def _save(self) -> None:
        """Parts first, then the checkpoint that counts them."""
        state = self.state
        if state.updates == self.saved_at and not any(self.rows.values()):
            return
        self._write_parts(state.updates)
        pending: dict[str, torch.Tensor] = {}
        for cohort in state.queue.values():
            pending |= cohort.tensors()
        checkpoint.save(
            self.folder.checkpoints,
            state.updates,
            self.learner.model,
            self.learner.optimizer,
            pending,
            self.learner.previous_gradient,
            {
                "generated": state.generated,
                "consumed": state.consumed,
                "next_cohort": state.next_cohort,
                "queue": sorted(state.queue),
                "curve_updates": state.curve_updates,
                "curve_scores": state.curve_scores,
                "detected_at": state.detected_at,
                "resumed": state.resumed,
            },
        )
        self.saved_at = state.updates
        self._clear_rows()

    def _write_parts(self, last: int) -> None:
        for name, part in self.rows.items():
            self.folder.write_part(name, self.saved_at, last, part)

    def _restore(self) -> None:
        found = checkpoint.load(self.folder.checkpoints, self.learner.model, self.learner.optimizer)
        self.folder.drop_parts_after(found.updates if found else -1)
        if found:
            queue = found.state.pop("queue")
            cohorts = {t: Cohort.from_tensors(found.pending, t) for t in queue}
            self.state = _State(updates=found.updates, queue=cohorts, **found.state)
            self.state.resumed += 1
            self.learner.previous_gradient = found.gradient
            self.saved_at = found.updates
            self.engine.version = self.evaluator.version = found.updates
            self.say(f"resumed with {found.updates} updates done")
        self.started_unix_s, self.started_at_update = time.time(), self.state.updates
