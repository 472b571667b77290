"""Running the real commands, as a user does, in the environment that runs the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def environment() -> dict[str, str]:
    """This process's environment with the checkout's code first, one thread, and no colours."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
        "NO_COLOR": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


def driftlaw(*words: object, cwd: Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return _run([sys.executable, "-m", "driftlaw", *map(str, words)], cwd, timeout)


def snakemake(*words: object, cwd: Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Snakemake on the repository's Snakefile, in working directory `cwd`."""
    return _run(["snakemake", "-s", str(ROOT / "Snakefile"), *map(str, words)], cwd, timeout)


def _run(command: list[str], cwd: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
