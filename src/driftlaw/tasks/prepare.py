"""`driftlaw data`: a task's prompts as Parquet, with hashes that prove what they are.

<out>/train.parquet  heldout.parquet   prompt_id, prompt, answer, demonstration, entry
<out>/manifest.json                    counts, content hash of each file, proof of disjointness
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from driftlaw.config.settings import FileTask, ReasoningGymTask, RunningSumTask
from driftlaw.files import read_json, read_table, remove, write_json, write_table
from driftlaw.tasks import Problem, build

COLUMNS = ("prompt_id", "prompt", "answer", "demonstration", "entry")


def prepare(settings: RunningSumTask | ReasoningGymTask | FileTask, out: Path) -> dict[str, Any]:
    """Write the prompt sets of a task to `out`; returns the manifest."""
    train, heldout = build(settings).problems()
    shared = {p.prompt_id for p in train} & {p.prompt_id for p in heldout}
    if shared:
        raise RuntimeError(
            f"{len(shared)} prompts are both in training and held out: {sorted(shared)[:3]}"
        )
    remove(out / "manifest.json")  # written last: a folder without it is not finished
    for name, problems in (("train", train), ("heldout", heldout)):
        _write(out / f"{name}.parquet", problems)
    manifest = {
        "task": settings.model_dump(mode="json"),
        "train_prompts": len(train),
        "heldout_prompts": len(heldout),
        "shared_prompts": len(shared),
        "train_sha256": prompt_hash(train),
        "heldout_sha256": prompt_hash(heldout),
        "hash": hashlib.sha256((prompt_hash(train) + prompt_hash(heldout)).encode()).hexdigest(),
    }
    write_json(out / "manifest.json", manifest)
    return manifest


def prompt_hash(problems: Sequence[Problem]) -> str:
    """SHA-256 over the problems in order, independent of the file format."""
    whole = hashlib.sha256()
    for p in problems:
        whole.update("\0".join((p.prompt, p.answer, p.demonstration, p.entry)).encode() + b"\n")
    return whole.hexdigest()


def load_problems(folder: Path) -> tuple[list[Problem], list[Problem], str]:
    """(training, held-out, data hash) of a folder that `prepare` wrote."""
    return _read(folder / "train.parquet"), _read(folder / "heldout.parquet"), data_hash(folder)


def data_hash(folder: Path) -> str:
    return str(read_json(folder / "manifest.json")["hash"])


def _write(path: Path, problems: Sequence[Problem]) -> None:
    import pyarrow as pa

    columns = {name: [getattr(p, name) for p in problems] for name in COLUMNS}
    write_table(
        path, pa.table(columns, schema=pa.schema([(name, pa.string()) for name in COLUMNS]))
    )


def _read(path: Path) -> list[Problem]:
    return [
        Problem(row["prompt"], row["answer"], row["demonstration"], row["entry"])
        for row in read_table(path).to_pylist()
    ]
