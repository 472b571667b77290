"""Exact expectations over all responses: J, its gradient, drift along it, KL, and the drift's ratios.

J(theta)      = (1/X) sum_x sum_y pi(y | x) E[R | x, y]
KL(pi || mu)  = (1/X) sum_x sum_y pi(y | x) log(pi(y | x) / mu(y | x))          nats
Var r         = (1/X) sum_x sum_y mu(y | x) (r(y) - 1)^2,   r = pi / mu
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from driftlaw.theory.policies import Floats
from driftlaw.theory.problems import Problem


def expected_reward(problem: Problem, theta: torch.Tensor) -> torch.Tensor:
    """J(theta), differentiable."""
    probability_xy = problem.policy.token_logp(theta).sum(2).exp()
    return (probability_xy * torch.as_tensor(problem.expected_reward_xy)).sum(1).mean()


def gradient(problem: Problem, theta: torch.Tensor) -> torch.Tensor:
    """d: the gradient of J."""
    leaf = theta.detach().clone().requires_grad_()
    (out,) = torch.autograd.grad(expected_reward(problem, leaf), leaf)
    return out


def ascend(problem: Problem, theta: torch.Tensor, updates: int, lr: float) -> torch.Tensor:
    """theta after `updates` exact ascent updates theta + lr grad J(theta)."""
    for _ in range(updates):
        theta = theta + lr * gradient(problem, theta)
    return theta


@dataclass(frozen=True)
class Point:
    """A behaviour policy mu and a current policy pi of one problem, enumerated.

    Arrays over X prompts, Y responses, L tokens, E edges, d parameters.
    """

    problem: Problem
    theta_mu: torch.Tensor
    theta_pi: torch.Tensor

    @cached_property
    def logmu_xyl(self) -> Floats:
        return self.problem.policy.token_logp(self.theta_mu).detach().numpy()

    @cached_property
    def logpi_xyl(self) -> Floats:
        return self.problem.policy.token_logp(self.theta_pi).detach().numpy()

    @cached_property
    def score_xed(self) -> Floats:
        """grad log pi of every edge, at theta_pi."""
        return self.problem.policy.scores(self.theta_pi)

    @cached_property
    def kernel_xee(self) -> Floats:
        """Inner products of the scores: |J_x' c|^2 = c' kernel_x c."""
        return self.score_xed @ self.score_xed.transpose(0, 2, 1)

    @cached_property
    def ratio_xy(self) -> Floats:
        """Trajectory ratios r = pi / mu."""
        return np.exp((self.logpi_xyl - self.logmu_xyl).sum(2))

    def outcome_probability(self, law: str) -> Floats:
        """X x O under `pi` or `mu`, times the probability of the reward."""
        logp = self.logpi_xyl if law == "pi" else self.logmu_xyl
        response_o = self.problem.response_o
        return np.exp(logp.sum(2))[:, response_o] * self.problem.given_xo

    def to_parameters(self, coefficient_xe: Floats) -> Floats:
        """d: (1/X) sum_x J_x' c_x, the vector of a stratified estimate."""
        total = np.einsum("xe,xed->d", coefficient_xe, self.score_xed)
        return np.asarray(total / self.problem.prompts)

    def squared(self, coefficient_xe: Floats) -> Floats:
        """X: |J_x' c_x|^2 of each prompt by itself."""
        return np.einsum("xe,xef,xf->x", coefficient_xe, self.kernel_xee, coefficient_xe)

    @cached_property
    def kl(self) -> float:
        """KL(pi || mu) per response, nats, mean over prompts."""
        log_ratio = (self.logpi_xyl - self.logmu_xyl).sum(2)
        return float((np.exp(self.logpi_xyl.sum(2)) * log_ratio).sum(1).mean())

    @cached_property
    def ratio_sd(self) -> float:
        """Standard deviation of r under mu, root of the mean variance over prompts."""
        mu_xy = np.exp(self.logmu_xyl.sum(2))
        return float(np.sqrt((mu_xy * (self.ratio_xy - 1.0) ** 2).sum(1).mean()))

    @cached_property
    def reward(self) -> float:
        """J(theta_pi)."""
        return float(expected_reward(self.problem, self.theta_pi))

    @cached_property
    def gradient(self) -> Floats:
        """d: grad J at theta_pi, target (a)."""
        return gradient(self.problem, self.theta_pi).numpy()


def drifted(problem: Problem, updates: int, lr: float) -> Point:
    """mu at the start, pi = mu moved by `updates` exact ascent updates of size `lr`."""
    return Point(problem, problem.start, ascend(problem, problem.start, updates, lr))
