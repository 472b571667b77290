"""A run in a child process that is started again when something kills it.

Resume is bit-exact, so a killed run loses nothing but time. After the last start the run is recorded
as `failed` with its reason: a sweep goes on, and its report says so. An interruption (Ctrl-C, SIGTERM)
is passed on and ends the supervision: the run is not failed, the next call resumes it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from driftlaw.config.study import Run
from driftlaw.files import write_json

INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def supervise(
    run: Run,
    study: str,
    out: Path,
    attempts: int,
    arguments: Sequence[str],
    say: Callable[[str], None],
) -> int:
    """Run `driftlaw <arguments>` without its supervision options, at most `attempts` times.

    Returns the child's exit code (128 + signal if it was interrupted); 1 after the last kill.
    """
    command = [sys.executable, "-m", "driftlaw", *_plain(arguments)]
    for attempt in range(1, attempts + 1):
        code = _run_child(command)
        if code >= 0:
            return code
        name = signal.Signals(-code).name
        if -code in INTERRUPTS:
            return 128 - code
        say(f"{run.run_id}: killed by {name}, start {attempt} of {attempts}")
    from driftlaw.training.train import failure_manifest

    reason = f"killed by {name} in each of {attempts} starts (out of memory?)"
    write_json(out / "manifest.json", failure_manifest(run, study, reason))
    say(f"{run.run_id}: failed: {reason}")
    return 1


def _plain(arguments: Sequence[str]) -> list[str]:
    """The arguments without --attempts N and --keep-going."""
    out, skip = [], False
    for argument in arguments:
        if skip:
            skip = False
        elif argument == "--attempts":
            skip = True
        elif argument != "--keep-going" and not argument.startswith("--attempts="):
            out.append(argument)
    return out


def _run_child(command: Sequence[str]) -> int:
    """Exit code of the child, negative for a signal; SIGINT and SIGTERM are passed on to it."""
    with subprocess.Popen(command) as child:
        interrupted: list[int] = []

        def pass_on(number: int, frame: FrameType | None) -> None:
            interrupted.append(number)
            child.send_signal(number)

        before = {s: signal.signal(s, pass_on) for s in INTERRUPTS}
        try:
            code = child.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        # Whoever interrupts a process group kills the child too: that is no crash of the run.
        return -interrupted[0] if interrupted and code != 0 else code
