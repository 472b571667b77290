"""The fitted laws as rows of text: each exponent beside the paper's value, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftlaw.figures.data import lr_text
from driftlaw.report.results import number

SOURCE = "arXiv 2607.01083"
# (law, where in a fit, key of the exponent, the paper's value, what 0 would mean)
LAWS: tuple[tuple[str, tuple[str, ...], str, int], ...] = (
    ("largest stable lr, exponent of S", ("boundary",), "S_exponent", -1),
    ("collapse time, exponent of lr", ("collapse_time",), "lr_exponent", -1),
    ("collapse time, exponent of S", ("collapse_time",), "S_exponent", 0),
    (
        "same, collapsed runs only: exponent of lr",
        ("collapse_time", "survivors_only"),
        "lr_exponent",
        -1,
    ),
    (
        "same, collapsed runs only: exponent of S",
        ("collapse_time", "survivors_only"),
        "S_exponent",
        0,
    ),
)


def fit_groups(fit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Tables of all runs pooled, then of each group of `fit.json`."""
    groups = {"all runs pooled": fit, **fit.get("by", {})}
    return [
        {
            "name": name.replace("=", " = "),
            "laws": [_law(group, *law) for law in LAWS],
            "brackets": [_bracket(row) for row in group["boundary"]["brackets"]],
            "consistent": _set(group["boundary"]["consistent_exponents"]),
            "methods": [group["boundary"]["method"], group["collapse_time"]["method"]],
            "notes": group["notes"],
        }
        for name, group in groups.items()
    ]


def _law(
    group: Mapping[str, Any], name: str, path: tuple[str, ...], key: str, paper: int
) -> dict[str, Any]:
    part = group
    for step in path:
        part = part[step]
    exponent = part[key]
    return {
        "name": name,
        "paper": number(paper, 0),
        "estimate": "not identified" if exponent is None else number(exponent["estimate"], 2),
        "interval": _interval(exponent),
        "reading": _reading(exponent, paper, part["reason"]),
    }


def _interval(exponent: Mapping[str, Any] | None) -> str:
    if exponent is None:
        return "–"
    if exponent["low"] is None:
        return "unbounded"
    low, high = number(exponent["low"], 2), number(exponent["high"], 2)
    return f"[{low}, {high}] ({exponent['level']:.0%})"


def _reading(exponent: Mapping[str, Any] | None, paper: int, reason: str | None) -> str:
    """What the interval says of the paper's value, and of the alternative -1 or 0."""
    if exponent is None or exponent["low"] is None:
        return reason or "no interval"
    other = 0 if paper == -1 else -1
    holds = {v: exponent["low"] <= v <= exponent["high"] for v in (paper, other)}
    if all(holds.values()):
        return "not decided: the interval holds both −1 and 0"
    if holds[paper]:
        return f"holds the paper's value, excludes {number(other, 0)}"
    return "excludes the paper's value" + (f", holds {number(other, 0)}" if holds[other] else "")


def _set(exponents: Mapping[str, Any] | None) -> str:
    """The exponents that a sharp boundary through every bracket may have."""
    if exponents is None:
        return "none: no sharp boundary separates the runs"
    low = "−∞" if exponents["low"] is None else number(exponents["low"], 2)
    high = "∞" if exponents["high"] is None else number(exponents["high"], 2)
    return f"{low} to {high}"


def _bracket(row: Mapping[str, Any]) -> dict[str, Any]:
    def rate(value: float | None) -> str:
        return "–" if value is None else lr_text(value)

    return {
        **row,
        "last_stable": rate(row["last_stable"]),
        "first_collapsed": rate(row["first_collapsed"]),
        "overlap": "yes" if row["overlap"] else "no",
    }
