"""Turning an exception into the one line that a person reads, and the exit code."""

from __future__ import annotations

import errno


def one_line(error: Exception) -> tuple[str, int]:
    """(message on one line, exit code) of an error that is not about settings."""
    if isinstance(error, OSError) and error.errno is not None:
        place = f"{error.filename}: " if error.filename else ""
        known = {
            errno.ENOSPC: "no space left on the disk; free some, the same command goes on",
            errno.EDQUOT: "disk quota exceeded; free some, the same command goes on",
            errno.EROFS: "the file system is read-only",
            errno.EACCES: "permission denied; the folder must be writable",
        }
        return f"{place}{known.get(error.errno, error.strerror)}", 1
    if hasattr(error, "format_message"):  # how the command-line library says what is wrong
        return error.format_message(), 2
    text = " ".join(str(error).split()) or type(error).__name__
    return (text if type(error).__name__ in text else f"{type(error).__name__}: {text}"), 1
