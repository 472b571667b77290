"""Where a result came from: code version, packages, machine, time."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import driftlaw

PACKAGES = (
    "torch",
    "transformers",
    "numpy",
    "pyarrow",
    "safetensors",
    "reasoning-gym",
    "snakemake",
)


def provenance() -> dict[str, Any]:
    """Everything about this process that is not part of a run's identity; JSON-ready."""
    return {
        "driftlaw": driftlaw.__version__,
        "git": git_state(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "host": platform.node(),
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "command": sys.argv,
        "folder": str(Path.cwd()),
        "written_unix_s": time.time(),
        "slurm_job": os.environ.get("SLURM_JOB_ID"),
    }


@functools.lru_cache(maxsize=1)
def git_state() -> dict[str, Any] | None:
    """Commit of the code's checkout and whether it differs from it; None outside a checkout."""
    here = Path(__file__).parent
    try:
        commit = _git(here, "rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_git(here, "status", "--porcelain", "--", "."))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or None
