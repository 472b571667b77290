"""What the laboratory's figures share: looks, lines with errors, guide slopes and captions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from driftlaw.figures.style import FAINT, INK, Look, look
from driftlaw.theory.estimators import UNCAPPED

Tables = Mapping[str, pd.DataFrame]  # of one section
Caption = dict[str, str]
KL = "KL(π ‖ μ) per response, nats"
Drawn = tuple[Figure, Caption]

# The plain weight r is no objective of the catalogue: it is drawn in ink.
_REFERENCE = Look(INK, "X", (0, (7, 2)), filled=True)


def appearance(objective: str) -> Look:
    """The objective's look in every figure."""
    return _REFERENCE if objective == UNCAPPED else look(objective)


def handles(objectives: Iterable[str]) -> list[Line2D]:
    """Legend entries of objectives."""
    return [Line2D([], [], **appearance(name).line, label=name) for name in objectives]


def present(wanted: Sequence[str], table: pd.DataFrame) -> list[str]:
    """Those of `wanted` that the table has; all of the table's if it has none of them."""
    there = list(dict.fromkeys(table["objective"]))
    return [name for name in wanted if name in there] or there


def curve(
    axes: Axes,
    x: pd.Series,
    y: pd.Series,
    objective: str,
    error: pd.Series | None = None,
    hollow: pd.Series | None = None,
    suffix: str = "",
    **changes: Any,
) -> None:
    """A line with bars of one standard error, of gid `objective` + `suffix`; points by ascending x.

    hollow: cells whose markers are drawn white, of gid `<objective>:hollow`.
    """
    order = np.argsort(x.to_numpy(), kind="stable")
    x_n, y_n = x.to_numpy()[order], y.to_numpy(dtype=float)[order]
    own = appearance(objective)
    # Where lines coincide, broken ones lie over solid ones.
    style = own.line | {"zorder": 3 + 0.1 * len(own.dash[1])} | changes
    axes.plot(x_n, y_n, gid=f"{objective}{suffix}", **style)
    if error is not None:
        bars(axes, x_n, y_n, error.to_numpy()[order], style["color"])
    if hollow is not None and hollow.any():
        chosen = hollow.to_numpy()[order]
        white = style | {"linestyle": "none", "markerfacecolor": "white", "zorder": 4}
        axes.plot(x_n[chosen], y_n[chosen], gid=f"{objective}:hollow", **white)


def bars(axes: Axes, x: Any, y: Any, error: Any, color: str) -> None:
    """Error bars where there is an error; below, they end within the positive numbers of a log axis."""
    x, y, error = (np.asarray(v, dtype=float) for v in (x, y, error))
    some = (error > 0) & (y > 0)
    if some.any():
        below = np.minimum(error, 0.9 * y) if axes.get_yscale() == "log" else error
        both = np.stack([below[some], error[some]])
        axes.errorbar(x[some], y[some], both, fmt="none", ecolor=color, elinewidth=1.2, capsize=2.5)


def guide(
    axes: Axes, start: tuple[float, float], exponent: float, until: float, label: bool = True
) -> None:
    """A grey line y ~ x^exponent from `start` to x = `until`; its exponent stands at its end."""
    x = np.array([start[0], until])
    y = start[1] * (x / start[0]) ** exponent
    axes.plot(x, y, color=FAINT, ls="--", lw=1.2, zorder=1, gid="guide")
    if label:
        text = f"slope {exponent:g}".replace("-", "−")
        # Beyond the end of a line that falls, before the end of one that rises: nothing is there.
        place = {"ha": "left", "va": "center"} if exponent < 0 else {"ha": "right", "va": "bottom"}
        offset = (3, 0) if exponent < 0 else (-5, 0)
        where: dict[str, Any] = {"xytext": offset, "textcoords": "offset points", **place}
        axes.annotate(text, (x[1], y[1]), fontsize=8.5, color=INK, **where)


def log_axes(axes: Axes) -> None:
    """Both axes logarithmic, ticks at powers of ten alone: small ticks double the time to draw."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def ticks_at(axis: Axis, values: Iterable[float]) -> None:
    """Ticks at these values, written as plain numbers."""
    axis.set_major_locator(FixedLocator(sorted(set(values))))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def plain_log(axis: Axis) -> None:
    """Ticks of a logarithmic axis at 1, 2 and 5, written as plain numbers."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def corner(axes: Axes, text: str, x: float = 0.03, y: float = 0.04) -> None:
    """A remark in a panel, by default in its lower left."""
    axes.text(
        x,
        y,
        text,
        transform=axes.transAxes,
        ha="left" if x < 0.5 else "right",
        va="bottom" if y < 0.5 else "top",
        fontsize=8.5,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8},
        zorder=6,
    )


def number(value: float) -> str:
    """Two digits, as a person writes them."""
    return f"{value:.2g}".replace("e-0", "e-").replace("e-", "e−")


def middle(values: Iterable[float]) -> float:
    """The middle one of the distinct values, the upper of two."""
    found = sorted(set(values))
    return found[len(found) // 2]


def problem_name(row: Mapping[str, Any] | pd.Series) -> str:
    """A problem in a few words: its policy, its rewards, its number of responses."""
    responses = int(row["vocabulary"]) ** int(row["length"])
    return f"{row['policy']}, {row['rewards']}, {responses} responses"
