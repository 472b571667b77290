"""The page `estimators.md`: claims and figures as Markdown, and nothing that is not in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATE = "estimators.md.j2"


def page(claims: Sequence[Mapping[str, Any]], captions: Mapping[str, Mapping[str, Any]]) -> str:
    """The page's text.

    claims: as `driftlaw.theory.claims.claims` gives them. captions: figure -> title, caption; a claim
    names the figures that belong to it, `estimators/<figure>.png`.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown, from our own numbers
    )
    template = environment.get_template(TEMPLATE)
    return template.render(claims=claims, captions=captions, row=_row)


def _row(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
