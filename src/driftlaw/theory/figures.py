"""The laboratory's figures: one PNG each, and their captions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd
from PIL import Image  # what matplotlib itself writes PNG with

from driftlaw.figures.draw import save
from driftlaw.figures.style import theme
from driftlaw.files import replacing
from driftlaw.theory.figures_bias import bias_by_eps, bias_by_group_size
from driftlaw.theory.figures_drift import cosine_by_drift, mse_by_drift, weights, winners
from driftlaw.theory.figures_dynamics import cycle_bias, second_moment
from driftlaw.theory.figures_models import async_sgd, mean_field
from driftlaw.theory.figures_parts import Caption, Drawn, Tables

# Name, section whose tables it needs, function; in the order of the page.
FIGURES: tuple[tuple[str, str, Callable[[Tables], Drawn]], ...] = (
    ("bias_by_group_size", "group_size", bias_by_group_size),
    ("bias_by_eps", "epsilon", bias_by_eps),
    ("second_moment", "second_moment", second_moment),
    ("async_sgd", "async_sgd", async_sgd),
    ("cycle_bias", "cycle", cycle_bias),
    ("mean_field", "mean_field", mean_field),
    ("mse_by_drift", "drift", mse_by_drift),
    ("winners", "drift", winners),
    ("cosine_by_drift", "drift", cosine_by_drift),
    ("weights", "drift", weights),
)


def draw_lab(tables: Mapping[str, Mapping[str, pd.DataFrame]], out: Path) -> dict[str, Caption]:
    """Write `<out>/<name>.png` for every figure whose section is in `tables`.

    tables: section -> table -> DataFrame. Returns the captions, name -> title and caption, in the order of
    the page. Equal tables give equal bytes under equal versions of matplotlib and its fonts.
    """
    captions: dict[str, Caption] = {}
    with theme():
        for name, section, draw in FIGURES:
            if section in tables:
                figure, captions[name] = draw(tables[section])
                _with_palette(save(figure, out / f"{name}.png"))
    return captions


def _with_palette(path: Path) -> None:
    """Rewrite a PNG with 128 colours, which charts do not exceed to the eye: under half the size."""
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    with replacing(path) as temporary:
        small.save(temporary, format="PNG", optimize=True)
