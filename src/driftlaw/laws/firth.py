"""Firth-penalised logistic regression: finite estimates where a sharp boundary separates the runs.

With p_i = logit^-1(x_i' beta) and the Fisher information I(beta) = X' W X, W = diag(p_i (1 - p_i)),
maximise

    l*(beta) = sum_i [ y_i log p_i + (1 - y_i) log(1 - p_i) ] + 1/2 log det I(beta)

whose score is  U*(beta) = X' [ y - p + h (1/2 - p) ],  h_i = W_ii x_i' I^-1 x_i  (leverages). The
penalty is Jeffreys' prior: it removes the O(1/n) bias and keeps beta finite when a hyperplane
separates the outcomes.
Source: Firth, Biometrika 80 (1993) 27; Heinze and Schemper, Statistics in Medicine 21 (2002) 2409.

A linear restriction beta = B gamma is fitted with the penalty of the *unrestricted* model, as
profile penalised likelihood needs (Heinze and Schemper): restricted and unrestricted l* are then on
one scale.

Fisher scoring with step-halving, on standardised covariates (an affine change of covariates changes
l* by a constant, so only conditioning depends on it).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

Floats = NDArray[np.float64]

MAX_ITERATIONS = 500
# Longest move of one coefficient in one iteration, per standard deviation of its covariate.
MAX_STEP = 5.0
# Largest penalised score at which the fit has converged; standardised covariates, units of runs.
SCORE_TOLERANCE = 1e-8
HALVINGS = 40


class FirthConvergenceError(RuntimeError):
    """The penalised score did not reach zero; the message gives iterations and the score left."""


@dataclass(frozen=True)
class FirthFit:
    """The maximum of l*.

    coef: (q + 1,) log-odds, intercept first, then per unit of each covariate.
    cov: (q + 1, q + 1), I(coef)^-1.
    loglik: penalised log-likelihood l*(coef), natural logs, penalty on the covariates as given.
    iterations: Fisher-scoring steps taken.
    """

    coef: Floats
    cov: Floats
    loglik: float
    iterations: int


def firth_logistic(
    x: ArrayLike, y: ArrayLike, basis: ArrayLike | None = None, start: ArrayLike | None = None
) -> FirthFit:
    """Maximise l* over beta, or over beta = basis @ gamma.

    x: (n, q) covariates without the intercept column, finite. y: (n,) outcomes, 0 or 1.
    basis: (q + 1, r) columns that span the allowed beta, intercept first; None is no restriction.
    start: (q + 1,) where to begin; None is beta = 0.

    Raises ValueError for shapes that do not fit, outcomes other than 0 and 1, or a design of
    deficient rank, and FirthConvergenceError.
    """
    design, outcome = _checked(x, y)
    # design = standardised @ scale, so beta_standardised = scale @ beta.
    standardised, scale = _standardise(design)
    restriction = np.eye(design.shape[1]) if basis is None else np.asarray(basis, dtype=float)
    if restriction.ndim != 2 or restriction.shape[0] != design.shape[1]:
        raise ValueError(
            f"firth: basis has shape {restriction.shape}; allowed: ({design.shape[1]}, r)"
        )
    # Orthonormal columns: the inner problem is as well conditioned as the restriction allows.
    inner, _ = np.linalg.qr(scale @ restriction)
    gamma = np.zeros(inner.shape[1])
    if start is not None:
        gamma = inner.T @ (scale @ np.asarray(start, dtype=float))

    gamma, iterations = _maximise(standardised, outcome, inner, gamma)
    beta_standardised = inner @ gamma
    unscale = np.linalg.inv(scale)
    loglik, _, information = _penalised(standardised, outcome, beta_standardised)
    return FirthFit(
        coef=unscale @ beta_standardised,
        cov=unscale @ np.linalg.inv(information) @ unscale.T,
        # l* on the covariates as given: log det (scale' I scale) = log det I + 2 log |det scale|.
        loglik=loglik + float(np.linalg.slogdet(scale)[1]),
        iterations=iterations,
    )


def _maximise(design: Floats, outcome: Floats, inner: Floats, gamma: Floats) -> tuple[Floats, int]:
    value, score, information = _penalised(design, outcome, inner @ gamma)
    for iteration in range(MAX_ITERATIONS):
        gradient = inner.T @ score
        if np.max(np.abs(gradient)) < SCORE_TOLERANCE:
            return gamma, iteration
        step = np.linalg.solve(inner.T @ information @ inner, gradient)
        step *= min(1.0, MAX_STEP / float(np.max(np.abs(step))))
        for _ in range(HALVINGS):
            trial = _penalised(design, outcome, inner @ (gamma + step))
            if trial[0] > value:
                break
            # Within rounding of the top only the score still tells steps apart.
            shrinks = np.max(np.abs(inner.T @ trial[1])) < np.max(np.abs(gradient))
            if trial[0] > value - 1e-10 * (1.0 + abs(value)) and shrinks:
                break
            step = step / 2.0
        else:
            break
        gamma = gamma + step
        value, score, information = trial
    left = float(np.max(np.abs(inner.T @ score)))
    raise FirthConvergenceError(
        f"firth: not converged after {iteration + 1} iterations, penalised score {left:.2g} left"
    )


def _penalised(design: Floats, outcome: Floats, beta: Floats) -> tuple[float, Floats, Floats]:
    """l*(beta), U*(beta) (p,), I(beta) (p, p). l* is -inf where I(beta) is singular to rounding."""
    eta = design @ beta
    p = expit(eta)
    weight = p * expit(-eta)
    information = design.T @ (weight[:, None] * design)
    try:
        factor = np.linalg.cholesky(information)
    except np.linalg.LinAlgError:
        return -np.inf, np.zeros_like(beta), information
    half = np.linalg.solve(factor, design.T)
    leverage = weight * np.sum(half**2, axis=0)
    loglik = -np.sum(np.logaddexp(0.0, np.where(outcome == 1.0, -eta, eta)))
    value = float(loglik + np.sum(np.log(np.diag(factor))))
    return value, design.T @ (outcome - p + leverage * (0.5 - p)), information


def _standardise(design: Floats) -> tuple[Floats, Floats]:
    mean, deviation = design[:, 1:].mean(axis=0), design[:, 1:].std(axis=0)
    scale = np.diag(np.concatenate(([1.0], deviation)))
    scale[0, 1:] = mean
    standardised = design.copy()
    standardised[:, 1:] = (design[:, 1:] - mean) / deviation
    return standardised, scale


def _checked(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    covariates, outcome = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if covariates.ndim != 2 or outcome.shape != (covariates.shape[0],):
        raise ValueError(
            f"firth: x has shape {covariates.shape}, y {outcome.shape}; allowed: (n, q) and (n,)"
        )
    if not np.all(np.isfinite(covariates)):
        raise ValueError("firth: a covariate is not finite; allowed: finite numbers")
    if not np.all((outcome == 0.0) | (outcome == 1.0)):
        raise ValueError("firth: an outcome is neither 0 nor 1; allowed: 0, 1")
    design = np.column_stack([np.ones(len(outcome)), covariates])
    # Rank of the centred covariates: an offset like log lr's must not hide a constant column.
    centred = covariates - covariates.mean(axis=0) if len(outcome) else covariates
    spread = np.abs(centred).max(axis=0, initial=0.0)
    magnitude = np.abs(covariates).max(axis=0, initial=0.0)
    if np.any(spread <= 1e-12 * magnitude) or (
        covariates.shape[1]
        and np.linalg.matrix_rank(centred / spread, tol=1e-9 * len(outcome)) < covariates.shape[1]
    ):
        raise ValueError("firth: the covariates are collinear or constant; allowed: full rank")
    if len(outcome) == 0:
        raise ValueError("firth: there are no outcomes; allowed: at least one row")
    return design, outcome
