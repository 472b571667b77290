"""A study's runs: the grid expanded, each run named by what it is.

A run's identity is the hash of everything that can change its bytes: its resolved settings and the
contents of the files they name. `learner.checkpoint_every` is left out, since resume is bit-exact.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftlaw.config.checks import check_run
from driftlaw.config.load import NOTHING, ConfigError, merge, nested, parse, read_yaml
from driftlaw.config.settings import RunSettings, Sections, Study
from driftlaw.objectives.catalog import CATALOG


@dataclass(frozen=True)
class Run:
    """One run of a study: its settings and the names of everything it needs."""

    settings: RunSettings

    @functools.cached_property
    def data_id(self) -> str:
        """Name of the prompt set: task and the content of its file."""
        task = self.settings.task
        level = getattr(task, "level", None)
        label = getattr(task, "dataset", task.name) + ("" if level is None else f"-l{level}")
        return f"{label.replace('_', '-')}-{digest(_task_identity(self.settings))}"

    @functools.cached_property
    def base_id(self) -> str:
        """Name of the base policy: prompt set, model and supervised training."""
        label = Path(self.settings.model.path).name if self.settings.model.path else None
        return (
            f"{label or self.settings.model.architecture}-{digest(_base_identity(self.settings))}"
        )

    @functools.cached_property
    def run_id(self) -> str:
        """Human-readable name with the hash of the run's identity."""
        s = self.settings
        return (
            f"{s.objective.name}-D{s.schedule.delay}-I{s.schedule.interval}"
            f"-lr{s.learner.lr:g}-s{s.seed}-{digest(self.identity)}"
        )

    @functools.cached_property
    def identity(self) -> dict[str, Any]:
        """All that determines the run's bytes, as JSON-ready values."""
        settings = self.settings.model_dump(mode="json")
        del settings["learner"]["checkpoint_every"]
        return {"settings": settings, "base": _base_identity(self.settings)}


@dataclass(frozen=True)
class LoadedStudy:
    """A study file read, checked and expanded."""

    where: str
    settings: Study
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        return self.settings.study

    def run(self, run_id: str | None) -> Run:
        """The run of that name; the only one when no name is given. ConfigError otherwise."""
        if run_id is None:
            if len(self.runs) == 1:
                return self.runs[0]
            raise ConfigError(
                self.where,
                "--run",
                NOTHING,
                f"the study has {len(self.runs)} runs; name one of them",
            )
        found = [r for r in self.runs if r.run_id == run_id]
        if not found:
            some = ", ".join(r.run_id for r in self.runs[:3])
            raise ConfigError(
                self.where, "--run", run_id, f"no such run among {len(self.runs)}: {some}, ..."
            )
        return found[0]

    def with_id(self, kind: str, name: str | None) -> Run:
        """A run whose `data_id` or `base_id` is `name`; the only one when no name is given."""
        known = {getattr(r, f"{kind}_id"): r for r in reversed(self.runs)}
        if name is None and len(known) == 1:
            return next(iter(known.values()))
        if name not in known:
            raise ConfigError(self.where, f"--{kind}", name, f"must be one of {', '.join(known)}")
        return known[name]


def load_study(
    paths: str | Path | Sequence[str | Path], overrides: Mapping[str, Any] | None = None
) -> LoadedStudy:
    """Read study files (later ones laid over earlier ones), check everything, expand the grid."""
    files = [paths] if isinstance(paths, (str, Path)) else list(paths)
    where = ", ".join(str(f) for f in files)
    data: dict[str, Any] = {}
    for file in files:
        data = merge(data, read_yaml(file))
    study: Study = parse(Study, merge(data, overrides or {}), where)
    check_run(RunSettings(**_sections(study), seed=(study.seeds or [0])[0]), where, {})
    if not study.seeds and study.lab is None:
        raise ConfigError(
            where, "seeds", [], "must have at least 1 seed in a study without a `lab`"
        )
    runs: dict[str, Run] = {}
    for settings in _expand(study, where):
        run = Run(settings)
        runs.setdefault(run.run_id, run)
    return LoadedStudy(where, study, tuple(runs.values()))


