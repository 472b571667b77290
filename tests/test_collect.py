"""The run table of a hand-made study, cell by cell."""

import pandas as pd
import pytest

from driftlaw.collect import RUNS, TABLES, collect
from driftlaw.config.load import ConfigError
from driftlaw.files import read_json, read_table, write_json, write_table
from driftlaw.laws.run_table import read, validate
from driftlaw.training.ledger import EVAL, LEDGER
from tests.figures.small_study import load, rows, write_run

STUDY = """
study: hand
learner: { lr: 1.0e-4, updates: 20 }
seeds: [7]
grid:
  - objective.name: grpo
    schedule: [{ delay: 3, interval: 1 }, { delay: 2, interval: 5 }]
  - objective.name: gmc
    objective.eps: 0.3
    schedule.interval: 4
    learner.lr: [2.0e-3, 5.0e-3]
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Four runs: stable, censored, collapsed, failed, in this order."""
    monkeypatch.chdir(tmp_path)
    study = load(STUDY)
    stable, censored, collapsed, failed = study.runs
    write_run(study, stable, {0: 0.25, 10: 0.5, 20: 0.4}, se=0.03)
    write_run(study, censored, {0: 0.25, 10: 0.3}, "censored", reason="stopped healthy at 10")
    write_run(study, collapsed, {0: 0.25, 5: 0.1, 10: 0.01}, "collapsed", (5, 10), "fell, and fell")
    write_run(study, failed, {}, "failed", reason="killed by SIGKILL, twice")
    return study


def test_runs_csv_has_the_values_of_the_runs(study, tmp_path):
    line = collect(study, tmp_path / "tables")
    assert line.endswith("4 runs (1 stable, 1 collapsed, 1 censored, 1 failed)")
    table = pd.read_csv(tmp_path / "tables" / "runs.csv")
    assert list(table.columns) == [*(c.name for c in RUNS), "objective.eps"]
    assert table["run_id"].tolist() == [r.run_id for r in study.runs]
    expected = {
        "objective": ["grpo", "grpo", "gmc", "gmc"],
        "delay": [3, 2, 0, 0],
        "interval": [1, 5, 4, 4],
        "S": [4, 7, 4, 4],
        "max_lag": [3, 6, 3, 3],
        "mean_lag": [3.0, 4.0, 1.5, 1.5],
        "lr": [1e-4, 1e-4, 2e-3, 5e-3],
        "seed": [7, 7, 7, 7],
        "status": ["stable", "censored", "collapsed", "failed"],
        "collapse_update": [None, None, 5, None],
        "detected_at": [None, None, 10, None],
        "horizon": [20, 10, 10, 0],
        "study_horizon": [20, 20, 20, 20],
        "group_size": [8, 8, 8, 8],
        "base_pass_rate": [0.25, 0.25, 0.25, None],
        "final_score": [0.4, 0.3, 0.01, None],
        "final_se": [0.03, 0.02, 0.02, None],
        "best_score": [0.5, 0.3, 0.25, None],
        "reason": [
            "reached the horizon",
            "stopped healthy at 10",
            "fell, and fell",
            "killed by SIGKILL, twice",
        ],
        "objective.eps": [None, None, 0.3, 0.3],
    }
    for column, values in expected.items():
        got = [None if pd.isna(v) else v for v in table[column]]
        assert got == values, column


def test_the_tables_are_what_the_laws_read_and_equal_bytes_when_made_again(study, tmp_path):
    collect(study, tmp_path / "a")
    collect(study, tmp_path / "b")
    for name in TABLES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert len(validate(read(tmp_path / "a" / "runs.csv"))) == 4
    assert b"\r" not in (tmp_path / "a" / "runs.csv").read_bytes()


