"""One update of the tiny model, by the loop's own path: sampling, grading, learning, rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from record import Item
from world import build_loop, study, write_study

LIMIT_MS = 130.0
WARM_UP, UPDATES_A_REPEAT, ROWS_KEPT = 5, 20, 25
MAX_TOKENS = {2: 6, 3: 8}  # by level; level 3's right answers have 8 tokens
WRAPPED = ("ratio_statistics", "ledger_row", "sample_rows")  # of driftlaw.training.rows
PARTS = ("sampling", "grading", "learning", "statistics", "rows", "rest")


def measure(folder: Path, repeats: int) -> Iterator[Item]:
    """16 prompts x 8 responses on one core, levels 2 and 3; no checkpoints and no evaluations."""
    for level, max_tokens in MAX_TOKENS.items():
        content = study(task={"level": level}, rollout={"max_tokens": max_tokens})
        loop = build_loop(write_study(folder / f"update-{level}.yaml", content), folder)
        yield from _items(f"update_level{level}", loop, UPDATES_A_REPEAT * repeats)


def _items(name: str, loop: Any, updates: int) -> Iterator[Item]:
    samples, cpu, parts = steps(loop, updates)
    cohort_rows = loop.rows["samples"]
    lengths = [len(row["tokens"]) for row in cohort_rows]
    settings = loop.settings
    detail = {
        "prompts": settings.rollout.prompts,
        "group_size": settings.rollout.group_size,
        "prompt_tokens": len(loop.world.train_ids[0]),
        "max_tokens": settings.rollout.max_tokens,
        "response_tokens_mean": sum(lengths) / len(lengths),
        "parameters": sum(p.numel() for p in loop.learner.model.parameters()),
    }
    what = f"one update, 16 prompts x 8 responses, running_sum level {settings.task.level}"
    yield Item(name, what, "ms", samples, LIMIT_MS, cpu, detail)
    for part in PARTS:
        yield Item(f"{name}.{part}", f"{what}: {part}", "ms", parts[part])


def steps(loop: Any, updates: int) -> tuple[list[float], list[float], dict[str, list[float]]]:
    """(wall ms, processor ms, wall ms by part) of each of `updates` updates after a warm-up."""
    from driftlaw.training import rows

    clock = _Clock()
    plain = {name: getattr(rows, name) for name in WRAPPED}
    for name, function in plain.items():
        setattr(rows, name, clock.timed(name, function))
    walls: list[float] = []
    cpus: list[float] = []
    parts: dict[str, list[float]] = {part: [] for part in PARTS}
    try:
        for number in range(WARM_UP + updates):
            if number % ROWS_KEPT == 0:
                for table in loop.rows.values():
                    table.clear()  # as a checkpoint does
            clock.spent.clear()
            wall, cpu = time.perf_counter(), time.process_time()
            assert loop._one_update()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if number < WARM_UP:
                continue
            row, spent = loop.rows["timing"][-1], clock.spent
            split = {
                "sampling": row["sampling_s"],
                "grading": row["grading_s"],
                "learning": row["learning_s"],
                "statistics": spent["ratio_statistics"],
                "rows": spent["ledger_row"] - spent["ratio_statistics"] + spent["sample_rows"],
            }
            split["rest"] = wall - sum(split.values())
            walls.append(1e3 * wall)
            cpus.append(1e3 * cpu)
            for part in PARTS:
                parts[part].append(1e3 * split[part])
    finally:
        for name, function in plain.items():
            setattr(rows, name, function)
    return walls, cpus, parts


class _Clock:
    """Seconds spent in wrapped functions, by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - started

        return wrapped
