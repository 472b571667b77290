"""The collapse rule on hand-written curves, and what must hold on any curve."""

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftlaw.laws.collapse import STATUSES, CollapseEvent, CollapseRule, find_collapse, status

RULE = CollapseRule()

scores_st = st.lists(st.one_of(st.floats(0.0, 1.0), st.just(math.nan)), min_size=1, max_size=30)
rules = st.builds(
    CollapseRule,
    fraction=st.floats(0.05, 1.0),
    floor=st.floats(0.0, 0.5),
    consecutive=st.integers(1, 4),
)


def curve(scores, every=10):
    return [every * k for k in range(len(scores))], scores


def test_event_is_first_point_of_the_streak():
    # Best 0.6 at u = 20; the bar is 0.3; 0.29 and 0.1 are low, so the streak is u = 40, 50.
    event = find_collapse(*curve([0.2, 0.4, 0.6, 0.5, 0.29, 0.1, 0.0]), RULE)
    assert event == CollapseEvent(update=40, detected_at=50, bracket=(30, 40), best=0.6, score=0.29)


def test_a_recovery_restarts_the_streak():
    # 0.1 at u = 20 is alone; 0.3 is not below 0.5 x 0.6; the streak that counts is u = 40, 50.
    event = find_collapse(*curve([0.2, 0.6, 0.1, 0.3, 0.2, 0.2]), RULE)
    assert event is not None
    assert (event.update, event.detected_at, event.bracket) == (40, 50, (30, 40))


def test_the_first_point_counts_as_best():
    event = find_collapse(*curve([0.4, 0.1, 0.1]), RULE)
    assert event is not None
    assert (event.update, event.best) == (10, 0.4)


def test_score_on_the_bar_is_healthy():
    assert find_collapse(*curve([0.5, 0.25, 0.25, 0.25]), RULE) is None


@pytest.mark.parametrize(("best", "collapsed"), [(0.15, True), (0.149, False)])
def test_floor_on_the_running_best(best, collapsed):
    assert (find_collapse(*curve([best, 0.0, 0.0]), RULE) is not None) is collapsed


def test_floor_reached_late_counts_from_then():
    # Until u = 20 the best is 0.1 < floor: the zeros before it are noise, those after it are not.
    event = find_collapse(*curve([0.1, 0.0, 0.3, 0.0, 0.0]), RULE)
    assert event is not None
    assert event.update == 30


def test_unfinished_streak_is_no_collapse():
    assert find_collapse(*curve([0.5, 0.5, 0.1]), RULE) is None


def test_consecutive_one_fires_at_once():
    event = find_collapse(*curve([0.5, 0.1]), CollapseRule(consecutive=1))
    assert event is not None
    assert (event.update, event.detected_at) == (10, 10)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_score_is_collapse_at_once_without_a_floor(bad):
    event = find_collapse(*curve([0.01, bad, 0.5]), RULE)
    assert event is not None
    assert (event.update, event.detected_at, event.bracket, event.best) == (10, 10, (0, 10), 0.01)
    assert not math.isfinite(event.score)


def test_non_finite_score_completes_a_streak_that_had_begun():
    event = find_collapse(*curve([0.5, 0.1, math.nan]), RULE)
    assert event is not None
    assert (event.update, event.detected_at, event.score) == (10, 20, 0.1)


def test_non_finite_first_point_has_an_open_bracket():
    event = find_collapse([5], [math.nan], RULE)
    assert event is not None
    assert (event.update, event.bracket, event.best) == (5, (None, 5), None)


def test_empty_curve():
    assert find_collapse([], [], RULE) is None


@pytest.mark.parametrize(
    ("updates", "scores", "message"),
    [
        ([0, 10, 10], [1, 1, 1], "update 10 after 10"),
        ([0, 10, 5], [1, 1, 1], "update 5 after 10"),
        ([-1, 10], [1, 1], "update -1"),
        ([0, 1.5], [1, 1], "update 1.5"),
        ([0, 1], [1], "2 updates but 1 scores"),
    ],
)
def test_malformed_curves(updates, scores, message):
    with pytest.raises(ValueError, match=message) as error:
        find_collapse(updates, scores, RULE)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"fraction": 0.0},
        {"fraction": 1.01},
        {"fraction": math.nan},
        {"floor": -0.1},
        {"floor": math.inf},
        {"consecutive": 0},
        {"consecutive": 2.0},
        {"consecutive": True},
    ],
)
def test_rule_out_of_range_is_one_line_that_names_it(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=name) as error:
        CollapseRule(**settings)
    assert "\n" not in str(error.value)


