"""How a method and a status look, the same in every figure; colour never stands alone.

A method has a colour, a marker and a dash pattern, fixed by its name, so that figures of different
studies can be laid side by side. Colours are seaborn's colour-blind-safe palette.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PALETTE: tuple[str, ...] = tuple(sns.color_palette("colorblind").as_hex())
WIDTH_IN = 10.0  # every figure has the report's width
INK, FAINT = "#333333", "#8a8a8a"

Dash = tuple[int, tuple[float, ...]]
_DASHES: tuple[Dash, ...] = (
    (0, ()),
    (0, (5, 1.6)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (3, 1.2, 1, 1.2, 1, 1.2)),
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "<", "h", ">")

# Places in palette, markers and dashes. The four of the group-mass ablation are furthest apart.
_PLACES: dict[str, tuple[int, int, int]] = {
    "gmc": (0, 0, 0),
    "grpo": (1, 1, 1),
    "tic_mask": (2, 2, 2),
    "tic_truncate": (4, 3, 3),
    "gmc_waterfill": (9, 4, 4),
    "grpo_noclip": (5, 5, 1),
    "dapo": (3, 6, 3),
    "dr_grpo": (6, 7, 2),
    "tic_ppo": (8, 8, 4),
    "gepo": (7, 0, 1),
    "gspo": (9, 1, 2),
    "cispo": (5, 2, 3),
    "tis": (3, 3, 4),
    "m2po": (4, 4, 0),
    "decoupled_ppo": (6, 5, 0),
}


@dataclass(frozen=True)
class Look:
    """How one method is drawn."""

    color: str
    marker: str
    dash: Dash
    filled: bool

    @property
    def line(self) -> dict[str, Any]:
        """Keyword arguments of a line with markers."""
        return {
            "color": self.color,
            "linestyle": self.dash,
            "marker": self.marker,
            "markersize": 5,
            "markeredgecolor": self.color,
            "markerfacecolor": self.color if self.filled else "white",
            "markeredgewidth": 1.1,
        }


def look(objective: str, variant: int = 0) -> Look:
    """The look of an objective; variants of one objective in a study share its colour."""
    fallback = zlib.crc32(objective.encode())
    color, marker, dash = _PLACES.get(
        objective, (fallback % 10, fallback // 10 % 9, fallback // 90 % 5)
    )
    return Look(
        PALETTE[color],
        _MARKERS[(marker + variant) % len(_MARKERS)],
        _DASHES[(dash + variant) % len(_DASHES)],
        filled=variant % 2 == 0,
    )


# Status -> (marker, colour, filled).
STATUS_LOOKS: dict[str, tuple[str, str, bool]] = {
    "stable": ("o", PALETTE[2], True),
    "collapsed": ("X", PALETTE[3], True),
    "censored": (">", PALETTE[0], False),
    "failed": ("s", "#000000", False),
}


@contextlib.contextmanager
def theme() -> Iterator[None]:
    """Seaborn's theme and what makes equal figures equal bytes, within the block alone."""
    with mpl.rc_context():
        sns.set_theme(context="paper", style="ticks", palette=list(PALETTE), font_scale=1.1)
        mpl.rcParams.update(
            {
                "svg.hashsalt": "driftlaw",
                "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
                "axes.edgecolor": INK,
                "axes.grid": True,
                "grid.color": "#e6e6e6",
                "grid.linewidth": 0.7,
                "axes.titlesize": 10,
                "axes.labelsize": 10,
                "legend.fontsize": 9.5,
                "lines.linewidth": 1.8,
                "savefig.facecolor": "white",
            }
        )
        yield


def new_figure(height_in: float) -> Figure:
    """An empty figure of the report's width; no window system and no global state is involved."""
    return Figure(figsize=(WIDTH_IN, height_in), layout="constrained")


def note(figure: Figure, lines: list[str]) -> None:
    """What the figure cannot show, under it."""
    if lines:
        figure.supxlabel("\n".join(lines), fontsize=8.5, color=INK, style="italic")


def empty(axes: Axes, text: str) -> None:
    """Say in the middle of an axes why nothing is drawn in it."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(
        0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=INK, wrap=True
    )


def legend(figure: Figure, handles: list[Any]) -> None:
    """One legend above all panels, in as many rows as its text needs."""
    if handles:
        letters = sum(len(h.get_label()) + 7 for h in handles)
        ncols = math.ceil(len(handles) / math.ceil(letters / 132))
        figure.legend(handles=handles, loc="outside upper center", ncols=ncols, frameon=False)


def finish(figure: Figure) -> None:
    """Last touches on every axes."""
    for axes in figure.axes:
        sns.despine(ax=axes)
