"""A run's folder: lock, parts of tables, checkpoints, progress, and the manifest written last.

    <out>/checkpoints/…        rotating, deleted when the run has ended (learner.checkpoint)
    <out>/parts/ledger-00000000-00000025.parquet …   rows since the checkpoint before
    <out>/progress.json        where the run is, for `driftlaw status`
    <out>/ledger.parquet  eval.parquet  samples.parquet  timing.parquet  model/
    <out>/manifest.json        status and identity; its presence says that the run has ended

Parts are written before the checkpoint that counts them, so rows and weights cannot disagree: on
resume, parts that no checkpoint counts are deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from driftlaw.config.load import ConfigError
from driftlaw.files import read_json, read_table, remove, write_json, write_table
from driftlaw.training import ledger


class RunFolder:
    """The folder of one run, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.parts = path / "parts"
        self._progress_written = 0.0

    @contextlib.contextmanager
    def locked(self, say: Callable[[str], None]) -> Iterator[None]:
        """Hold the folder; wait while another process trains the same run. Freed by any death."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"{self.path}: another process trains this run; waiting for it")
                fcntl.flock(file, fcntl.LOCK_EX)
            self._sweep()
            yield

    def _sweep(self) -> None:
        """Delete what a killed process left half-written."""
        for folder in (self.path, self.checkpoints, self.parts):
            for pattern in (".*.tmp", ".*.old"):
                for left in folder.glob(pattern) if folder.is_dir() else ():
                    remove(left)

    def claim(self, **identity: str) -> None:
        """Refuse a folder that holds something else: another run, or this one from other inputs."""
        marker = self.path / "run.json"
        held = read_json(marker) if marker.exists() else {}
        for key, value in identity.items():
            if held.get(key, value) != value:
                raise ConfigError(
                    str(self.path),
                    key,
                    held[key],
                    f"the folder was begun with another {key} than {value}",
                )
        if held != held | identity:
            write_json(marker, held | identity)

    def manifest(self) -> dict[str, Any] | None:
        """The manifest, if the run has ended."""
        path = self.path / "manifest.json"
        return read_json(path) if path.exists() else None

    def drop_parts_after(self, updates: int) -> None:
        """Forget rows of updates that no checkpoint counts."""
        for part in self.parts.glob("*.parquet") if self.parts.is_dir() else ():
            if int(part.stem.split("-")[2]) > updates:
                remove(part)

    def write_part(
        self, name: str, first: int, last: int, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Rows of updates first <= t < last, as a part of table `name`."""
        path = self.parts / f"{name}-{first:08d}-{last:08d}.parquet"
        write_table(path, ledger.table(name, rows))

    def forget_progress(self) -> None:
        """Delete what only a run that goes on needs."""
        for name in ("checkpoints", "parts", "progress.json"):
            remove(self.path / name)

    def join_parts(self) -> None:
        """Write the whole tables; the same bytes however many parts there were."""
        import pyarrow as pa

        for name, columns in ledger.TABLES.items():
            parts = [read_table(p) for p in sorted(self.parts.glob(f"{name}-*.parquet"))]
            empty = ledger.schema(columns).empty_table()
            write_table(self.path / f"{name}.parquet", pa.concat_tables([empty, *parts]))

    def progress(self, state: Mapping[str, Any], every_s: float = 1.0) -> None:
        """Tell `driftlaw status` where the run is, at most once a second."""
        now = time.time()
        if now - self._progress_written < every_s:
            return
        self._progress_written = now
        host = os.uname().nodename
        write_json(
            self.path / "progress.json", {**state, "unix_s": now, "pid": os.getpid(), "host": host}
        )
