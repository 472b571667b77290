"""Means, intervals and paired differences against hand-computed numbers."""

import math

import pandas as pd
import pytest

from driftlaw.figures.scores import Mean, decided, mean_interval, paired_difference

T_95_2 = 2.919986  # Student's t, 2 degrees of freedom, 0.95 quantile (any table)


def runs(scores, seeds=None, status="stable"):
    n = len(scores)
    columns = {"seed": seeds or range(n), "final_score": scores, "status": [status] * n}
    return pd.DataFrame(columns)


def test_interval_by_hand():
    # Mean 0.6, s = 0.1, n = 3: 2.919986 * 0.1 / sqrt(3).
    mean = mean_interval([0.5, 0.6, 0.7])
    assert mean is not None
    assert mean.half is not None
    assert mean.mean == pytest.approx(0.6)
    assert mean.half == pytest.approx(T_95_2 * 0.1 / math.sqrt(3), rel=1e-6)
    assert mean.n == 3


def test_no_interval_from_one_seed_or_equal_values():
    assert mean_interval([0.5]) == Mean(0.5, None, 1)
    assert mean_interval([0.0, 0.0]) == Mean(0.0, None, 2)
    assert mean_interval([]) is None


def test_pairing_takes_the_seeds_out():
    # Differences 0.1, 0.2, 0.3 on the common seeds 1, 2, 3; seed 9 has no partner.
    a = runs([0.9, 0.6, 0.8, 0.1], seeds=[1, 2, 3, 9])
    b = runs([0.5, 0.4, 0.8], seeds=[3, 2, 1])
    difference = paired_difference(a, b)
    assert difference is not None
    assert difference.half is not None
    assert difference.mean == pytest.approx(0.2)
    assert difference.half == pytest.approx(T_95_2 * 0.1 / math.sqrt(3), rel=1e-6)
    assert difference.excludes_zero


def test_only_stable_and_collapsed_runs_are_results():
    table = pd.concat([runs([0.5], status=s) for s in ("stable", "collapsed", "censored")])
    failed = runs([math.nan], status="failed")
    kept = decided(pd.concat([table, failed]))
    assert kept["status"].tolist() == ["stable", "collapsed"]
