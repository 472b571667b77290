"""`make bench`: how fast is it? Measures, prints a table, writes benchmarks/results/speed.json.

    python benchmarks/run.py                     all that takes seconds: 3 minutes
    python benchmarks/run.py --smoke             the whole smoke and CI studies too: 8 more
    python benchmarks/run.py --only update --repeats 10

Exit code 0 when everything was measured, fast or slow: a busy machine is no error. 1 when a
measurement failed, 130 when interrupted (the file then holds what was done).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

# Before anything imports torch: one thread, and the code of this checkout, installed or not.
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import cost
import processes
import update
import whole
from record import Results, table

MEASURES = {
    "help": processes.show_help,
    "start": processes.start,
    "dag": processes.dag,
    "update": update.measure,
    "cost": cost.measure,
    "ci": whole.ci,
    "smoke": whole.smoke,
}
WHOLE = ("ci", "smoke")  # minutes: measured when asked for
RESULTS = Path(__file__).resolve().parent / "results"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", action="append", choices=MEASURES, help="measure this; may be repeated"
    )
    parser.add_argument("--smoke", action="store_true", help="run the smoke and CI studies too")
    parser.add_argument(
        "--repeats", type=int, default=5, help="repeats (20 updates each), default 5"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the JSON file")
    parser.add_argument("--name", default="speed", help="name of the JSON file, default speed")
    given = parser.parse_args()
    if given.repeats < 1:
        parser.error("--repeats must be at least 1")
    return given


def main() -> int:
    given = arguments()
    chosen = given.only or [name for name in MEASURES if name not in WHOLE]
    if given.smoke:
        chosen += [name for name in WHOLE if name not in chosen]
    results = Results(given.out / f"{given.name}.json")
    measured: list[str] = []
    code = 0
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="driftlaw-bench-") as scratch:
            for name in chosen:
                _tell(f"{name} ...")
                load, started = os.getloadavg(), time.perf_counter()
                place = Path(scratch) / name
                place.mkdir()
                for item in MEASURES[name](place, given.repeats):
                    results.add(item, load)
                    measured.append(item.name)
                _tell(f"{name}: {time.perf_counter() - started:.0f} s")
        results.write(complete=True)
    except KeyboardInterrupt:
        _tell("interrupted; the file holds what was done")
        code = 130
    shown = {name: results.items[name] for name in measured}
    if any(item["error"] for item in shown.values()):
        code = code or 1
    print(table(shown))
    _tell(f"load {' '.join(f'{x:.2f}' for x in os.getloadavg())}; wrote {results.path}")
    return code


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _tell(message: str) -> None:
    print(f"bench: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