def _sections(study: Study) -> dict[str, Any]:
    return {name: getattr(study, name) for name in Sections.model_fields}


def _expand(study: Study, where: str) -> list[RunSettings]:
    """Every run of the grid, in the order of the file."""
    root = {k: v.model_dump(exclude_unset=True) for k, v in _sections(study).items()}
    if "task" in root:
        root["task"]["name"] = study.task.name
    out: list[RunSettings] = []
    for i, block in enumerate(study.grid or [{}]):
        label = f"grid[{i}]"
        axes = {k: v if isinstance(v, list) else [v] for k, v in block.items() if k != "name"}
        seeds = axes.pop("seeds", study.seeds)
        for key, values in axes.items():
            if not values:
                raise ConfigError(where, f"{label}.{key}", values, "must have at least 1 value")
            if key == "seed":
                raise ConfigError(where, f"{label}.seed", values, "is called `seeds` in a grid")
        for combination in itertools.product(*axes.values()):
            chosen = dict(zip(axes, combination, strict=True))
            for seed in seeds:
                out.append(_one(root, chosen, seed, where, label))
    return out


def _one(
    root: dict[str, Any], chosen: dict[str, Any], seed: Any, where: str, label: str
) -> RunSettings:
    """The settings of one cell."""
    data = merge(_inherited(root, chosen), {"seed": seed})
    for key, value in chosen.items():
        if key.split(".")[0] not in Sections.model_fields:
            allowed = ", ".join(["seeds", *(f"{s}.*" for s in Sections.model_fields)])
            raise ConfigError(where, f"{label}.{key}", value, f"unknown key; allowed: {allowed}")
        data = merge(data, nested(key, value))
    names = {key: f"{label}.{key}" for key in chosen} | {"seed": f"{label}.seeds"}
    settings: RunSettings = parse(RunSettings, data, where, names)
    check_run(settings, where, names)
    return settings


def _inherited(root: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    """The root's settings as a cell inherits them.

    Where the cell names another objective, the root's parameters that it does not take are left
    behind; where it names another task, all of the root's task settings are.
    """
    data = dict(root)
    objective = _named(chosen, "objective")
    if objective in CATALOG and "objective" in data:
        takes = CATALOG[objective].parameters
        data["objective"] = {
            k: v for k, v in data["objective"].items() if k == "name" or k in takes
        }
    task = _named(chosen, "task")
    if task is not None and task != data.get("task", {}).get("name"):
        data["task"] = {}
    return data


def _named(chosen: dict[str, Any], section: str) -> Any:
    whole = chosen.get(section)
    return whole.get("name") if isinstance(whole, dict) else chosen.get(f"{section}.name")


def digest(value: Any, length: int = 10) -> str:
    """Short hash of JSON-ready values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _task_identity(settings: RunSettings) -> dict[str, Any]:
    task = settings.task.model_dump(mode="json")
    if "path" in task:
        task["path"] = content_hash(Path(task["path"]))
    return task


def _base_identity(settings: RunSettings) -> dict[str, Any]:
    model = settings.model.model_dump(mode="json")
    if settings.model.path:
        model = {"content": content_hash(Path(settings.model.path))}
    # The pass rate that ends the noisy phase is measured with the study's own response length.
    return {
        "task": _task_identity(settings),
        "model": model,
        "base": settings.base.model_dump(mode="json"),
        "max_tokens": settings.rollout.max_tokens,
        "threads": settings.learner.threads,
    }


@functools.lru_cache(maxsize=64)
def _hash_file(path: str, size: int, mtime_ns: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(path: Path) -> str:
    """SHA-256 of a file's content, or of the names and contents of a folder's files."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    whole = hashlib.sha256()
    for file in files:
        stat = file.stat()
        name = "" if path.is_file() else file.relative_to(path).as_posix()
        whole.update(f"{name}\0{_hash_file(str(file), stat.st_size, stat.st_mtime_ns)}\n".encode())
    return whole.hexdigest()
