"""Where does an update's time go? Prints operators and functions, largest first.

    python benchmarks/profile_update.py [--level 3] [--updates 20] [--rows 15]

Two passes, since a profiler slows what it watches: PyTorch's for the operators (self time on the
processor), Python's for the functions (time with callees).
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from update import MAX_TOKENS, steps
from world import build_loop, study, write_study


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--level", type=int, choices=MAX_TOKENS, default=3)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--rows", type=int, default=15, help="lines of each table")
    given = parser.parse_args()
    content = study(task={"level": given.level}, rollout={"max_tokens": MAX_TOKENS[given.level]})
    with tempfile.TemporaryDirectory(prefix="driftlaw-bench-") as scratch:
        loop = build_loop(write_study(Path(scratch) / "study.yaml", content), Path(scratch))
        steps(loop, 5)
        operators(loop, given.updates, given.rows)
        functions(loop, given.updates, given.rows)


def operators(loop: Any, updates: int, rows: int) -> None:
    """Self time of PyTorch's operators, ms an update."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(updates):
            loop._one_update()
    events = sorted(profiler.key_averages(), key=lambda e: -e.self_cpu_time_total)
    whole = sum(e.self_cpu_time_total for e in events)
    print(f"{'operator':52s} {'ms':>7s} {'share':>6s} {'calls':>6s}   (an update)")
    for event in events[:rows]:
        ms, share = event.self_cpu_time_total / 1e3 / updates, event.self_cpu_time_total / whole
        print(f"{event.key[:52]:52s} {ms:7.2f} {share:6.1%} {event.count / updates:6.0f}")
    print()


def functions(loop: Any, updates: int, rows: int) -> None:
    """Time of Python functions with their callees, ms an update; torch's own inner ones left out."""
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(updates):
        loop._one_update()
    profiler.disable()
    print(f"{'function':60s} {'ms':>7s} {'calls':>6s}   (an update, with callees)")
    found = sorted(pstats.Stats(profiler).stats.items(), key=lambda e: -e[1][3])  # type: ignore[attr-defined]
    ours = [e for e in found if "driftlaw" in e[0][0] or "modeling_" in e[0][0] or e[0][0] == "~"]
    for (file, _, name), (_, calls, _, cumulated, _) in ours[:rows]:
        label = f"{Path(file).stem}: {name}" if file != "~" else name
        print(f"{label[:60]:60s} {1e3 * cumulated / updates:7.2f} {calls / updates:6.0f}")


if __name__ == "__main__":
    main()
