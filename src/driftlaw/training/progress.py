"""A progress bar where a person watches, plain lines where a log file does."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar(
    name: str, total: int, say: Callable[[str], None]
) -> Iterator[tuple[Callable[[str], None], Callable[[int], None]]]:
    """Give (say, tick): `say` prints a line above the bar, `tick(n)` sets it to n of `total`."""
    if not sys.stderr.isatty():
        yield say, lambda updates: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn(name),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("updates, left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=total)

        def tick(updates: int) -> None:
            progress.update(task, completed=updates)

        yield lambda message: progress.console.print(message, highlight=False, markup=False), tick
