"""Files written so that a reader, or a second start, never sees half of one.

Everything is written beside its place and renamed. JSON is sorted, Parquet has one row group and an
explicit schema: equal content gives equal bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, file or folder, that takes its place when the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    remove(temporary)
    try:
        yield temporary
        _sync(temporary)
        if path.is_dir():
            # A folder cannot be renamed over another: the old one steps aside first.
            aside = path.with_name(f".{path.name}.{os.getpid()}.old")
            path.rename(aside)
            temporary.rename(path)
            remove(aside)
        else:
            temporary.replace(path)
    finally:
        remove(temporary)


def remove(path: Path) -> None:
    """Delete a file or a folder if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Force a file, or the files of a folder, to disk: a rename must not outrun its content."""
    for file in [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Sorted, indented JSON; NaN and infinity are errors."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write_table(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    with replacing(path) as temporary:
        pq.write_table(
            table.combine_chunks(),
            temporary,
            row_group_size=max(1, table.num_rows),
            compression="zstd",
        )


def read_table(path: Path) -> pa.Table:
    import pyarrow.parquet as pq

    # Not pq.read_table: that imports pandas, 0.4 s, for datasets of many files.
    with pq.ParquetFile(path) as file:
        return file.read()
