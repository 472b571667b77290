"""Small studies for tests of the loop: seconds on one core, and every code path of a real run."""

from __future__ import annotations

import functools
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from driftlaw.config.load import merge, nested
from driftlaw.config.study import Run, load_study
from driftlaw.files import read_table
from driftlaw.models.base import make_base
from driftlaw.tasks.prepare import prepare
from driftlaw.training.train import train

SMALL: dict[str, Any] = {
    "study": "small",
    "task": {"name": "running_sum", "level": 1, "train_prompts": 60, "heldout_prompts": 12},
    "model": {"layers": 1, "hidden_size": 32, "intermediate_size": 32, "heads": 2, "kv_heads": 1},
    "base": {
        "clean_updates": 200,
        "noisy_updates": 0,
        "batch": 64,
        "lr": 1e-2,
        "pass_rate_low": 0,
        "pass_rate_high": 1,
    },
    "learner": {"lr": 1e-3, "updates": 13, "checkpoint_every": 3},
    "rollout": {"prompts": 4, "group_size": 4, "chunk_prompts": 2, "max_tokens": 4},
    "evaluation": {"every": 4, "prompts": 12, "n": 2, "k": 2},
    "collapse": {"floor": 1.0},
}
OUTPUTS = ("ledger.parquet", "samples.parquet", "eval.parquet", "model/model.safetensors")


def small_run(**dotted: Any) -> Run:
    """The one run of the small study; `schedule__delay=3` sets `schedule.delay`."""
    data = SMALL
    for key, value in dotted.items():
        data = merge(data, nested(key.replace("__", "."), value))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.yaml"
        path.write_text(yaml.safe_dump(data))
        return load_study(path).run(None)


@functools.cache
def inputs(run_base_id: str, run: Callable[[], Run]) -> tuple[Path, Path]:
    folder = Path(tempfile.mkdtemp(prefix="driftlaw-test-"))
    chosen = run()
    prepare(chosen.settings.task, folder / "data")
    make_base(chosen.settings, folder / "data", folder / "base", lambda _: None)
    return folder / "data", folder / "base"


def inputs_of(run: Run) -> tuple[Path, Path]:
    """Prompt set and base policy of a run, made once a test process."""
    return inputs(run.base_id, _Same(run))


class _Same:
    """A run as a cache key that is equal for equal base policies."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __call__(self) -> Run:
        return self.run

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.run.base_id == self.run.base_id

    def __hash__(self) -> int:
        return hash(self.run.base_id)


def finish(run: Run, out: Path, **options: Any) -> dict[str, Any]:
    """Train a run in this process to its end; the manifest. Checks that the ledger closes."""
    data_dir, base_dir = inputs_of(run)
    options.setdefault("say", lambda _: None)
    manifest = train(run, "small", out, data_dir=data_dir, base_dir=base_dir, **options)
    check_ledger_closes(run, out, manifest)
    return manifest


def check_ledger_closes(run: Run, out: Path, manifest: dict[str, Any]) -> None:
    """Generated = consumed + pending, and every sample of every update is consumed exactly once."""
    s, counts = run.settings, manifest["samples"]
    assert counts["generated"] == counts["consumed"] + counts["pending"]
    updates = read_table(out / "ledger.parquet")["update"].to_pylist()
    assert updates == list(range(len(updates)))
    assert counts["consumed"] == len(updates) * s.rollout.prompts * s.rollout.group_size
    if manifest["status"] == "stable":
        assert counts["pending"] == 0 and len(updates) == s.learner.updates
    if s.rollout.keep_samples:
        table = read_table(out / "samples.parquet")
        keys = list(
            zip(*(table[c].to_pylist() for c in ("update", "place", "sample")), strict=True)
        )
        assert sorted(keys) == [
            (t, p, j)
            for t in updates
            for p in range(s.rollout.prompts)
            for j in range(s.rollout.group_size)
        ]


def output_bytes(out: Path) -> dict[str, bytes]:
    """Content of everything that equal runs must have equal."""
    return {name: (out / name).read_bytes() for name in OUTPUTS}


def killed_child(run: Run, out: Path, arm: Callable[[], None]) -> bool:
    """Train in a forked child after calling `arm` there; True if the child was killed by SIGKILL."""
    inputs_of(run)  # made once, in the parent
    child = os.fork()
    if child == 0:
        try:
            arm()
            finish(run, out)
            os._exit(0)
        except BaseException:  # whatever it is, the child must not return into pytest
            import traceback

            traceback.print_exc()
            os._exit(99)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the child failed; its traceback is above"
    return False
