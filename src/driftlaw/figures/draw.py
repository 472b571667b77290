"""`driftlaw figures`: every figure of a study as PNG and SVG, and their captions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from matplotlib.figure import Figure

from driftlaw.config.study import LoadedStudy
from driftlaw.figures import NAMES
from driftlaw.figures.curves import curves
from driftlaw.figures.data import Caption, StudyData, read
from driftlaw.figures.ratios import ratios
from driftlaw.figures.score_by_delay import score_by_delay
from driftlaw.figures.status_map import status_map
from driftlaw.figures.style import theme
from driftlaw.files import replacing, write_json

DPI = 150
FIGURES: dict[str, Callable[[StudyData], tuple[Figure, Caption]]] = {
    "curves": curves,
    "status_map": status_map,
    "score_by_delay": score_by_delay,
    "ratios": ratios,
}
assert tuple(FIGURES) == NAMES


def draw_all(study: LoadedStudy, tables: Path, out: Path) -> list[Path]:
    """Write `<name>.png` and `<name>.svg` for every name of `NAMES`, then `captions.json`.

    tables: the folder that `driftlaw collect` wrote. Returns the paths written. Equal tables give
    equal bytes under equal versions of matplotlib and its fonts.
    """
    data = read(study, tables)
    written, captions = [], {}
    with theme():
        for name, draw in FIGURES.items():
            figure, caption = draw(data)
            captions[name] = asdict(caption)
            written += [save(figure, out / f"{name}.png"), save(figure, out / f"{name}.svg")]
    write_json(out / "captions.json", captions)
    return [*written, out / "captions.json"]


def save(figure: Figure, path: Path) -> Path:
    """Write a figure without the date that matplotlib would put into it."""
    kind = path.suffix[1:]
    metadata: dict[str, str | None] = {"Date": None} if kind == "svg" else {"Software": None}
    with replacing(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=DPI, metadata=metadata)
    return path
