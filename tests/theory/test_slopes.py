"""Log-log lines: planted exponents, known intervals."""

import numpy as np
import pytest

from driftlaw.theory.slopes import fit_slope, local_slopes

X = np.array([2.0, 4.0, 8.0, 16.0, 32.0, 64.0])


def test_an_exact_power_law():
    assert fit_slope(X, 3 * X**-1.5) == pytest.approx((-1.5, -1.5, -1.5))


def test_interval_from_stated_errors_by_hand():
    # Two points, log x = 0 and 1, relative errors 0.1 and 0.2: the slope's variance is 0.01 + 0.04.
    found = fit_slope([1.0, np.e], [1.0, np.e**2], [0.1, 0.2 * np.e**2])
    half = 1.6448536 * 0.05**0.5
    assert found == pytest.approx((2.0, 2.0 - half, 2.0 + half))


def test_interval_from_residuals_by_hand():
    # log x = -1, 0, 1 and log y = 0, 0, 3: slope 3/2, residuals 1/2, -1, 1/2 about the mean 1; variance
    # (3/2) / 1 / 2 with one degree of freedom, t = 6.3138.
    found = fit_slope(np.exp([-1.0, 0.0, 1.0]), np.exp([0.0, 0.0, 3.0]))
    half = 6.3137515 * 0.75**0.5
    assert found == pytest.approx((1.5, 1.5 - half, 1.5 + half))


@pytest.mark.parametrize("stated", [True, False])
def test_coverage(stated):
    random = np.random.default_rng(3)
    hits = 0
    for _ in range(400):
        y = X**-1.0 * np.exp(0.1 * random.standard_normal(6))
        found = fit_slope(X, y, 0.1 * y if stated else None)
        hits += found.low <= -1.0 <= found.high
    # 90 % nominal; the wider of two intervals covers a little more.
    assert 0.86 < hits / 400 < 0.985


def test_noisy_points_count_less():
    y = X**-1.0
    y[-1] *= 3
    error = 0.01 * y
    error[-1] = y[-1]
    assert fit_slope(X, y, error).slope == pytest.approx(-1.0, abs=0.01)
    assert fit_slope(X, y).slope > -0.9


def test_what_cannot_be_a_logarithm_is_left_out():
    y = np.array([1.0, 0.0, 1 / 8, np.nan, 1 / 32, -1.0])
    assert fit_slope(X, y * 2).slope == pytest.approx(np.log(1 / 32) / np.log(16), abs=0.3)
    assert np.isnan(fit_slope([1.0], [1.0])).all()
    found = fit_slope([1.0, 2.0], [1.0, 4.0])
    assert found.slope == pytest.approx(2.0)
    assert np.isnan(found.low)


def test_local_slopes():
    assert local_slopes(X, X**2) == pytest.approx(np.full(6, 2.0))
    y = np.array([4.0, 2.0, 1.0, 0.0])
    found = local_slopes([1.0, 2.0, 4.0, 8.0], y)
    assert found[:2] == pytest.approx([-1.0, -1.0])
    assert np.isnan(found[2:]).all()
