"""Firth's logistic regression against exact identities and an independent maximiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from driftlaw.laws.firth import FirthConvergenceError, firth_logistic


def two_by_two(a, b, c, d):
    """x = 1: a events, b non-events; x = 0: c events, d non-events."""
    x = np.repeat([1.0, 1.0, 0.0, 0.0], [a, b, c, d])
    y = np.repeat([1.0, 0.0, 1.0, 0.0], [a, b, c, d])
    return x[:, None], y


@pytest.mark.parametrize("cells", [(3, 5, 7, 2), (4, 0, 0, 6), (0, 3, 0, 9), (1, 1, 1, 1)])
def test_saturated_table_is_half_added_to_each_cell(cells):
    """Exact (Firth 1993): also where a cell is empty and maximum likelihood is infinite."""
    a, b, c, d = (n + 0.5 for n in cells)
    fit = firth_logistic(*two_by_two(*cells))
    assert fit.coef == pytest.approx([np.log(c / d), np.log(a * d / (b * c))], abs=1e-7)


def test_intercept_only_is_half_added_to_each_outcome():
    fit = firth_logistic(np.empty((7, 0)), [1, 1, 0, 0, 0, 0, 0])
    # p = (2 + 1/2) / (7 + 1); l* = 2 log p + 5 log(1 - p) + 1/2 log(7 p (1 - p)).
    p = 2.5 / 8.0
    assert fit.coef == pytest.approx([np.log(p / (1 - p))])
    expected = 2 * np.log(p) + 5 * np.log(1 - p) + 0.5 * np.log(7 * p * (1 - p))
    assert fit.loglik == pytest.approx(expected)
    assert fit.cov == pytest.approx(np.array([[1 / (7 * p * (1 - p))]]))


def penalised_by_definition(beta, x, y):
    design = np.column_stack([np.ones(len(y)), x])
    p = 1.0 / (1.0 + np.exp(-design @ beta))
    information = design.T @ np.diag(p * (1 - p)) @ design
    loglik = np.sum(y * np.log(p) + (1 - y) * np.log(1 - p))
    return loglik + 0.5 * np.log(np.linalg.det(information))


def sample(seed, n=40):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(-9.0, 1.0, n), rng.normal(2.0, 0.7, n)])
    p = 1.0 / (1.0 + np.exp(-(15.0 + 1.5 * x[:, 0] - 0.8 * x[:, 1])))
    return x, (rng.random(n) < p).astype(float)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_an_independent_maximiser(seed):
    x, y = sample(seed)
    fit = firth_logistic(x, y)
    centred = x - x.mean(axis=0)
    oracle = minimize(
        lambda beta: -penalised_by_definition(beta, centred, y),
        np.zeros(3),
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    )
    assert fit.coef[1:] == pytest.approx(oracle.x[1:], abs=1e-5)
    assert fit.loglik == pytest.approx(-oracle.fun, abs=1e-9)
    assert fit.loglik == pytest.approx(penalised_by_definition(fit.coef, x, y), abs=1e-9)


def test_restriction_keeps_the_penalty_of_the_full_model():
    x, y = sample(1)
    basis = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
    fit = firth_logistic(x, y, basis=basis)
    assert fit.coef[2] == pytest.approx(0.5 * fit.coef[1])
    centred = x - x.mean(axis=0)
    oracle = minimize(
        lambda gamma: -penalised_by_definition(basis @ gamma, centred, y),
        np.zeros(2),
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    )
    assert fit.coef[1] == pytest.approx(oracle.x[1], abs=1e-5)
    assert fit.loglik == pytest.approx(-oracle.fun, abs=1e-9)
    assert fit.loglik < firth_logistic(x, y).loglik


def test_separation_is_finite_and_antisymmetric():
    x = np.array([[-3.0], [-2.0], [-1.0], [1.0], [2.0], [3.0]])
    y = np.array([0, 0, 0, 1, 1, 1])
    fit = firth_logistic(x, y)
    assert np.all(np.isfinite(fit.coef))
    assert fit.coef[0] == pytest.approx(0.0, abs=1e-8)
    assert 0.5 < fit.coef[1] < 5.0
    swapped = firth_logistic(x, 1 - y)
    assert swapped.coef == pytest.approx(-fit.coef, abs=1e-8)
    assert swapped.loglik == pytest.approx(fit.loglik)


def test_affine_change_of_covariates():
    x, y = sample(2)
    fit = firth_logistic(x, y)
    moved = firth_logistic(1000.0 * x + 5.0, y)
    assert moved.coef[1:] == pytest.approx(fit.coef[1:] / 1000.0, rel=1e-7)
    assert moved.cov[1:, 1:] == pytest.approx(fit.cov[1:, 1:] / 1e6, rel=1e-6)
    # log det of the information moves by 2 log 1000 for each covariate.
    assert moved.loglik == pytest.approx(fit.loglik + 2 * np.log(1000.0))


def test_start_does_not_move_the_answer():
    x, y = sample(3)
    fit = firth_logistic(x, y)
    again = firth_logistic(x, y, start=fit.coef + np.array([1.0, 0.1, -0.2]))
    assert again.coef == pytest.approx(fit.coef, abs=1e-6)
    assert firth_logistic(x, y, start=fit.coef).iterations <= 1


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1.0], [2.0]], [0, 2], "neither 0 nor 1"),
        ([[1.0], [np.nan]], [0, 1], "not finite"),
        ([[1.0], [2.0]], [0, 1, 1], "shape"),
        ([[3.0], [3.0], [3.0]], [0, 1, 1], "collinear or constant"),
        ([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], [0, 1, 1], "collinear or constant"),
        (np.empty((0, 1)), [], "collinear or constant"),
        (np.empty((0, 0)), [], "no outcomes"),
    ],
)
def test_refusals(x, y, message):
    with pytest.raises(ValueError, match=message):
        firth_logistic(x, y)


def test_wrong_basis():
    with pytest.raises(ValueError, match="basis has shape"):
        firth_logistic([[1.0], [2.0]], [0, 1], basis=[[1.0]])


def test_convergence_error_says_what_is_left(monkeypatch):
    monkeypatch.setattr("driftlaw.laws.firth.MAX_ITERATIONS", 1)
    with pytest.raises(FirthConvergenceError, match="after 1 iterations, penalised score"):
        firth_logistic(*sample(0))
