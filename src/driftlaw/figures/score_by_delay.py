"""Final held-out score against staleness, delay and interval apart, at the main learning rate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from driftlaw.figures.data import Caption, StudyData, count, lr_text, missing, one_rate
from driftlaw.figures.lines import base_handle, base_rates, method_handles
from driftlaw.figures.scores import LEVEL, decided, mean_interval
from driftlaw.figures.style import INK, STATUS_LOOKS, empty, finish, legend, look, new_figure, note

# Which runs a panel holds; no staleness at all belongs to both series.
SERIES: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "delay D, at I = 1": lambda r: r["interval"] == 1,
    "interval I, at D = 0": lambda r: r["delay"] == 0,
    "both, D > 0 and I > 1": lambda r: (r["delay"] > 0) & (r["interval"] > 1),
}
DODGE_PT = 11.0  # methods stand side by side, seeds a little left of their mean
PANELS_PT = 640.0  # width of all panels


def series_of(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The series with staleness in them; if there is none, the unstale runs alone."""
    stale = (runs["delay"] > 0) | (runs["interval"] > 1)
    out = {name: runs[rule(runs)] for name, rule in SERIES.items() if (rule(runs) & stale).any()}
    return out or {"no staleness": runs}


def score_by_delay(data: StudyData) -> tuple[Figure, Caption]:
    """Means over seeds with t-intervals, and every seed, against mean lag D + (I - 1)/2."""
    runs = data.at_main_lr()
    figure = new_figure(4.6)
    parts = series_of(runs)
    row = figure.subplots(1, len(parts), squeeze=False)[0]
    for axes, (name, part) in zip(row, parts.items(), strict=True):
        _panel(axes, data, part, PANELS_PT / len(parts))
        axes.set_title(name)
        axes.set_xlabel("mean lag D + (I − 1)/2 (updates)")
    row[0].set_ylabel("final held-out score (avg@k)")
    _one_scale([axes for axes in row if axes.lines], runs)
    for axes in row[1:]:
        axes.tick_params(labelleft=False)
    finish(figure)
    shown = [m for m in data.methods if m in set(runs["method"])]
    handles = [*method_handles(data, shown), base_handle()]
    handles += [_status_handle(s) for s in ("collapsed", "censored") if (runs["status"] == s).any()]
    legend(figure, handles)
    note(figure, _notes(data, runs))
    return figure, _caption(data, runs)


def _panel(axes: Axes, data: StudyData, runs: pd.DataFrame, width_pt: float) -> None:
    if runs["final_score"].isna().all():
        empty(axes, "no run has a final score")
        return
    base_rates(axes, runs)
    methods = [m for m in data.methods if m in set(runs["method"])]
    dodge = _lag_axis(axes, sorted(set(runs["mean_lag"])), len(methods), width_pt)
    for i, method in enumerate(methods):
        ours = runs[runs["method"] == method]
        style = look(data.objective(method), data.variant[method])
        shift = dodge * (i - (len(methods) - 1) / 2)
        _seeds(axes, ours, style.color, method, _shifted(axes, shift - dodge / 2.5))
        results = decided(ours)
        x, means, halves = [], [], []
        for lag in sorted(set(results["mean_lag"])):
            group = results[results["mean_lag"] == lag]
            mean = mean_interval(group["final_score"].tolist())
            assert mean is not None
            x.append(float(lag))
            means.append(mean.mean)
            halves.append(math.nan if mean.half is None else mean.half)
        bars = axes.errorbar(
            x,
            means,
            yerr=halves,
            capsize=3,
            elinewidth=1.3,
            transform=_shifted(axes, shift),
            zorder=3,
            **style.line,
        )
        bars.lines[0].set_gid(f"mean:{method}")


def _seeds(axes: Axes, runs: pd.DataFrame, color: str, method: str, where: Any) -> None:
    for status in ("stable", "collapsed", "censored"):
        ours = runs[(runs["status"] == status) & runs["final_score"].notna()]
        if ours.empty:
            continue
        look_: dict[str, Any] = {
            "marker": "o",
            "ms": 3.2,
            "mfc": color,
            "mec": color,
            "alpha": 0.55,
        }
        if status != "stable":
            marker, ink, filled = STATUS_LOOKS[status]
            look_ = {"marker": marker, "ms": 6.5, "mfc": ink if filled else "white", "mec": ink}
        axes.plot(
            ours["mean_lag"],
            ours["final_score"],
            ls="",
            transform=where,
            zorder=4,
            gid=f"{status}:{method}",
            **look_,
        )


