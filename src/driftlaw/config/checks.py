"""Combinations of settings that cannot work, and files that a study names but that are not usable."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driftlaw.config.load import ConfigError
from driftlaw.config.settings import FileTask, ReasoningGymTask, RunningSumTask, RunSettings
from driftlaw.objectives.catalog import CATALOG


def check_run(settings: RunSettings, where: str, names: Mapping[str, str]) -> None:
    """ConfigError, under the key that the file uses, for the first thing that cannot work."""

    def refuse(key: str, value: Any, allowed: str) -> None:
        section = key.split(".")[0]
        raise ConfigError(where, names.get(key) or _under(names, section, key), value, allowed)

    _check_objective(settings, refuse)
    _check_sizes(settings, refuse)
    _check_files(settings, refuse)


def _under(names: Mapping[str, str], section: str, key: str) -> str:
    return names[section] + key[len(section) :] if section in names else key


def _check_objective(s: RunSettings, refuse: Any) -> None:
    o = s.objective
    if o.name not in CATALOG:
        refuse("objective.name", o.name, f"must be one of {', '.join(CATALOG)}")
    entry = CATALOG[o.name]
    for key in type(o).model_fields:
        if key != "name" and getattr(o, key) is not None and key not in entry.parameters:
            takes = ", ".join(entry.parameters)
            refuse(
                f"objective.{key}",
                getattr(o, key),
                f"not a parameter of {o.name}; allowed: {takes}",
            )
        if key in entry.own and not entry.own[key].allows(getattr(o, key)):
            refuse(f"objective.{key}", getattr(o, key), f"{entry.own[key].allowed} with {o.name}")
    if s.rollout.top_p < 1 and entry.needs_full_support and not s.rollout.allow_truncated_support:
        refuse(
            "rollout.top_p",
            s.rollout.top_p,
            f"must be 1 with {o.name}, whose analysis needs E[ratio] = 1 "
            "(or set rollout.allow_truncated_support: true)",
        )
    normalise = s.advantage.normalise or entry.advantage
    if s.rollout.group_size < 2 and normalise != "none":
        refuse(
            "rollout.group_size",
            s.rollout.group_size,
            f"must be at least 2 with advantage.normalise: {normalise}, "
            "since a group of one has advantage 0",
        )


def _check_sizes(s: RunSettings, refuse: Any) -> None:
    if s.evaluation.k > s.evaluation.n:
        refuse("evaluation.k", s.evaluation.k, f"must be at most evaluation.n = {s.evaluation.n}")
    if s.evaluation.prompts > s.task.heldout_prompts:
        allowed = f"must be at most task.heldout_prompts = {s.task.heldout_prompts}"
        refuse("evaluation.prompts", s.evaluation.prompts, allowed)
    if s.rollout.chunk_prompts > s.rollout.prompts:
        allowed = f"must be at most rollout.prompts = {s.rollout.prompts}"
        refuse("rollout.chunk_prompts", s.rollout.chunk_prompts, allowed)
    train = getattr(s.task, "train_prompts", None)
    if train is not None and s.rollout.prompts > train:
        refuse(
            "rollout.prompts", s.rollout.prompts, f"must be at most task.train_prompts = {train}"
        )
    if s.learner.warmup > s.learner.updates:
        allowed = f"must be at most learner.updates = {s.learner.updates}"
        refuse("learner.warmup", s.learner.warmup, allowed)
    b = s.base
    if b.pass_rate_low > b.pass_rate_high:
        allowed = f"must be at most base.pass_rate_high = {b.pass_rate_high}"
        refuse("base.pass_rate_low", b.pass_rate_low, allowed)
    if s.model.path is None:
        if s.model.heads % s.model.kv_heads:
            refuse("model.kv_heads", s.model.kv_heads, f"must divide model.heads = {s.model.heads}")
        if b.clean_updates + b.noisy_updates == 0 and b.pass_rate_low > 0:
            allowed = "must be at least 1 for a model built from scratch"
            refuse("base.clean_updates", b.clean_updates, allowed)
    if isinstance(s.task, RunningSumTask):
        from driftlaw.tasks.running_sum import (
            LEVELS,
            problem,
            prompt_space,
            response_tokens,
        )

        terms, digits = LEVELS[s.task.level]
        space = prompt_space(s.task.level)
        wanted = s.task.train_prompts + s.task.heldout_prompts
        if wanted > space:
            allowed = (
                f"with task.heldout_prompts = {s.task.heldout_prompts} must be at most {space}, "
                f"all prompts of {terms} terms of {digits} digit(s)"
            )
            refuse("task.train_prompts", s.task.train_prompts, allowed)
        longest = len(problem(s.task.level, 0).prompt) + s.rollout.max_tokens
        if s.model.path is None and longest > s.model.max_position:
            refuse(
                "model.max_position",
                s.model.max_position,
                f"must be at least {longest}, prompt and response",
            )
        need = response_tokens(s.task.level)
        if s.rollout.max_tokens < need:
            allowed = f"must be at least {need}, the answer of running_sum level {s.task.level}"
            refuse("rollout.max_tokens", s.rollout.max_tokens, allowed)


def _check_files(s: RunSettings, refuse: Any) -> None:
    if s.model.path is not None:
        folder = Path(s.model.path)
        if not folder.is_dir():
            refuse(
                "model.path", s.model.path, "no such folder; must be a Hugging Face model folder"
            )
        if not (folder / "config.json").is_file():
            refuse(
                "model.path",
                s.model.path,
                "holds no config.json; must be a Hugging Face model folder",
            )
    if isinstance(s.task, FileTask):
        problem = _file_problem(s.task, _stamp(s.task.path))
        if problem:
            refuse("task.path" if problem[0] == "path" else "task.heldout_prompts", *problem[1:])
    if isinstance(s.task, ReasoningGymTask):
        problem_text = _gym_problem(s.task.dataset)
        if problem_text:
            refuse("task.dataset", s.task.dataset, problem_text)
        if s.task.options:
            problem_text = _gym_options_problem(s.task.model_dump_json())
            if problem_text:
                refuse("task.options", s.task.options, problem_text)


def _stamp(path: str) -> int:
    file = Path(path)
    return file.stat().st_mtime_ns if file.exists() else 0


@functools.lru_cache(maxsize=16)
def _file_problem(task: FileTask, stamp: int) -> tuple[str, Any, str] | None:
    from driftlaw.tasks.local_file import FileFormatError, read_rows
    from driftlaw.tasks.matching import last_number

    path, heldout = task.path, task.heldout_prompts
    try:
        rows = read_rows(Path(path))
    except FileFormatError as error:
        return ("path", path, str(error))
    if task.match == "last_number":
        for row in rows:
            if last_number(row.answer) is None:
                allowed = f"the answer {row.answer!r} holds no number, which task.match: last_number needs"
                return ("path", path, allowed)
    if len(rows) <= heldout:
        allowed = f"must be less than the {len(rows)} distinct prompts of {path}"
        return ("heldout_prompts", heldout, allowed)
    return None


@functools.lru_cache(maxsize=1)
def _gym_datasets() -> frozenset[str]:
    """Names read from the package's files: importing reasoning-gym takes more than a second."""
    spec = importlib.util.find_spec("reasoning_gym")
    if spec is None or not spec.submodule_search_locations:
        return frozenset()
    root = Path(next(iter(spec.submodule_search_locations)))
    declared = re.compile(r'^DATASET_NAME = "(\w+)"', re.MULTILINE)
    return frozenset(n for f in root.glob("*/*.py") for n in declared.findall(f.read_text()))


def _gym_problem(dataset: str) -> str | None:
    names = _gym_datasets()
    if dataset in names:
        return None
    if not names:
        return "needs the package reasoning-gym"
    close = ", ".join(difflib.get_close_matches(dataset, sorted(names), n=3, cutoff=0.3))
    return f"must be one of reasoning-gym's {len(names)} data sets (close: {close})"


@functools.lru_cache(maxsize=16)
def _gym_options_problem(task: str) -> str | None:
    """What the data set itself says of its options; imports reasoning-gym, so only if there are any."""
    from driftlaw.tasks.reasoning_gym import ReasoningGym

    try:
        ReasoningGym(ReasoningGymTask.model_validate_json(task))
    except ConfigError as error:
        return error.allowed
    return None
