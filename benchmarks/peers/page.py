"""The tables of docs/peers.md, from the content of peers.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peers.cases import NOT_COMPARED

BEGIN, END = "<!-- benchmarks/peers.py: begin -->", "<!-- benchmarks/peers.py: end -->"


def text(content: Mapping[str, Any]) -> str:
    """The generated part of the page, without its markers."""
    packages = content["packages"]
    versions = ", ".join(f"{name} {version}" for name, version in packages.items())
    shape = content["batches"]
    parts = [
        f"Versions: {versions}; torch {content['machine']['packages']['torch']}.",
        f"Batches: {shape['responses']} responses in groups of {shape['group_size']}, 2 to "
        f"{shape['tokens']} tokens, float64; token log-ratios with standard deviations of "
        f"{', '.join(map(str, shape['scales']))} nats, {len(shape['seeds'])} seeds each.",
        "### Aligned settings",
        _pairs(content["aligned"], far=True),
        "### Long responses",
        f"{shape['long_tokens']} tokens each, standard deviation {shape['long_scale']} nats a token; "
        f"{shape['long_beyond']} of {shape['responses']} responses have log-ratios that add up to more "
        f"than 20 nats.",
        _pairs(content["long_responses"], far=False),
        "### Defaults of both",
        _pairs(content["defaults"], far=False),
        "### Advantages",
        _table(
            ("peer", "its settings", "`advantage` here", "difference", "theirs / ours", "note"),
            (
                (
                    row["peer"],
                    row["settings"],
                    f"`{{normalise: {row['normalise']}"
                    + (f", delta: {row['delta']:g}}}`" if row["normalise"] == "std" else "}`"),
                    number(row["advantage"]),
                    f"{row['ratio']:.4f}",
                    row["note"],
                )
                for row in content["advantages"]
            ),
        ),
        "### Not compared",
        _table(("what", "why"), NOT_COMPARED),
    ]
    return "\n\n".join(parts)


def rewrite(page: Path, content: Mapping[str, Any]) -> None:
    """Puts the tables between the markers of the page. Raises ValueError where they are missing."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: must have the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text(content)}\n\n{END}{after}", encoding="utf-8")


def number(value: float | None) -> str:
    """Two digits; a dash for what is not compared."""
    if value is None:
        return "–"
    return "0" if value == 0 else f"{value:.1e}" if value < 1e-3 or value >= 1e4 else f"{value:.2g}"


def _pairs(rows: Sequence[Mapping[str, Any]], far: bool) -> str:
    heads = ["peer", "its function", "settings given", "`objective` here", "loss", "gradient"]
    if far:
        heads.append("gradient at ±25 nats")
    return _table(
        (*heads, "note"),
        (
            (
                row["peer"],
                f"`{row['function']}`",
                f"`{row['settings']}`" if row["settings"] else "(defaults)",
                f"`{_objective(row['objective'])}`",
                number(row["loss"]),
                number(row["gradient"]),
                *([number(row["gradient_beyond_clamp"])] if far else []),
                row["note"],
            )
            for row in rows
        ),
    )


def _objective(params: Mapping[str, Any]) -> str:
    """As a study file has it; the proximal policy is given by the batch, not by a setting."""
    shown = ", ".join(f"{key}: {value}" for key, value in params.items() if key != "prox")
    return f"{{{shown}}}" + (" with prox_logp" if "prox" in params else "")


def _table(heads: Sequence[str], rows: Any) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)
