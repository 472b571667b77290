"""What a study's runs say, in numbers and sentences; a stated difference has an interval."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from driftlaw.figures.data import StudyData, count, lr_text
from driftlaw.figures.scores import LEVEL, Mean, decided, mean_interval, paired_difference
from driftlaw.laws.collapse import STATUSES

# Failed runs first: who reads a report must not overlook what is missing from it.
ORDER = ("failed", "collapsed", "censored", "stable")


def number(value: float | None, digits: int = 3, sign: bool = False) -> str:
    """A number as the report shows it: fixed decimals, a true minus, a dash for none."""
    if value is None or pd.isna(value):
        return "–"
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def mean_text(mean: Mean | None, sign: bool = False) -> str:
    """`0.862 ± 0.031 (2 seeds)`."""
    if mean is None:
        return "–"
    half = "no interval" if mean.half is None else f"± {number(mean.half)}"
    joint = ", " if mean.half is None else " "
    return f"{number(mean.mean, sign=sign)}{joint}{half} ({count(mean.n, 'seed')})"


def staleness(delay: int, interval: int) -> str:
    return f"D = {delay}, I = {interval}"


def counts(runs: pd.DataFrame) -> dict[str, int]:
    return {status: int((runs["status"] == status).sum()) for status in STATUSES}


def score_rows(data: StudyData) -> list[dict[str, Any]]:
    """A row a (learning rate, staleness, method): final score over seeds and runs by status."""
    rows = []
    for cell in data.cells(data.runs):
        here = data.runs_of(cell)
        for method in data.methods:
            ours = here[here["method"] == method]
            if ours.empty:
                continue
            rows.append(
                {
                    "lr": lr_text(cell.lr),
                    "staleness": staleness(cell.delay, cell.interval),
                    "mean_lag": f"{cell.delay + (cell.interval - 1) / 2:g}",
                    "method": method,
                    "score": mean_text(mean_interval(decided(ours)["final_score"].tolist())),
                    **counts(ours),
                }
            )
    return rows


def reference(data: StudyData) -> str:
    """The method that others are compared with: the first grpo, else the first of the study."""
    plain = data.runs.loc[data.runs["objective"] == "grpo", "method"]
    return str(plain.iloc[0]) if len(plain) else data.methods[0]


def differences(data: StudyData) -> list[dict[str, Any]]:
    """Paired by seed: each method minus the reference in its cell, and minus itself without lag."""
    base, rows = reference(data), []
    for cell in data.cells(data.runs):
        here = data.runs_of(cell)
        unstale = data.runs[
            (data.runs["delay"] == 0) & (data.runs["interval"] == 1) & (data.runs["lr"] == cell.lr)
        ]
        place = f"{staleness(cell.delay, cell.interval)}, lr {lr_text(cell.lr)}"
        for method in data.methods:
            ours = here[here["method"] == method]
            others = here[here["method"] == base]
            if method != base:
                rows.append(_difference(place, f"{method} − {base}", ours, others))
            if (cell.delay, cell.interval) != (0, 1):
                fresh = unstale[unstale["method"] == method]
                rows.append(_difference(place, f"{method} − {method} without lag", ours, fresh))
    return [row for row in rows if row["mean"] is not None]


def _difference(place: str, what: str, a: pd.DataFrame, b: pd.DataFrame) -> dict[str, Any]:
    mean = paired_difference(a, b)
    return {"place": place, "what": what, "mean": mean, "text": mean_text(mean, sign=True)}


def run_rows(data: StudyData) -> list[tuple[str, list[dict[str, Any]]]]:
    """Every run, grouped by status, those that failed first."""
    groups = []
    for status in ORDER:
        ours = data.runs[data.runs["status"] == status]
        if len(ours):
            groups.append((status, [_run_row(run) for run in ours.to_dict("records")]))
    return groups


def _run_row(run: dict[Any, Any]) -> dict[str, Any]:
    event = run["collapse_update"]
    return {
        "run_id": run["run_id"],
        "method": run["method"],
        "staleness": staleness(run["delay"], run["interval"]),
        "lr": lr_text(run["lr"]),
        "seed": run["seed"],
        "updates": f"{run['horizon']} / {run['study_horizon']}",
        "score": number(run["final_score"]),
        "se": number(run["final_se"]),
        "best": number(run["best_score"]),
        "collapse": "–" if pd.isna(event) else f"{event:g}",
        "reason": run["reason"],
    }


def summary(data: StudyData) -> list[str]:
    """What the study shows, a sentence an item."""
    runs = data.runs
    by_status = ", ".join(f"{n} {status}" for status, n in counts(runs).items())
    horizons = " or ".join(str(h) for h in sorted(set(runs["study_horizon"])))
    out = [
        f"{count(len(runs), 'run')} of up to {horizons} updates: {by_status}.",
        f"Methods: {_list(data.methods)}. Seeds: {_list(map(str, sorted(set(runs['seed']))))}.",
    ]
    rates = sorted(set(runs["base_pass_rate"].dropna()))
    if rates:
        shown = _list(number(r) for r in rates)
        out.append(f"Held-out score of the base policy: {shown}; all scores here are held-out.")
    out += _collapses(data)
    out += _scores_in_words(data)
    out += _differences_in_words(data)
    return out


def _collapses(data: StudyData) -> list[str]:
    out = []
    for lr in sorted(set(data.runs["lr"])):
        ours = data.runs[data.runs["lr"] == lr]
        collapsed = ours[ours["status"] == "collapsed"]
        text = f"At lr {lr_text(lr)}, {len(collapsed)} of {count(len(ours), 'run')} collapsed"
        if len(collapsed):
            first, last = collapsed["collapse_update"].min(), collapsed["collapse_update"].max()
            text += f", at update {first:g}" + ("" if first == last else f" to {last:g}")
        out.append(text + ".")
    return out


def _scores_in_words(data: StudyData) -> list[str]:
    """A sentence a method: its final scores, of many settings the least and the most stale."""
    runs, out = data.at_main_lr(), []
    for method in data.methods:
        ours = runs[runs["method"] == method]
        cells = data.cells(ours)
        parts = []
        for cell in [cells[0], cells[-1]] if len(cells) > 4 else cells:
            here = data.runs_of(cell)
            scores = decided(here[here["method"] == method])["final_score"].tolist()
            mean = mean_text(mean_interval(scores)) if scores else "no result"
            parts.append(f"{mean} at {staleness(cell.delay, cell.interval)}")
        if parts:
            out.append(f"{method}, lr {lr_text(data.main_lr)}, final score: {'; '.join(parts)}.")
    return out


def _differences_in_words(data: StudyData) -> list[str]:
    rows = [row for row in differences(data) if row["mean"].half is not None]
    if not rows:
        return ["No two settings share two seeds or more, so no difference has an interval."]
    clear = [row for row in rows if row["mean"].excludes_zero]
    out = [
        f"{len(clear)} of {count(len(rows), 'difference')} in final score (paired by seed) "
        f"{'has' if len(clear) == 1 else 'have'} a {LEVEL:.0%} interval without 0; if nothing "
        f"differed, about {len(rows) * (1 - LEVEL):.1f} of them would by chance."
    ]
    out += [f"{row['place']}: {row['what']} is {row['text']}." for row in clear[:12]]
    if len(clear) > 12:
        out.append(f"{len(clear) - 12} more stand in the table of differences.")
    return out


def caveats(data: StudyData) -> list[str]:
    """What limits the study, from what its tables lack."""
    runs, out = data.runs, []
    failed = counts(runs)["failed"]
    if failed:
        out.append(
            f"{count(failed, 'run')} failed, which is infrastructure and not collapse; "
            "no score here includes them."
        )
    censored = counts(runs)["censored"]
    if censored:
        out.append(f"{count(censored, 'run')} stopped healthy before the horizon; means omit them.")
    sizes = runs.groupby(["method", "delay", "interval", "lr"]).size()
    least = int(sizes.min())
    if least < 5:
        cells = int((sizes == least).sum())
        out.append(
            f"{count(cells, 'setting')} of {len(sizes)} {'has' if cells == 1 else 'have'} only "
            f"{count(least, 'seed')}: "
            + (
                "nothing there tells an effect from chance."
                if least == 1
                else "their intervals assume normal scores and rest on very little."
            )
        )
    if len(set(runs["lr"])) == 1:
        out.append("One learning rate: where the stability boundary lies is not shown.")
    elif len(set(runs["lr"])) < 4:
        out.append(f"{len(set(runs['lr']))} learning rates bracket the boundary only coarsely.")
    out.append("One task and the base policies named below: other tasks and models may differ.")
    return out


def _list(items: Iterable[str]) -> str:
    return ", ".join(items)
