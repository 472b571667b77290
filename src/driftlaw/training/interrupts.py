"""Ctrl-C and SIGTERM: noted, so that the loop can save and leave between two updates."""

from __future__ import annotations

import signal
from types import FrameType


class Interrupted(Exception):
    """The run was asked to stop; a checkpoint holds where it stands."""

    def __init__(self, signal_number: int, updates: int) -> None:
        self.signal_number = signal_number
        super().__init__(f"interrupted with {updates} updates done; the same command resumes")


class noted_signals:
    """Within the block SIGINT and SIGTERM are noted instead of killing; a second one kills."""

    def __enter__(self) -> list[int]:
        self.caught: list[int] = []
        self.before = {s: signal.signal(s, self._note) for s in (signal.SIGINT, signal.SIGTERM)}
        return self.caught

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.caught:
            raise KeyboardInterrupt
        self.caught.append(number)

    def __exit__(self, *exc: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
