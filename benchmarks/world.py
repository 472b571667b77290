"""The small worlds that are measured: study files, inputs, and a training loop ready to step."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# Smoke's world, with a base policy of a few updates: it knows the format and little else, so that
# some response of every batch runs to max_tokens, the slowest case. Its pass rate does not matter.
STUDY: Mapping[str, Any] = {
    "study": "bench",
    "task": {"name": "running_sum", "level": 2, "train_prompts": 4096, "heldout_prompts": 128},
    "model": {"architecture": "qwen3", "layers": 2, "hidden_size": 64, "head_dim": 32},
    "base": {
        "clean_updates": 60,
        "noisy_updates": 0,
        "batch": 64,
        "lr": 5.0e-3,
        "pass_rate_low": 0,
        "pass_rate_high": 1,
    },
    "objective": {"name": "gmc"},
    "learner": {"lr": 1.0e-4, "updates": 100_000, "checkpoint_every": 100_000},
    "rollout": {"prompts": 16, "group_size": 8, "chunk_prompts": 16, "max_tokens": 6},
    "evaluation": {"every": 100_000, "prompts": 128, "n": 4, "k": 2},
}


def study(**changes: Mapping[str, Any]) -> dict[str, Any]:
    """STUDY with the keys of some sections changed."""
    made = copy.deepcopy(dict(STUDY))
    for section, values in changes.items():
        made[section] = {**made.get(section, {}), **values} if isinstance(values, dict) else values
    return made


def write_study(path: Path, content: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")  # JSON is YAML
    return path


def build_loop(file: Path, folder: Path) -> Any:
    """The training loop of a study of one run, its inputs made in `folder` if they are missing."""
    from driftlaw.config.study import load_study
    from driftlaw.training.run_folder import RunFolder
    from driftlaw.training.train import _build_loop, prepare_inputs

    run = load_study(file).runs[0]
    inputs = make_inputs(run, folder)
    quiet = RunFolder(folder / "run")
    data_dir, base_dir = prepare_inputs(run, *inputs, say=lambda message: None)
    loop, _ = _build_loop(run.settings, data_dir, base_dir, quiet, lambda message: None)
    return loop


def make_inputs(run: Any, folder: Path) -> tuple[Path, Path]:
    """(prompt set, base policy) of a run, where `driftlaw` started in `folder` finds them."""
    from driftlaw import layout
    from driftlaw.tasks.prepare import prepare
    from driftlaw.training.train import prepare_base

    data_dir = folder / layout.data_dir(run.data_id)
    base_dir = folder / layout.base_dir(run.base_id)
    if not (data_dir / "manifest.json").exists():
        prepare(run.settings.task, data_dir)
    prepare_base(run, data_dir, base_dir, lambda message: None)
    return data_dir, base_dir


def environment() -> dict[str, str]:
    """Children run this checkout's code, on one thread, without a study left in the environment."""
    inherited = {k: v for k, v in os.environ.items() if k != "DRIFTLAW_CONFIG"}
    path = os.pathsep.join(p for p in (str(ROOT / "src"), inherited.get("PYTHONPATH")) if p)
    # The workflow's jobs call `python`: this one, even where its environment is not activated.
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return inherited | {"PYTHONPATH": path, "PATH": programs, "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Ran:
    """A child process that has ended: exit code, wall and processor seconds, what it wrote."""

    code: int
    started_unix_s: float
    wall_s: float
    cpu_s: float
    output: str
    errors: str

    def trouble(self) -> str | None:
        """Why it failed, in a line; None if it did not."""
        if self.code == 0:
            return None
        lines = self.errors.strip().splitlines() or ["no message"]
        return f"exit code {self.code}: {lines[-1][:200]}"


def child(command: Sequence[str], cwd: Path, timeout_s: float = 3600) -> Ran:
    """Run a command to its end in `cwd`."""
    before = os.times()
    started, clock = time.time(), time.perf_counter()
    done = subprocess.run(
        list(command), cwd=cwd, env=environment(), capture_output=True, text=True, timeout=timeout_s
    )
    wall = time.perf_counter() - clock
    after = os.times()
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return Ran(done.returncode, started, wall, cpu, done.stdout, done.stderr)


def driftlaw(*words: str) -> list[str]:
    return [sys.executable, "-m", "driftlaw", *words]


def snakemake(*words: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), *words]
