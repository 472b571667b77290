"""What a claim is, and how its numbers are written.

A claim is a mapping: id, title and claim (what is stated, with its mark), verdict (`supported`, `not
supported`, `depends`, or `undecided` where the tables are too small to say), evidence (one sentence
with its numbers), tables (title, columns, rows of text), text (paragraphs) and figures (names).
Intervals have 90 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

Claim = dict[str, Any]
Tables = Mapping[str, pd.DataFrame]
Verdict = Literal["supported", "not supported", "depends", "undecided"]


def claim(identity: str, verdict: Verdict, evidence: str, tables: list[Mapping[str, Any]]) -> Claim:
    """The part of a claim that comes from tables; its words are in `prose.yaml` under `identity`."""
    return {"id": identity, "verdict": verdict, "evidence": evidence, "tables": tables}


def verdict_of(checks: Iterable[bool]) -> Verdict:
    """Of conditions that a claim needs: all hold, none, some, or there is none to look at."""
    held = [bool(check) for check in checks]
    if not held:
        return "undecided"
    return "supported" if all(held) else "depends" if any(held) else "not supported"


def number(value: float) -> str:
    """Three digits; 0 for rounding residues; "-" for what is not determined."""
    if not np.isfinite(value):
        return "-"
    return "0" if abs(value) < 1e-12 else f"{value:.3g}"


def interval(row: Mapping[str, Any], value: str = "slope") -> str:
    """`-1.04 [-1.26, -0.82]`, from `value`, `low` and `high` of a row; the value alone without them."""
    if not np.isfinite(row["low"]):
        return number(row[value])
    return "{:#.3g} [{:#.3g}, {:#.3g}]".format(*(row[key] for key in (value, "low", "high")))


def span(values: pd.Series) -> str:
    """`0.9 to 1.2`: the range of the values."""
    return f"{number(values.min())} to {number(values.max())}"


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table."""
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]
