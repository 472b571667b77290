"""The joint result: its JSON, its groups, and what shorter horizons do to it."""

import json

import numpy as np
import pandas as pd
import pytest

from driftlaw.laws.fit import fit, fit_by
from driftlaw.laws.run_table import RunTableError

from .planted import boundary_table, time_table


def strict_json(result):
    """Round trip that refuses NaN and infinities."""
    return json.loads(json.dumps(result, allow_nan=False))


def two_objectives():
    steep = boundary_table(-1.0, 10.0, seed=0).assign(objective="grpo", delay=0)
    flat = boundary_table(0.0, 10.0, seed=0).assign(objective="gmc", delay=0)
    return pd.concat([steep, flat], ignore_index=True)


def test_result_is_plain_json_with_the_three_exponents():
    result = fit(time_table(0, horizon=800), level=0.8)
    assert strict_json(result) == result
    assert result["boundary"]["form"] == "free"
    for exponent in (
        result["boundary"]["S_exponent"],
        result["collapse_time"]["lr_exponent"],
        result["collapse_time"]["S_exponent"],
    ):
        assert exponent["low"] < exponent["estimate"] < exponent["high"]
        assert exponent["level"] == 0.8
    assert sum(result["counts"].values()) == 108
    assert result["horizon"] is None
    assert result["stable_horizons"] == [800]
    assert result["notes"] == []


def test_nothing_to_fit_is_null_with_reasons():
    df = time_table(0).iloc[:3].assign(status="failed", collapse_update=np.nan)
    result = strict_json(fit(df))
    assert result["boundary"]["S_exponent"] is None
    assert result["boundary"]["reason"] == "no run with S >= 2 collapsed"
    assert result["collapse_time"]["lr_exponent"] is None
    assert "0 collapsed runs" in result["collapse_time"]["reason"]
    assert result["counts"] == {"stable": 0, "collapsed": 0, "censored": 0, "failed": 3}


def test_shorter_horizon_is_the_shorter_study():
    """The planted budget is T * lr = 0.25 for every S: the boundary is flat, and a study of half
    the length sees half the times. Cutting the long table equals drawing the short one."""
    long, short = time_table(1, horizon=1600), time_table(1, horizon=400)
    cut = fit(long, horizon=400)
    assert cut["horizon"] == 400
    drawn = fit(short)
    for part in ("boundary", "collapse_time", "counts", "stable_horizons"):
        assert cut[part] == drawn[part]
    assert abs(cut["boundary"]["S_exponent"]["estimate"]) < 0.15


def test_notes_name_mixed_horizons_and_repeated_runs():
    df = time_table(1, horizon=800)
    both = pd.concat([df, time_table(1, horizon=400)], ignore_index=True)
    mixed, repeated = fit(both)["notes"]
    assert "2 horizons" in mixed
    assert "108 rows repeat a run" in repeated


def test_groups_are_fitted_alone_and_pooled():
    df = two_objectives()
    result = strict_json(fit_by(df, by=["objective"]))
    assert list(result) == ["objective=gmc", "objective=grpo", "pooled"]
    for name, exponent in (("grpo", -1.0), ("gmc", 0.0)):
        group = result[f"objective={name}"]
        assert group == strict_json(fit(df[df["objective"] == name]))
        e = group["boundary"]["S_exponent"]
        assert e["low"] <= exponent <= e["high"]
    assert result["pooled"] == strict_json(fit(df))
    assert result["pooled"]["counts"]["stable"] == sum(
        result[f"objective={name}"]["counts"]["stable"] for name in ("grpo", "gmc")
    )


def test_groups_of_several_columns_and_columns_outside_the_run_key():
    df = two_objectives().rename(columns={"objective": "model"})
    with pytest.raises(RunTableError, match="column delay, row 0: empty"):
        fit_by(df.assign(delay=np.nan), by=["model", "delay"])
    # The model tells runs apart here, so equal (S, lr, seed) in two models are no duplicates.
    df.loc[df["model"] == "gmc", "lr"] = df.loc[df["model"] == "grpo", "lr"].to_numpy()
    result = fit_by(df, by=["model", "delay"])
    assert list(result) == ["model=gmc, delay=0", "model=grpo, delay=0", "pooled"]


@pytest.mark.parametrize(("by", "message"), [([], "nothing to group"), (["task"], "column task")])
def test_refused_groupings(by, message):
    with pytest.raises(RunTableError, match=message):
        fit_by(two_objectives(), by=by)


def test_a_bad_table_is_refused_before_any_fit():
    with pytest.raises(RunTableError, match="column lr, row 0"):
        fit(time_table(0, horizon=800).assign(lr=-1.0))
    with pytest.raises(ValueError, match="level"):
        fit(time_table(0, horizon=800), level=1.5)
