"""The declared schedule against a simulation that follows the words of the method."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftlaw.schedule import Schedule

GRID = list(itertools.product(range(8), range(1, 8)))
delays, intervals = st.integers(0, 50), st.integers(1, 50)


def simulated_versions(delay, interval, updates):
    """The version that samples each batch, by playing the run through.

    A worker holds a copy of the weights that is renewed when the learner's version is a multiple
    of the interval, and it works `delay` updates ahead of the learner: the batch of update t is
    sampled with what it held when t - delay updates were done; the first ones with version 0.
    """
    versions, copies, held = [], {}, 0
    for done in range(updates):
        if done % interval == 0:
            held = done
        copies[done] = held
    for t in range(updates):
        versions.append(copies[t - delay] if t >= delay else 0)
    return versions


@pytest.mark.parametrize(("delay", "interval"), GRID)
def test_version_is_that_of_the_simulated_run(delay, interval):
    schedule = Schedule(delay, interval)
    expected = simulated_versions(delay, interval, 60)
    assert [schedule.version(t) for t in range(60)] == expected


@pytest.mark.parametrize(
    ("delay", "interval", "lags"),
    [
        (0, 1, [0, 0, 0, 0, 0, 0, 0, 0]),  # synchronous
        (2, 1, [0, 1, 2, 2, 2, 2, 2, 2]),  # a constant delay
        (0, 3, [0, 1, 2, 0, 1, 2, 0, 1]),  # resets at every synchronisation
        (1, 3, [0, 1, 2, 3, 1, 2, 3, 1]),  # sawtooth over [1, 3]
        (4, 2, [0, 1, 2, 3, 4, 5, 4, 5]),
    ],
)
def test_lags_by_hand(delay, interval, lags):
    assert [Schedule(delay, interval).lag(t) for t in range(8)] == lags


@pytest.mark.parametrize(("delay", "interval"), GRID)
def test_every_batch_is_generated_once_as_soon_as_its_weights_exist(delay, interval):
    """A generator that makes whatever is ready never starves the learner, and never runs short."""
    schedule = Schedule(delay, interval)
    updates = 40
    made_at = {}
    for done in range(updates):
        ready = [t for t in range(updates) if schedule.version(t) <= done and t not in made_at]
        assert max(ready + list(made_at)) == min(schedule.last_ready(done), updates - 1)
        for t in ready:
            made_at[t] = done
        assert made_at[done] <= done  # update `done` finds its batch
        # D >= 1: at least D batches beyond the current one are there.
        ahead = sum(t > done for t in made_at)
        assert ahead >= min(delay, updates - 1 - done)
    assert sorted(made_at) == list(range(updates))
    # Generated as soon as possible: exactly when its version appears.
    assert made_at == {t: schedule.version(t) for t in range(updates)}


@settings(max_examples=300, deadline=None)
@given(delay=delays, interval=intervals, n=st.integers(0, 400))
def test_last_ready_is_the_last_update_whose_version_exists(delay, interval, n):
    schedule = Schedule(delay, interval)
    last = schedule.last_ready(n)
    assert schedule.version(last) <= n < schedule.version(last + 1)
    assert all(schedule.version(t) <= n for t in range(last + 1))
    assert last == delay + interval - 1 + interval * (n // interval)


@settings(max_examples=300, deadline=None)
@given(delay=delays, interval=intervals, cycle=st.integers(0, 20))
def test_a_whole_cycle_is_a_sawtooth(delay, interval, cycle):
    """From t = D on, every I updates take each lag of [D, D + I - 1] once, in rising order."""
    schedule = Schedule(delay, interval)
    first = delay + cycle * interval
    lags = [schedule.lag(t) for t in range(first, first + interval)]
    assert lags == list(range(delay, delay + interval))
    assert schedule.max_lag == max(lags)
    assert schedule.mean_lag == pytest.approx(sum(lags) / interval)


@settings(max_examples=300, deadline=None)
@given(delay=delays, interval=intervals, t=st.integers(0, 10_000))
def test_versions(delay, interval, t):
    schedule = Schedule(delay, interval)
    version = schedule.version(t)
    assert 0 <= version <= t and version % interval == 0
    assert version <= schedule.version(t + 1)
    assert schedule.lag(t) == t - version <= schedule.max_lag
    if t < delay:
        assert schedule.lag(t) == t


@pytest.mark.parametrize(
    ("delay", "interval", "says"),
    [
        (-1, 1, "schedule.delay: -1: must be at least 0"),
        (0, 0, "schedule.interval: 0: must be at least 1"),
        (0, -3, "schedule.interval: -3: must be at least 1"),
        (1.0, 1, "schedule.delay: 1.0: must be a whole number"),
        (0, "2", "schedule.interval: '2': must be a whole number"),
        (True, 1, "schedule.delay: True: must be a whole number"),
    ],
)
def test_refusals(delay, interval, says):
    with pytest.raises(ValueError) as error:
        Schedule(delay, interval)
    assert str(error.value) == says


def test_times_before_the_start_are_refused():
    schedule = Schedule(2, 3)
    for call, argument in [(schedule.version, -1), (schedule.lag, -1), (schedule.last_ready, -1)]:
        with pytest.raises(ValueError, match="-1: must be at least 0"):
            call(argument)
