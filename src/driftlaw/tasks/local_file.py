"""Prompts and answers from a local jsonl, csv or parquet file with columns `prompt` and `answer`.

A byte order mark, as spreadsheets write, is skipped. A prompt that occurs again is dropped; one that
occurs again with another answer is an error.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from driftlaw.config.settings import FileTask
from driftlaw.tasks.matching import last_number
from driftlaw.tasks.problem import Grade, Problem


class FileFormatError(ValueError):
    """A prompt file cannot be used; the message is what is wrong, without the file's name."""


def read_rows(path: Path) -> list[Problem]:
    """The distinct problems of a file, in its order; FileFormatError where it cannot be used."""
    readers = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
    if path.suffix not in readers:
        raise FileFormatError(f"must end in {', '.join(readers)}")
    if not path.is_file():
        raise FileFormatError("no such file")
    found: dict[str, Problem] = {}
    try:
        for number, row in readers[path.suffix](path):
            problem = _problem(row, number)
            known = found.setdefault(problem.prompt, problem)
            if known.answer != problem.answer:
                raise FileFormatError(f"row {number}: the prompt occurs before with another answer")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"cannot be read: {' '.join(str(error).split())}") from None
    if not found:
        raise FileFormatError("holds no rows; needs at least two with `prompt` and `answer`")
    return list(found.values())


def _problem(row: Mapping[str, Any], number: int) -> Problem:
    for column in ("prompt", "answer"):
        value = row.get(column)
        text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
        if not text or not str(value).strip():
            raise FileFormatError(f"row {number}: `{column}` must be text that is not empty")
    answer = str(row["answer"])
    return Problem(str(row["prompt"]), answer, str(row.get("demonstration") or answer))


def _jsonl(path: Path) -> Iterable[tuple[int, Mapping[str, Any]]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise FileFormatError(f"row {number}: not JSON: {error.msg}") from None
            if not isinstance(row, dict):
                raise FileFormatError(f"row {number}: must be a JSON object")
            yield number, row


def _csv(path: Path) -> Iterable[tuple[int, Mapping[str, Any]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from enumerate(csv.DictReader(file), 1)


def _parquet(path: Path) -> Iterable[tuple[int, Mapping[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise FileFormatError(f"not parquet: {' '.join(str(error).split())}") from None
    yield from enumerate(table.to_pylist(), 1)


class LocalFile:
    """The task of `task.name: file`."""

    def __init__(self, settings: FileTask) -> None:
        self.settings = settings

    def problems(self) -> tuple[list[Problem], list[Problem]]:
        s = self.settings
        rows = read_rows(Path(s.path))
        random.Random(f"file/{s.seed}").shuffle(rows)
        return rows[s.heldout_prompts :], rows[: s.heldout_prompts]

    def grade(self, problem: Problem, response: str, truncated: bool) -> Grade:
        if self.settings.match == "exact":
            text = "" if truncated else response.strip()
            return Grade(float(text == problem.answer.strip()), bool(text))
        found = None if truncated else last_number(response)
        wanted = last_number(problem.answer)
        return Grade(float(found is not None and found == wanted), found is not None)
