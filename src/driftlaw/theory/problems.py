"""Small problems: prompts, a policy, and rewards of every response, all known exactly.

An *outcome* o is a response together with the reward that it got, so that noisy rewards can be
enumerated too: response y_o (shared by the prompts), reward R_o and probability q_o = P(R_o | y_o).
Rewards without noise have one outcome a response.

sparse  1 for a few responses that the seed draws, 0 otherwise
dense   share of the L positions that match a target which the seed draws
noisy   sparse, and flipped with probability `flip`
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from driftlaw.config.lab_problem import ProblemSettings
from driftlaw.streams import generator
from driftlaw.theory.policies import Floats, Ints, NetworkPolicy, Policy, TabularPolicy, Tree

# The purpose of the laboratory's streams, beside those of `driftlaw.streams`: (seed, purpose, ...).
LABORATORY = 16


@dataclass(frozen=True)
class Problem:
    """Prompts of equal weight; arrays over X prompts, Y responses and O outcomes.

    start       d: the parameters that every drift begins from
    response_o  O: the response of an outcome
    reward_xo   X x O
    given_xo    X x O: probability of the outcome's reward given its response
    """

    policy: Policy
    start: torch.Tensor
    response_o: Ints
    reward_xo: Floats
    given_xo: Floats

    @property
    def prompts(self) -> int:
        return self.policy.prompts

    @property
    def tree(self) -> Tree:
        return self.policy.tree

    @property
    def expected_reward_xy(self) -> Floats:
        """X x Y: E[R | y]."""
        responses = self.tree.vocabulary**self.tree.length
        weighted_xo = self.given_xo * self.reward_xo
        return np.stack([np.bincount(self.response_o, row, responses) for row in weighted_xo])


def build(settings: ProblemSettings) -> Problem:
    """The problem of these settings."""
    tree = Tree(settings.vocabulary, settings.length)
    # One stream for the rewards and one for the weights: both policies are given the same rewards.
    rewards = generator((settings.seed, LABORATORY, 0))
    weights = generator((settings.seed, LABORATORY, 1))
    chosen: Policy
    if settings.policy == "tabular":
        chosen = TabularPolicy(tree, settings.prompts)
    else:
        chosen = NetworkPolicy(tree, settings.prompts, settings.hidden)
    if settings.reward == "dense":
        target = rewards.integers(tree.vocabulary, size=(settings.prompts, 1, tree.length))
        reward_xy = (tree.token_yl[None] == target).mean(axis=2)
    else:
        reward_xy = np.zeros((settings.prompts, len(tree.token_yl)))
        for row in reward_xy:
            row[rewards.choice(len(row), settings.rewarded, replace=False)] = 1.0
    response_o, given_xo = np.arange(reward_xy.shape[1]), np.ones_like(reward_xy)
    if settings.reward == "noisy":
        response_o = np.concatenate([response_o, response_o])
        reward_xy = np.hstack([reward_xy, 1.0 - reward_xy])
        given_xo = np.hstack([(1.0 - settings.flip) * given_xo, settings.flip * given_xo])
    start = chosen.initial(weights, settings.logit_scale)
    return Problem(chosen, start, response_o, reward_xy, given_xo)
