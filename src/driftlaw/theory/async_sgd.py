"""Asynchronous SGD with exact gradients: small softmax problems whose |grad J|^2 is known at every update.

A prompt x has Y responses and a logit for each; pi(y | x) = softmax(theta_x). A sampled reward is R_xy,
flipped with probability `flip`. With theta_0 the first logits and X prompts,

    J(theta)    = (1/X) sum_x [ sum_y pi(y | x) E R_xy - (penalty/2) |theta_x - theta_0x|^2 ]
    grad_x J    = (1/X) [ pi o (E R_x - pi' E R_x) - penalty (theta_x - theta_0x) ]
    theta_{t+1} = theta_t + eta g(theta_t; groups of G responses of each prompt from theta_v(t))
    v(t)        = max(0, t - tau)                                  delay tau, `Schedule(tau, 1)`

g is the objective's estimator (`theory.estimators`) at theta_t, its ratios pi_{theta_t} / pi_{theta_v(t)},
plus the exact gradient of the penalty. Plain SGD. The figure of merit is the theorem's:

    metric(N) = (1/N) sum_{t<N} |grad J(theta_t)|^2

Why flips and a penalty [choice]: without noise the largest step is the best one, and near certainty, right
or wrong, every gradient of a softmax vanishes, so that a step which destroys the policy would score best.

With leave-one-out advantages A_i = R_i - mean_{j != i} R_j an uncapped estimator has mean grad J at any
delay, as r_i A_i does under mu and the peers only shift a baseline; all bias is then the cap's [derived].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftlaw.config.lab_dynamics import AsyncSgdSettings
from driftlaw.schedule import Schedule
from driftlaw.streams import generator
from driftlaw.theory.estimators import Objective, estimate
from driftlaw.theory.problems import LABORATORY

Floats = NDArray[np.float64]

# The fourth number of the streams of this module, after (seed, LABORATORY, ASYNC_SGD).
ASYNC_SGD = 2
PROBLEM, RUNS, BOOTSTRAP = range(3)
STD_FLOOR = 1e-4


@dataclass(frozen=True)
class Softmax:
    """X prompts with a logit for each of Y responses.

    start_xy   X x Y first logits, nats
    reward_xy  X x Y rewards before a flip, 0 or 1
    flip       probability that a sampled reward flips
    penalty    ridge on the logits, reward / nat^2
    """

    start_xy: Floats
    reward_xy: Floats
    flip: float
    penalty: float

    @property
    def expected_xy(self) -> Floats:
        """X x Y: E[R | y]."""
        return self.reward_xy + self.flip * (1.0 - 2.0 * self.reward_xy)

    def value(self, theta_nxy: Floats) -> Floats:
        """(...): J at logits ... x X x Y."""
        reward = (np.exp(log_softmax(theta_nxy)) * self.expected_xy).sum(-1)
        distance = ((theta_nxy - self.start_xy) ** 2).sum(-1)
        return np.asarray((reward - 0.5 * self.penalty * distance).mean(-1))

    def reward(self, theta_nxy: Floats) -> Floats:
        """(...): the expected reward alone, without the penalty."""
        return np.asarray((np.exp(log_softmax(theta_nxy)) * self.expected_xy).sum(-1).mean(-1))

    def gradient(self, theta_nxy: Floats) -> Floats:
        """... x X x Y: grad J."""
        probability = np.exp(log_softmax(theta_nxy))
        mean = (probability * self.expected_xy).sum(-1, keepdims=True)
        pull = self.penalty * (theta_nxy - self.start_xy)
        return (probability * (self.expected_xy - mean) - pull) / len(self.start_xy)


def build(settings: AsyncSgdSettings) -> Softmax:
    """The problem of these settings: logits and rewarded responses drawn from `seed`."""
    draw = generator((settings.seed, LABORATORY, ASYNC_SGD, PROBLEM))
    shape = (settings.prompts, settings.responses)
    reward_xy = np.zeros(shape)
    for row in reward_xy:
        row[draw.choice(settings.responses, settings.rewarded, replace=False)] = 1.0
    start_xy = settings.logit_scale * draw.standard_normal(shape)
    return Softmax(start_xy, reward_xy, settings.flip, settings.penalty)


def random_numbers(
    seed: int, runs: Sequence[int], updates: int, prompts: int, group_size: int
) -> Floats:
    """N x S x X x G x 2 uniforms: one for the response, one for the flip.

    Run s has a stream of its own, named by seed, G and runs[s] alone, so that all methods, delays, slacks
    and step sizes meet the same numbers, and fewer updates are a prefix of more.
    """
    shape = (updates, prompts, group_size, 2)
    rows = [
        generator((seed, LABORATORY, ASYNC_SGD, RUNS, group_size, run)).random(shape)
        for run in runs
    ]
    return np.stack(rows, axis=1)


@dataclass(frozen=True)
class Trace:
    """H horizons x K delays x E step sizes x S seeds.

    metric  mean |grad J|^2 over the updates before the horizon
    reward  expected reward after the last of them
    """

    metric: Floats
    reward: Floats


def simulate(
    problem: Softmax,
    objective: Objective,
    taus: Sequence[int],
    lrs: Floats,
    random_nsxgu: Floats,
    horizons: Sequence[int],
    advantage: str = "leave_one_out",
) -> Trace:
    """Run every delay with every step size and seed; each row has its own theta and its own past.

    lrs: E. random_nsxgu: `random_numbers`, at least max(horizons) updates; S and G are its shape. A row that
    leaves the floating-point range has a metric of inf from there on.
    """
    shape = (len(taus), len(lrs), random_nsxgu.shape[1])
    rows = np.arange(np.prod(shape))
    schedules = [Schedule(tau, 1) for tau in taus]
    lr_r = np.broadcast_to(np.asarray(lrs)[:, None], shape).reshape(-1, 1, 1)
    theta = np.broadcast_to(problem.start_xy, (len(rows), *problem.start_xy.shape)).copy()
    # The last max(tau) + 1 logits of every row: version v lies in slot v mod their number.
    slots = max(taus) + 1
    past = np.empty((slots, *theta.shape))
    total = np.zeros(len(rows))
    metric, reward = [], []
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(max(horizons)):
            total += (problem.gradient(theta) ** 2).sum(axis=(1, 2))
            past[t % slots] = theta
            version_r = np.repeat([s.version(t) for s in schedules], shape[1] * shape[2])
            behaviour = past[version_r % slots, rows]
            random_rxgu = np.tile(random_nsxgu[t], (shape[0] * shape[1], 1, 1, 1))
            theta = theta + lr_r * update(
                problem, objective, theta, behaviour, random_rxgu, advantage
            )
            if t + 1 in horizons:
                metric.append((total / (t + 1)).reshape(shape))
                reward.append(problem.reward(theta).reshape(shape))
    found = np.stack(metric)
    return Trace(np.where(np.isfinite(found), found, np.inf), np.stack(reward))


def update(
    problem: Softmax,
    objective: Objective,
    theta_rxy: Floats,
    behaviour_rxy: Floats,
    random_rxgu: Floats,
    advantage: str,
) -> Floats:
    """R x X x Y: the estimate g of each row from its own groups.

    sum_i c_i grad log pi(y_i) = sum_i c_i (e_{y_i} - pi), with c_i = w_i A_i / G from the objective's loss.
    """
    rows, prompts, group_size, _ = random_rxgu.shape
    logpi, logmu = log_softmax(theta_rxy), log_softmax(behaviour_rxy)
    y_rxg = sample(logmu, random_rxgu[..., 0])
    reward_rxg = np.take_along_axis(np.broadcast_to(problem.reward_xy, logpi.shape), y_rxg, axis=2)
    reward_rxg = np.abs(reward_rxg - (random_rxgu[..., 1] < problem.flip))
    advantage_rxg = advantages(reward_rxg, advantage)
    shape = (rows * prompts, group_size, 1)
    found = estimate(
        objective,
        np.take_along_axis(logpi, y_rxg, axis=2).reshape(shape),
        np.take_along_axis(logmu, y_rxg, axis=2).reshape(shape),
        advantage_rxg.reshape(shape[:2]),
    )
    c_rxg = found.coefficient_mgl.reshape(rows, prompts, group_size)
    cell = np.arange(rows * prompts)[:, None] * logpi.shape[2] + y_rxg.reshape(shape[:2])
    at_response = np.bincount(cell.ravel(), c_rxg.ravel(), logpi.size).reshape(logpi.shape)
    score = at_response - c_rxg.sum(2, keepdims=True) * np.exp(logpi)
    return (score - problem.penalty * (theta_rxy - problem.start_xy)) / prompts


def sample(logmu_rxy: Floats, uniform_rxg: Floats) -> NDArray[np.int64]:
    """R x X x G responses by the inverse of mu's distribution function."""
    ladder = np.exp(logmu_rxy).cumsum(2)[..., :-1]
    out = np.zeros(uniform_rxg.shape, dtype=np.int64)
    for y in range(ladder.shape[2]):
        out += uniform_rxg >= ladder[..., y, None]
    return out


def advantages(reward_rxg: Floats, kind: str) -> Floats:
    """R x X x G: `leave_one_out` (R - mean) G/(G - 1) = R_i - mean of the others, or `std`."""
    centred = reward_rxg - reward_rxg.mean(2, keepdims=True)
    if kind == "leave_one_out":
        group_size = reward_rxg.shape[2]
        return centred * (group_size / (group_size - 1))
    return np.asarray(centred / (centred.std(2, keepdims=True) + STD_FLOOR))


def log_softmax(theta: Floats) -> Floats:
    """Along the last axis."""
    shifted = theta - theta.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))
