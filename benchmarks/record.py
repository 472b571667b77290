"""What a measurement is, where it was made, and how it is written down."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1  # of the JSON file


@dataclass(frozen=True)
class Item:
    """One measured quantity.

    `value` is the median of `samples`, None where the measurement failed (`error` says why);
    `limit` is the largest value allowed, None where there is none. `cpu_samples` are the processor
    time behind the samples, in `unit`: on a shared machine they say what the wall clock hides.
    """

    name: str
    what: str
    unit: str
    samples: Sequence[float] = ()
    limit: float | None = None
    cpu_samples: Sequence[float] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None

    @property
    def value(self) -> float | None:
        return statistics.median(self.samples) if self.samples and self.error is None else None

    @property
    def within(self) -> bool | None:
        """Does the value keep the limit? None without a limit; a failed measurement does not."""
        if self.limit is None:
            return None
        return self.value is not None and self.value <= self.limit

    def record(self, load_before: Sequence[float]) -> dict[str, Any]:
        """JSON-ready, with the load around it and the code that was measured."""
        from driftlaw.provenance import git_state

        content = {key: value for key, value in asdict(self).items() if key != "name"}
        return {
            **content,
            "value": self.value,
            "min": min(self.samples, default=None),
            "max": max(self.samples, default=None),
            "cpu_value": statistics.median(self.cpu_samples) if self.cpu_samples else None,
            "repeats": len(self.samples),
            "within_limit": self.within,
            "load_before": list(load_before),
            "load_after": list(os.getloadavg()),
            "git": git_state(),
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }


def machine() -> dict[str, Any]:
    """The machine and the versions that the numbers belong to."""
    from driftlaw.provenance import provenance

    keys = ("driftlaw", "git", "python", "packages", "machine", "cpu", "cpus")
    known = {key: value for key, value in provenance().items() if key in keys}
    return known | {"system": platform.platform(), "cpus_usable": len(os.sched_getaffinity(0))}


class Results:
    """`<out>/<name>.json`: one entry an item. Items measured again replace the old ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.items: dict[str, dict[str, Any]] = {}
        where = machine()
        if path.exists():
            old = json.loads(path.read_text(encoding="utf-8"))
            # Numbers of another machine or format do not belong beside these.
            if old.get("format") == FORMAT and old["machine"]["cpu"] == where["cpu"]:
                self.items = old["items"]
        self.machine = where

    def add(self, item: Item, load_before: Sequence[float]) -> None:
        """Take an item and write the file, so that an interruption loses nothing measured."""
        self.items[item.name] = item.record(load_before)
        self.write(complete=False)

    def write(self, complete: bool) -> None:
        content = {
            "format": FORMAT,
            "complete": complete,
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": self.machine,
            "items": self.items,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        temporary.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        temporary.replace(self.path)


def table(items: Mapping[str, Mapping[str, Any]]) -> str:
    """The items as a table for a person."""
    heads = ("item", "median", "min", "max", "cpu", "unit", "limit", "repeats", "")
    rows = [heads]
    for name, item in items.items():
        verdict = {True: "ok", False: "TOO SLOW", None: ""}[item["within_limit"]]
        numbers = [_short(item[key]) for key in ("value", "min", "max", "cpu_value")]
        limit = "-" if item["limit"] is None else f"{item['limit']:g}"
        said = f"failed: {item['error']}" if item["error"] else verdict
        rows.append((name, *numbers, item["unit"], limit, str(item["repeats"]), said))
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads) - 1)]
    return "\n".join(
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:-1], widths[1:], strict=True)),
                row[-1],
            ]
        ).rstrip()
        for row in rows
    )


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