def test_curves_and_updates_hold_every_row_of_every_run(study, tmp_path):
    collect(study, tmp_path)
    curves, updates = (
        read_table(tmp_path / "curves.parquet"),
        read_table(tmp_path / "updates.parquet"),
    )
    assert curves.schema.names == ["run_id", *(c.name for c in EVAL)]
    assert updates.schema.names == ["run_id", *(c.name for c in LEDGER)]
    ids = [r.run_id for r in study.runs]
    pairs = list(zip(curves["run_id"].to_pylist(), curves["update"].to_pylist(), strict=True))
    assert pairs == [
        *((ids[0], u) for u in (0, 10, 20)),
        *((ids[1], u) for u in (0, 10)),
        *((ids[2], u) for u in (0, 5, 10)),
    ]
    assert updates.num_rows == 20 + 10 + 10
    assert updates.schema.field("grad_norm").metadata[b"unit"] == b"1"


def test_a_run_that_has_not_ended_is_named(study, tmp_path):
    run = study.runs[1].run_id
    (tmp_path / "results" / "hand" / "runs" / run / "manifest.json").unlink()
    with pytest.raises(ConfigError, match=f'"{run}": has not ended') as error:
        collect(study, tmp_path / "tables")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "tables").exists()


def test_a_failed_run_keeps_the_rows_of_its_parts(study, tmp_path):
    failed = study.runs[3]
    parts = tmp_path / "results" / "hand" / "runs" / failed.run_id / "parts"
    for first, last in ((0, 4), (4, 6)):
        part = rows("ledger", update=list(range(first, last)), applied=[True] * (last - first))
        write_table(parts / f"ledger-{first:08d}-{last:08d}.parquet", part)
    collect(study, tmp_path / "tables")
    row = pd.read_csv(tmp_path / "tables" / "runs.csv").iloc[3]
    assert (row["status"], row["horizon"]) == ("failed", 6)
    assert pd.isna(row["final_score"])
    updates = read_table(tmp_path / "tables" / "updates.parquet").to_pandas()
    assert updates.loc[updates["run_id"] == failed.run_id, "update"].tolist() == [0, 1, 2, 3, 4, 5]


def test_tables_of_an_ended_run_must_be_there_and_hold_its_updates(study, tmp_path):
    folder = tmp_path / "results" / "hand" / "runs" / study.runs[0].run_id
    write_table(folder / "ledger.parquet", rows("ledger", update=[0, 1], applied=[True, True]))
    with pytest.raises(ConfigError, match=r"ledger.parquet: 2: applied updates, but .* says 20"):
        collect(study, tmp_path / "tables")
    (folder / "eval.parquet").unlink()
    with pytest.raises(ConfigError, match=r"eval.parquet.*is missing, but the run has ended"):
        collect(study, tmp_path / "tables")


def test_a_manifest_of_another_run_is_refused(study, tmp_path):
    runs = tmp_path / "results" / "hand" / "runs"
    manifest = read_json(runs / study.runs[0].run_id / "manifest.json")
    write_json(runs / study.runs[1].run_id / "manifest.json", manifest)
    with pytest.raises(ConfigError, match=f"must be {study.runs[1].run_id}"):
        collect(study, tmp_path / "tables")


@pytest.mark.parametrize(
    ("manifest", "scores", "applied", "expected"),
    [
        # The rule was met at 10 (first low point 5); the loss was not finite later, at 12.
        (
            {"collapse_update": 12, "collapse_detected_at": 10, "collapse_bracket": [0, 5]},
            {0: 0.25, 5: 0.1, 10: 0.01},
            [True] * 12 + [False],
            (5, 10, 12),
        ),
        # The very first update was not finite.
        (
            {"collapse_update": 0, "collapse_detected_at": None, "collapse_bracket": None},
            {0: 0.25},
            [False],
            (1, None, 1),
        ),
    ],
)
def test_collapse_time_of_runs_that_were_not_finite(
    study, tmp_path, manifest, scores, applied, expected
):
    run = study.runs[2]
    folder = write_run(study, run, scores, "collapsed", updates=sum(applied), **manifest)
    ledger = rows("ledger", update=list(range(len(applied))), applied=applied)
    write_table(folder / "ledger.parquet", ledger)
    collect(study, tmp_path / "tables")
    row = validate(pd.read_csv(tmp_path / "tables" / "runs.csv")).iloc[2]
    got = [row["collapse_update"], row["detected_at"], row["horizon"]]
    assert tuple(None if pd.isna(v) else v for v in got) == expected