@given(scores_st, rules)
def test_causal_every_prefix_agrees_with_the_whole_curve(scores, rule):
    updates, _ = curve(scores)
    whole = find_collapse(updates, scores, rule)
    for k in range(len(scores) + 1):
        part = find_collapse(updates[:k], scores[:k], rule)
        seen = whole is not None and k > 0 and updates[k - 1] >= whole.detected_at
        assert repr(part) == repr(whole if seen else None)  # repr: NaN scores compare equal


@given(scores_st, rules)
def test_event_satisfies_the_declared_inequalities(scores, rule):
    updates, _ = curve(scores)
    event = find_collapse(updates, scores, rule)
    if event is None:
        return
    first, last = updates.index(event.update), updates.index(event.detected_at)
    before = scores[:first]
    assert event.best == (max(before) if before else None)
    assert event.bracket == (updates[first - 1] if first else None, event.update)
    if math.isnan(scores[last]):
        assert last - first < rule.consecutive
        low = scores[first:last]
    else:
        assert last - first + 1 == rule.consecutive
        low = scores[first : last + 1]
    assert all(event.best >= rule.floor and s < rule.fraction * event.best for s in low)


@given(scores_st, rules, st.sampled_from([0.25, 2.0, 1024.0]))
def test_scaling_scores_and_floor_together_changes_nothing(scores, rule, factor):
    # Powers of two: the scaling is exact, so the comparison is too.
    scaled = CollapseRule(rule.fraction, factor * rule.floor, rule.consecutive)
    updates, _ = curve(scores)
    a = find_collapse(updates, scores, rule)
    b = find_collapse(updates, [factor * s for s in scores], scaled)
    assert (a is None) == (b is None)
    if a is not None and b is not None:
        assert (a.update, a.detected_at, a.bracket) == (b.update, b.detected_at, b.bracket)


@given(scores_st, rules, st.integers(1, 5))
def test_points_before_that_do_not_raise_the_best_only_shift(scores, rule, extra):
    """Healthy points put before the curve, at its first score, move the event by their number."""
    if math.isnan(scores[0]):
        return
    updates, _ = curve(scores)
    a = find_collapse(updates, scores, rule)
    b = find_collapse(*curve([scores[0]] * extra + scores), rule)
    assert (a is None) == (b is None)
    if a is not None and b is not None:
        assert b.update == a.update + 10 * extra


EVENT = CollapseEvent(update=40, detected_at=50, bracket=(30, 40), best=0.6, score=0.1)


@pytest.mark.parametrize(
    ("event", "updates_done", "horizon", "failed", "expected"),
    [
        (None, 100, 100, False, "stable"),
        (None, 120, 100, False, "stable"),
        (None, 99, 100, False, "censored"),
        (None, 0, 100, False, "censored"),
        (None, 99, 100, True, "failed"),
        (None, 100, 100, True, "failed"),
        (EVENT, 50, 100, False, "collapsed"),
        (EVENT, 100, 100, False, "collapsed"),
        # The curve had shown the collapse before the infrastructure broke.
        (EVENT, 60, 100, True, "collapsed"),
        # Horizons nest: at T' = 45 the rule was not yet satisfied.
        (EVENT, 100, 50, False, "collapsed"),
        (EVENT, 100, 45, False, "stable"),
    ],
)
def test_status(event, updates_done, horizon, failed, expected):
    assert status(event, updates_done, horizon, failed) == expected


def test_the_four_statuses():
    assert STATUSES == ("stable", "collapsed", "censored", "failed")


@pytest.mark.parametrize(
    ("event", "updates_done", "horizon", "message"),
    [(EVENT, 49, 100, "50"), (None, -1, 100, "updates_done"), (None, 0, 0, "horizon")],
)
def test_impossible_status(event, updates_done, horizon, message):
    with pytest.raises(ValueError, match=message):
        status(event, updates_done, horizon)


def test_the_rule_is_read_without_the_statistics_libraries():
    """The training loop imports this module at start-up."""
    code = (
        "import sys, driftlaw.laws.collapse; "
        "print([m for m in ('pandas', 'scipy', 'lifelines', 'torch') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
