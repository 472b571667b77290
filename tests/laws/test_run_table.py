"""The run table: what is refused and how it is said, and cutting a study to a shorter horizon."""

import math

import numpy as np
import pandas as pd
import pytest

from driftlaw.laws.run_table import RunTableError, at_horizon, read, repeated_runs, validate


def table(**changes):
    """Four runs, one of each status; `changes` replaces or adds whole columns."""
    columns = {
        "S": [2, 2, 4, 4],
        "lr": [1e-5, 1e-3, 1e-5, 1e-3],
        "seed": [0, 0, 0, 0],
        "status": ["stable", "collapsed", "censored", "failed"],
        "collapse_update": [math.nan, 300.0, math.nan, math.nan],
        "horizon": [1000, 320, 500, 0],
    }
    return pd.DataFrame(columns | changes)


def test_valid_table_gets_fixed_types_and_leaves_the_argument_alone():
    df = table(S=[2.0, 2.0, 4.0, 4.0], run_id=list("abcd"))
    before = df.copy()
    out = validate(df)
    pd.testing.assert_frame_equal(df, before)
    assert [str(out[c].dtype) for c in ("S", "seed", "horizon", "lr", "collapse_update")] == [
        "int64",
        "int64",
        "int64",
        "float64",
        "float64",
    ]
    assert list(out["run_id"]) == list("abcd")


@pytest.mark.parametrize("column", ["S", "lr", "seed", "status", "collapse_update", "horizon"])
def test_missing_column(column):
    with pytest.raises(RunTableError, match=f"column {column} is missing"):
        validate(table().drop(columns=column))


@pytest.mark.parametrize(
    ("changes", "column", "row", "allowed"),
    [
        ({"lr": [1e-5, math.nan, 1e-5, 1e-3]}, "lr", 1, "the cell is empty"),
        ({"lr": [1e-5, 0.0, 1e-5, 1e-3]}, "lr", 1, "a finite number > 0"),
        ({"lr": [1e-5, 1e-3, -1.0, 1e-3]}, "lr", 2, "a finite number > 0"),
        ({"lr": [1e-5, 1e-3, math.inf, 1e-3]}, "lr", 2, "a finite number > 0"),
        ({"lr": ["fast", 1e-3, 1e-5, 1e-3]}, "lr", 0, "a number"),
        ({"S": [2, 0, 4, 4]}, "S", 1, "an integer >= 1"),
        ({"S": [2, 2.5, 4, 4]}, "S", 1, "an integer >= 1"),
        ({"seed": [0, 0, None, 0]}, "seed", 2, "the cell is empty"),
        ({"horizon": [0, 320, 500, 0]}, "horizon", 0, "an integer >= 1"),
        ({"horizon": [1000, 320, 500, -1]}, "horizon", 3, "an integer >= 0"),
        ({"status": ["stable", "collapsed", "oom", "failed"]}, "status", 2, "one of stable, coll"),
        ({"status": ["stable", "collapsed", None, "failed"]}, "status", 2, "the cell is empty"),
        ({"collapse_update": [math.nan] * 4}, "collapse_update", 1, "a number for a collapsed"),
        ({"collapse_update": [5, 300, None, None]}, "collapse_update", 0, "empty unless the run"),
        ({"collapse_update": [None, 321, None, None]}, "collapse_update", 1, "<= horizon"),
        ({"collapse_update": [None, 0, None, None]}, "collapse_update", 1, "0 < collapse_update"),
        ({"detected_at": [None, 299, None, None]}, "detected_at", 1, "collapse_update <= detected"),
        ({"detected_at": [10, 310, None, None]}, "detected_at", 0, "empty unless"),
        ({"max_lag": [1, 2, 3, 3]}, "max_lag", 1, "max_lag <= S - 1"),
        ({"delay": [0, 1, 3, 0], "interval": [2, 2, 1, 4]}, "S", 1, "S = delay . interval"),
    ],
)
def test_refusals_name_column_row_and_what_is_allowed(changes, column, row, allowed):
    with pytest.raises(RunTableError, match=f"column {column}, row {row}: .*{allowed}") as error:
        validate(table(**changes))
    assert isinstance(error.value, ValueError)
    assert "\n" not in str(error.value)


def test_axis_agrees_with_delay_and_interval_where_given():
    # S = D + I: interval runs, a delay run, and one free-running row that declares neither.
    df = table(delay=[0, 1, 3, None], interval=[2, 1, 1, None], max_lag=[1, 1, 2, 3])
    assert list(validate(df)["S"]) == [2, 2, 4, 4]


def test_duplicates_are_the_same_run_at_the_same_horizon():
    twice = pd.concat([table(), table().iloc[[0]]], ignore_index=True)
    with pytest.raises(RunTableError, match=r"row 4 repeats the run S = 2, lr = 1e-05, seed = 0"):
        validate(twice)
    validate(twice.assign(objective=["grpo"] * 4 + ["gmc"]))
    longer = twice.assign(horizon=[1000, 320, 500, 0, 2000])
    assert repeated_runs(validate(longer)) == 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_read_round_trip(tmp_path, suffix):
    path = tmp_path / f"runs{suffix}"
    df = table(objective=["gmc"] * 4)
    if suffix == ".csv":
        df.to_csv(path, index=False)
    else:
        df.to_parquet(path)
    pd.testing.assert_frame_equal(read(path), validate(df))


def test_read_names_the_file(tmp_path):
    path = tmp_path / "runs.csv"
    table(lr=[1e-5, -1, 1e-5, 1e-3]).to_csv(path, index=False)
    with pytest.raises(RunTableError, match=r"runs\.csv: run table: column lr, row 1"):
        read(path)
    with pytest.raises(RunTableError, match=r"unknown suffix '\.json'"):
        read(tmp_path / "runs.json")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent.csv")


def test_at_horizon_by_hand():
    df = table(
        S=[2, 2, 4, 4],
        status=["stable", "collapsed", "censored", "failed"],
        horizon=[1000, 320, 500, 70],
    )
    at_310 = at_horizon(df, 310)
    assert list(at_310["status"]) == ["stable", "collapsed", "stable", "failed"]
    assert list(at_310["horizon"]) == [310, 310, 310, 70]
    at_299 = at_horizon(df, 299)
    assert list(at_299["status"]) == ["stable", "stable", "stable", "failed"]
    assert at_299["collapse_update"].isna().all()
    # A longer study than any run: who was stable is only known healthy up to its own end.
    at_2000 = at_horizon(df, 2000)
    assert list(at_2000["status"]) == ["censored", "collapsed", "censored", "failed"]
    assert list(at_2000["horizon"]) == [1000, 320, 500, 70]


def test_at_horizon_counts_a_collapse_from_its_detection():
    df = table(detected_at=[np.nan, 310.0, np.nan, np.nan])
    assert list(at_horizon(df, 305)["status"]) == ["stable", "stable", "stable", "failed"]
    assert list(at_horizon(df, 310)["status"]) == ["stable", "collapsed", "stable", "failed"]


def test_at_horizon_refuses_one_run_listed_twice():
    df = table(
        S=2, lr=1e-5, status="stable", collapse_update=math.nan, horizon=[100, 200, 300, 400]
    )
    with pytest.raises(RunTableError, match="repeats the run"):
        at_horizon(df, 100)


@pytest.mark.parametrize("horizon", [0, -5, 1.5, math.nan])
def test_at_horizon_refuses_a_horizon(horizon):
    with pytest.raises(RunTableError, match="horizon"):
        at_horizon(table(), horizon)
