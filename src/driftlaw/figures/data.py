"""What the figures are drawn from: the collected tables, with methods named and panels chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from driftlaw.collect import RUNS
from driftlaw.config.study import LoadedStudy

LEDGER_COLUMNS = (
    "run_id",
    "update",
    "reward_mean",
    "traj_ratio_m2",
    "traj_ratio_max",
    "traj_ratio_ess",
    "group_ratio_mass_mean",
    "group_weight_mass_mean",
    "cap_bound_share",
)
CURVE_COLUMNS = ("run_id", "update", "avg_at_k", "se")


@dataclass(frozen=True)
class Caption:
    """What stands under a figure. `table` is relative to the parent of the tables' folder."""

    title: str
    caption: str
    table: str
    category: str


@dataclass(frozen=True)
class Cell:
    """Runs that differ in method and seed alone: one panel of a figure."""

    delay: int
    interval: int
    lr: float

    @property
    def staleness(self) -> str:
        if self.delay == 0 and self.interval == 1:
            return "D = 0, I = 1 (lag 0)"
        return f"D = {self.delay}, I = {self.interval}"


@dataclass(frozen=True)
class StudyData:
    """The tables of a study; a row of `runs` also has `method` (objective and what else varies).

    runs: (runs, columns) of runs.csv. curves: (evaluations, CURVE_COLUMNS). updates: (updates,
    LEDGER_COLUMNS). variant: place of a method among the methods of its objective.
    """

    name: str
    folder: str
    runs: pd.DataFrame
    curves: pd.DataFrame
    updates: pd.DataFrame
    variant: dict[str, int]

    @property
    def methods(self) -> list[str]:
        """Methods in the order of the study file."""
        return list(dict.fromkeys(self.runs["method"]))

    def objective(self, method: str) -> str:
        return str(self.runs.loc[self.runs["method"] == method, "objective"].iloc[0])

    @property
    def main_lr(self) -> float:
        """The learning rate with the most runs, the smallest of those with equally many."""
        counts = self.runs.groupby("lr").size()
        return float(counts[counts == counts.max()].index.min())

    def at_main_lr(self) -> pd.DataFrame:
        return self.runs[self.runs["lr"] == self.main_lr]

    def cells(self, at: pd.DataFrame) -> list[Cell]:
        """Panels of these runs: main learning rate first, then by staleness."""
        rows = at[["delay", "interval", "lr"]].drop_duplicates()
        cells = [Cell(int(d), int(i), float(lr)) for d, i, lr in rows.itertuples(index=False)]
        return sorted(
            cells,
            key=lambda c: (
                c.lr != self.main_lr,
                c.lr,
                c.delay + c.interval,
                c.delay + (c.interval - 1) / 2,
            ),
        )

    def runs_of(self, cell: Cell) -> pd.DataFrame:
        r = self.runs
        here = (r["delay"] == cell.delay) & (r["interval"] == cell.interval) & (r["lr"] == cell.lr)
        return r[here]

    def table(self, name: str) -> str:
        return f"{self.folder}/{name}"


def read(study: LoadedStudy, tables: Path) -> StudyData:
    """The tables that `driftlaw collect` wrote. RunTableError for a table that is not one."""
    from driftlaw.laws.run_table import RUN_KEY, validate

    runs = pd.read_csv(tables / "runs.csv")
    varied = [c for c in runs.columns if c not in {column.name for column in RUNS}]
    runs = validate(runs, key=(*RUN_KEY, "group_size", *varied))
    named = {"group_size": "G", "study_horizon": "T"}
    shown = [(c, label) for c, label in named.items() if len(set(runs[c])) > 1]
    # `controller.name` is shown as controller, `learner.beta1` as beta1.
    shown += [(c, c.removesuffix(".name").split(".")[-1]) for c in varied]
    runs["method"] = [_method(row, shown) for _, row in runs.iterrows()]
    variant: dict[str, int] = {}
    for _, methods in runs.groupby("objective", sort=False)["method"]:
        variant |= {m: i for i, m in enumerate(dict.fromkeys(methods))}
    return StudyData(
        study.name,
        tables.name,
        runs,
        pq.read_table(tables / "curves.parquet", columns=list(CURVE_COLUMNS)).to_pandas(),
        pq.read_table(tables / "updates.parquet", columns=list(LEDGER_COLUMNS)).to_pandas(),
        variant,
    )


def _method(row: pd.Series, shown: Sequence[tuple[str, str]]) -> str:
    parts = []
    for column, label in shown:
        if not pd.isna(row[column]):
            value = row[column]
            parts.append(f"{label}={value:g}" if isinstance(value, float) else f"{label}={value}")
    return ", ".join([str(row["objective"]), *parts])


def count(n: int, word: str) -> str:
    """`count(1, "run")` is "1 run"."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def lr_text(lr: float) -> str:
    """A learning rate as people write it: 1e-4, 2.5e-3, 0.05."""
    if 0.01 <= lr < 1000:
        return f"{lr:g}"
    mantissa, _, exponent = f"{lr:e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def one_rate(data: StudyData) -> list[str]:
    """A note of a figure that shows the main learning rate alone."""
    other = int((data.runs["lr"] != data.main_lr).sum())
    if not other:
        return []
    lr = lr_text(data.main_lr)
    return [f"Shown: lr {lr}, the rate with most runs. Not shown: {count(other, 'run')} at others."]


def missing(runs: pd.DataFrame) -> list[str]:
    """Notes on runs of these that a figure of results cannot show as results."""
    notes = []
    failed = int((runs["status"] == "failed").sum())
    if failed:
        notes.append(f"{count(failed, 'run')} failed and left no result: see the report's list.")
    if len(set(runs["seed"])) == 1:
        notes.append("One seed: nothing here tells an effect from chance.")
    return notes
