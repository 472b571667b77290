"""Turning an exception into the one line that a person reads, and the exit code."""

from __future__ import annotations

import errno
import os

DISK = {
    errno.ENOSPC: "no space left on the disk; free some, the same command goes on",
    errno.EDQUOT: "disk quota exceeded; free some, the same command goes on",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied; the folder must be writable",
}


def disk_trouble(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, is a disk that is full or cannot be written."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in DISK:
            return True
        # Libraries that write in other languages pass the system's words on, without its number.
        if any(os.strerror(number) in str(error) for number in DISK):
            return True
        error = error.__cause__ or error.__context__
    return False


def one_line(error: Exception) -> tuple[str, int]:
    """(message on one line, exit code) of an error that is not about settings."""
    if isinstance(error, OSError) and error.errno is not None:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{DISK.get(error.errno, error.strerror)}", 1
    if hasattr(error, "format_message"):  # how the command-line library says what is wrong
        return error.format_message(), 2
    text = " ".join(str(error).split()) or type(error).__name__
    return (text if type(error).__name__ in text else f"{type(error).__name__}: {text}"), 1
