"""Small problems that the tests of the laboratory share."""

import numpy as np
import torch

from driftlaw.config.lab import ProblemSettings
from driftlaw.theory.exact import Point, drifted
from driftlaw.theory.policies import TabularPolicy, Tree
from driftlaw.theory.problems import Problem, build

# V = 2, L = 2: four responses, small enough for brute force over ordered groups.
TINY = ProblemSettings(vocabulary=2, length=2, prompts=2, rewarded=1)


def tiny(policy="tabular", reward="sparse", updates=6, lr=1.0):
    """A drifted pair of policies on four responses a prompt."""
    settings = TINY.model_copy(update={"policy": policy, "reward": reward})
    return drifted(build(settings), updates, lr)


def sixteen(policy="tabular", reward="sparse", updates=24):
    """The laboratory's default problem: V = 4, L = 2, two prompts."""
    return drifted(build(ProblemSettings(policy=policy, reward=reward)), updates, 0.5)


def bandit():
    """Two responses of one token: mu = (1/2, 1/2), pi = (3/4, 1/4), rewards (1, 0)."""
    policy = TabularPolicy(Tree(2, 1), 1)
    start = torch.zeros(2, dtype=torch.float64)
    problem = Problem(policy, start, np.arange(2), np.array([[1.0, 0.0]]), np.ones((1, 2)))
    return Point(problem, start, torch.tensor([np.log(3.0), 0.0]))


def finite_differences(function, theta, width=1e-6):
    """Central differences of an array-valued function of theta: output shape x d."""
    columns = []
    for i in range(len(theta)):
        step = torch.zeros_like(theta)
        step[i] = width
        columns.append((function(theta + step) - function(theta - step)) / (2 * width))
    return np.stack(columns, axis=-1)