def _shifted(axes: Axes, points: float) -> Any:
    """Data coordinates, drawn some points to the right: the data themselves stay what they are."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    return axes.transData + ScaledTranslation(points / 72, 0, figure.dpi_scale_trans)


def _lag_axis(axes: Axes, lags: list[float], methods: int, width_pt: float) -> float:
    """Axis of the mean lags, logarithmic beyond the first where they spread far.

    Returns the distance (points) of the methods' symbols, so that neighbouring lags keep apart.
    """
    positive = [lag for lag in lags if lag > 0]
    if positive and max(positive) > 20 * min(positive):
        axes.set_xscale("symlog", linthresh=min(positive), base=2)
    scale = axes.xaxis.get_transform()
    places = [float(x) for x in scale.transform(np.asarray(lags, float))]
    span = places[-1] - places[0] or 1.0
    gaps = [b - a for a, b in itertools.pairwise(places)]
    dodge = min(DODGE_PT, 0.65 * min(gaps, default=span) / span * 0.8 * width_pt / methods)
    room = max(0.04, (methods / 2 * dodge + 8) / (0.8 * width_pt)) * span
    low, high = scale.inverted().transform(np.asarray([places[0] - room, places[-1] + room]))
    axes.set_xlim(float(low), float(high))
    axes.set_xticks(lags, [f"{lag:g}" for lag in lags])
    axes.minorticks_off()
    return dodge


def _one_scale(row: list[Axes], runs: pd.DataFrame) -> None:
    """One vertical axis: all scores, base rates and intervals, cut at the range of a score."""
    values = [*runs["final_score"].dropna(), *runs["base_pass_rate"].dropna()]
    for axes in row:
        for container in axes.containers:
            for bar in container.lines[2]:  # type: ignore[attr-defined]
                values += [y for s in bar.get_segments() for _, y in s if math.isfinite(y)]
    if not values:
        return
    low, high = min(values), max(values)
    if runs["final_score"].dropna().between(0, 1).all():
        low, high = max(low, 0.0), min(high, 1.0)
    room = 0.05 * max(high - low, 0.1)
    for axes in row:
        axes.set_ylim(low - room, high + room)


def _status_handle(status: str) -> Line2D:
    marker, ink, filled = STATUS_LOOKS[status]
    face = ink if filled else "white"
    label = f"{status} run" + ("" if status == "collapsed" else " (not in the mean)")
    return Line2D([], [], ls="", marker=marker, ms=6.5, mfc=face, mec=ink, color=INK, label=label)


def _notes(data: StudyData, runs: pd.DataFrame) -> list[str]:
    notes = missing(runs)
    notes += one_rate(data)
    if 2 in set(decided(runs).groupby(["method", "delay", "interval"]).size()):
        notes.append(
            "Intervals from 2 seeds have one degree of freedom: their width is itself chance."
        )
    if not ((runs["delay"] > 0) | (runs["interval"] > 1)).any():
        notes.append("The study has no run with staleness at this learning rate.")
    return notes


def _caption(data: StudyData, runs: pd.DataFrame) -> Caption:
    results = decided(runs)
    per_cell = results.groupby(["method", "delay", "interval"]).size()
    sizes = sorted(set(per_cell)) or [0]
    seeds = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return Caption(
        "Final held-out score against staleness",
        f"Last held-out score against mean lag at lr {lr_text(data.main_lr)}, delay and interval "
        f"apart (runs without staleness stand in both). {count(len(results), 'run')}, {seeds} a "
        f"point. Large symbols: mean over seeds; bars: {LEVEL:.0%} Student t intervals over seeds, "
        f"none with one seed or equal values, cut at the frame; small symbols: seeds. Collapsed "
        f"runs count with their last score. Symbols are moved sideways by method. Dotted: base "
        f"policy. Table: {data.table('runs.csv')}.",
        data.table("runs.csv"),
        "Results",
    )
