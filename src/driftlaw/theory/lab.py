"""`driftlaw lab`: the laboratory's sections, each a folder of tables, then figures and the page.

    <out>/<section>/<table>.csv     tidy tables
    <out>/<section>/manifest.json   settings and provenance, written last: its presence says complete
    <out>/estimators.md             the page: claim by claim
    <out>/estimators/claims.json    every number that the page states, with its interval and verdict
    <out>/estimators/*.png          its figures, and captions.json

A section that is complete with the same settings is not run again, so an interrupted laboratory goes on
where it stopped, section by section. Sections run in processes of their own, one thread each.
"""

from __future__ import annotations

import importlib
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from driftlaw.config.lab import LabSettings
from driftlaw.errors import one_line
from driftlaw.files import read_json, replacing, write_json, write_text
from driftlaw.provenance import provenance

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    import pandas as pd

Say = Callable[[str], None]

# Section -> "module:function" of this package; (settings, say) -> {table: DataFrame}. Longest first.
SECTIONS: dict[str, str] = {
    "async_sgd": "async_cells:async_sgd",
    "drift": "experiments_drift:drift",
    "group_size": "experiments_group_size:group_size",
    "mean_field": "mean_field_tables:mean_field",
    "cycle": "experiments_cycle:cycle",
    "epsilon": "experiments_epsilon:epsilon",
    "reference": "reference:reference",
    "second_moment": "experiments_second_moment:second_moment",
}


def run(settings: LabSettings, out: Path, sections: Sequence[str], cores: int, say: Say) -> None:
    """Run the sections that are not complete in `out`, at most `cores` at the same time."""
    todo = [name for name in SECTIONS if name in sections and not complete(settings, out, name)]
    for name in sections:
        if name not in todo:
            say(f"{name}: complete")
    if cores == 1 or len(todo) < 2:
        for name in todo:
            run_section(settings, out, name, say)
        return
    _run_side_by_side(settings, out, todo, cores)


def _run_side_by_side(settings: LabSettings, out: Path, todo: Sequence[str], cores: int) -> None:
    """Sections in processes of their own; none outlives an interruption or the failure of another."""
    # Not forked: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    waiting = list(todo)
    running: dict[int, tuple[str, SpawnProcess, connection.Connection]] = {}
    # As a signal would end a plain process, but through the `finally` below.
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        while waiting or running:
            while waiting and len(running) < cores:
                name = waiting.pop(0)
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_child, args=(settings, out, name, sender))
                process.start()
                running[process.sentinel] = (name, process, receiver)
            for sentinel in connection.wait(list(running)):
                name, process, receiver = running.pop(cast(int, sentinel))
                process.join()
                if process.exitcode:
                    text = receiver.recv() if receiver.poll() else f"killed ({process.exitcode})"
                    raise RuntimeError(f"laboratory section {name}: {text}")
    finally:
        for _, process, _ in running.values():
            process.terminate()
            process.join()
        signal.signal(signal.SIGTERM, before)


def _child(settings: LabSettings, out: Path, name: str, sender: connection.Connection) -> None:
    # The parent, which a terminal interrupts too, ends its children itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run_section(settings, out, name, print_line)
    except Exception as error:
        sender.send(one_line(error)[0])
        sys.exit(1)


def run_section(settings: LabSettings, out: Path, name: str, say: Say) -> None:
    """Run one section and write its folder, complete or not at all."""
    import torch

    torch.set_num_threads(1)
    module, function = SECTIONS[name].split(":")
    experiment = getattr(importlib.import_module(f"driftlaw.theory.{module}"), function)
    started = time.time()
    say(f"{name}: started")
    tables: dict[str, pd.DataFrame] = experiment(
        getattr(settings, name), lambda text: say(f"{name}: {text}")
    )
    with replacing(out / name) as folder:
        folder.mkdir(parents=True)
        for table, frame in tables.items():
            frame.to_csv(folder / f"{table}.csv", index=False, lineterminator="\n")
        write_json(
            folder / "manifest.json",
            {
                "section": name,
                "settings": _identity(settings, name),
                "tables": {table: len(frame) for table, frame in tables.items()},
                "seconds": round(time.time() - started, 1),
                "provenance": provenance(),
            },
        )
    say(f"{name}: done in {time.time() - started:.0f} s")


def complete(settings: LabSettings, out: Path, name: str) -> bool:
    """Whether the section's folder holds results of these settings."""
    manifest = out / name / "manifest.json"
    return manifest.exists() and read_json(manifest)["settings"] == _identity(settings, name)


def finish(settings: LabSettings, out: Path, say: Say) -> None:
    """Claims, figures and the page from the tables of the chosen sections that are complete."""
    from driftlaw.theory.claims import claims
    from driftlaw.theory.figures import draw_lab
    from driftlaw.theory.page import page

    done = [name for name in settings.chosen() if complete(settings, out, name)]
    missing = [name for name in settings.chosen() if name not in done]
    if missing:
        say(f"not on the page, since not run with these settings: {', '.join(missing)}")
    tables = read_tables(out, done)
    found = claims(tables)
    with replacing(out / "estimators") as folder:
        folder.mkdir(parents=True)
        captions = draw_lab(tables, folder)
        write_json(folder / "captions.json", captions)
        write_json(folder / "claims.json", found)
    write_text(out / "estimators.md", page(found, captions))
    say(f"wrote {out / 'estimators.md'}")


def read_tables(out: Path, sections: Sequence[str]) -> dict[str, dict[str, pd.DataFrame]]:
    """section -> table -> DataFrame."""
    import pandas as pd

    return {
        name: {f.stem: pd.read_csv(f) for f in sorted((out / name).glob("*.csv"))}
        for name in sections
    }


def print_line(text: str) -> None:
    """Progress from a section's own process."""
    print(text, file=sys.stderr, flush=True)


def _identity(settings: LabSettings, name: str) -> Any:
    return getattr(settings, name).model_dump(mode="json")
