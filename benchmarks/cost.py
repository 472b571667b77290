"""What the constants of `driftlaw.config.cost` should be on this machine.

    seconds(update) = flops / RATE + calls * layers * CALL          (driftlaw.config.cost)

Updates of several shapes are measured; RATE and CALL are the least-squares fit of relative errors.
Fit and ratios use processor seconds: on one thread and an idle core they are the wall clock's.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from record import Item
from update import steps
from world import build_loop, child, driftlaw, make_inputs, study, write_study

# Around smoke and up to what a study of tiny models might use.
SHAPES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "smoke": {},
    "small_batch": {"rollout": {"prompts": 4, "chunk_prompts": 4}},
    "large_batch": {"rollout": {"prompts": 32, "group_size": 16}},
    "long": {"task": {"level": 5}, "rollout": {"max_tokens": 15}},
    "deep": {"model": {"layers": 4}},
    "wide": {"model": {"hidden_size": 128, "intermediate_size": 256}},
}


def measure(folder: Path, repeats: int) -> Iterator[Item]:
    """RATE, CALL, and predicted over measured for the shapes and for one run of smoke's kind."""
    import numpy as np

    from driftlaw.config import cost

    terms, measured = [], []
    shapes: dict[str, dict[str, float]] = {}
    for name, changes in SHAPES.items():
        base = {"base": {"clean_updates": 20}}
        file = write_study(folder / f"cost-{name}.yaml", study(**{**base, **changes}))
        loop = build_loop(file, folder)
        flops, calls = work(loop.settings)
        walls, cpus, _ = steps(loop, 4 * repeats)
        seconds = statistics.median(cpus) / 1e3
        terms.append((flops / seconds, calls / seconds))
        measured.append(1.0)
        predicted = flops / cost.RATE + calls * cost.CALL
        shapes[name] = {
            "flops": flops,
            "layer_calls": calls,
            "cpu_seconds": seconds,
            "wall_seconds": statistics.median(walls) / 1e3,
            "wall_seconds_min": min(walls) / 1e3,
            "predicted_s": predicted,
            "ratio": predicted / seconds,
        }
    fitted = np.linalg.lstsq(np.array(terms), np.array(measured), rcond=None)[0]
    ratios = [shape["ratio"] for shape in shapes.values()]
    yield Item("cost.RATE", "RATE that fits", "1/s", [1 / fitted[0]], detail={"now": cost.RATE})
    yield Item("cost.CALL", "CALL that fits", "s", [fitted[1]], detail={"now": cost.CALL})
    what = "update time, predicted by config/cost.py over measured, a sample a shape"
    yield Item("cost.shapes", what, "ratio", ratios, detail={"shapes": shapes})
    yield _one_run(folder)


def work(settings: Any) -> tuple[float, float]:
    """(flops, layer calls) of one update, as `driftlaw.config.cost` counts them: by probing it."""
    from driftlaw.config import cost

    def seconds(rate: float, call: float) -> float:
        held = cost.RATE, cost.CALL, cost.START
        cost.RATE, cost.CALL, cost.START = rate, call, 0.0
        try:
            one, two = (
                cost.run_seconds(
                    settings.model_copy(
                        update={"learner": settings.learner.model_copy(update={"updates": n})}
                    )
                )
                for n in (1, 2)
            )
        finally:
            cost.RATE, cost.CALL, cost.START = held
        return two - one  # both have the same two evaluations

    return seconds(1.0, 0.0), seconds(float("inf"), 1.0)


def _one_run(folder: Path) -> Item:
    """A run with smoke's settings, from spawn to exit."""
    from driftlaw.config.cost import run_seconds
    from driftlaw.config.study import load_study

    content = study(learner={"updates": 120, "checkpoint_every": 25}, evaluation={"every": 10})
    file = write_study(folder / "cost-run.yaml", content)
    run = load_study(file).runs[0]
    make_inputs(run, folder)
    ran = child(driftlaw("train", "--config", str(file), "--out", str(folder / "cost-run")), folder)
    predicted = run_seconds(run.settings)
    detail = {"predicted_s": predicted, "measured_s": ran.wall_s, "cpu_s": ran.cpu_s}
    what = "one run of smoke's settings, predicted seconds over measured"
    return Item(
        "cost.run", what, "ratio", [predicted / ran.cpu_s], detail=detail, error=ran.trouble()
    )
