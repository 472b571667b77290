"""Enumeration by hand, log-probabilities against a token-by-token loop, scores against differences."""

import numpy as np
import pytest
import torch

from driftlaw.theory.policies import NetworkPolicy, TabularPolicy, Tree

from .small import finite_differences

POLICIES = {
    "tabular": TabularPolicy(Tree(3, 2), 2),
    "network": NetworkPolicy(Tree(3, 2), 2, 4),
}


@pytest.fixture(params=POLICIES)
def policy(request):
    return POLICIES[request.param]


def start(policy):
    return policy.initial(np.random.default_rng(5), 0.7)


def test_tree_of_two_tokens_and_length_two():
    tree = Tree(2, 2)
    # Nodes: 0 is the empty prefix, 1 is prefix (0), 2 is prefix (1). Edge = 2 node + token.
    assert tree.nodes == 3
    assert tree.edges == 6
    assert tree.token_yl.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert tree.edge_yl.tolist() == [[0, 2], [0, 3], [1, 4], [1, 5]]
    assert tree.prefix_pl.tolist() == [[-1, -1], [0, -1], [1, -1]]


def test_every_edge_is_on_as_many_responses_as_its_depth_says():
    tree = Tree(3, 3)
    counts = np.bincount(tree.edge_yl.ravel())
    # 3 edges of depth 0 with 9 responses each, 9 of depth 1 with 3, 27 of depth 2 with 1.
    assert counts.tolist() == [9] * 3 + [3] * 9 + [1] * 27


def test_probabilities_of_all_responses_sum_to_one(policy):
    total_x = policy.token_logp(start(policy)).sum(2).exp().sum(1)
    assert total_x.numpy() == pytest.approx([1.0, 1.0], abs=1e-14)


def test_tabular_log_probabilities_token_by_token():
    policy, theta = POLICIES["tabular"], start(POLICIES["tabular"])
    logits = theta.numpy().reshape(2, 4, 3)
    logp_xyl = policy.token_logp(theta).numpy()
    for y, (first, second) in enumerate((a, b) for a in range(3) for b in range(3)):
        for x in range(2):
            # Node of the prefix (first): after the root come the prefixes 0, 1, 2.
            for t, (node, token) in enumerate(((0, first), (1 + first, second))):
                row = logits[x, node]
                expected = row[token] - np.log(np.exp(row).sum())
                assert logp_xyl[x, y, t] == pytest.approx(expected, abs=1e-14)


def test_the_network_sees_prompt_position_and_previous_token():
    policy, theta = POLICIES["network"], start(POLICIES["network"])
    logits = policy.logits(theta).numpy().reshape(8, 3)
    distances = np.abs(logits[:, None] - logits[None]).max(axis=2)
    # All (prompt, prefix) pairs have logits of their own.
    assert distances[~np.eye(8, dtype=bool)].min() > 1e-3


def test_scores_against_finite_differences(policy):
    theta = start(policy)
    expected = finite_differences(lambda v: policy.edge_logp(v).numpy(), theta)
    assert policy.scores(theta) == pytest.approx(expected, abs=1e-8)


def test_tabular_scores_in_closed_form():
    policy, theta = POLICIES["tabular"], start(POLICIES["tabular"])
    score_xed = policy.scores(theta).reshape(2, 4, 3, 2, 4, 3)
    probability = policy.logits(theta).softmax(2).numpy()
    expected = np.zeros_like(score_xed)
    for x in range(2):
        for node in range(4):
            # d log pi(v) / d logit(u) = 1{u = v} - pi(u), within a node.
            expected[x, node, :, x, node, :] = np.eye(3) - probability[x, node]
    assert score_xed == pytest.approx(expected, abs=1e-14)


def test_initial_logits_have_about_the_stated_deviation():
    policy = NetworkPolicy(Tree(4, 3), 4, 64)
    deviations = [
        float(policy.logits(policy.initial(np.random.default_rng(seed), 0.5)).std())
        for seed in range(20)
    ]
    assert np.mean(deviations) == pytest.approx(0.5, rel=0.25)


def test_scores_have_mean_zero_under_the_policy(policy):
    theta = start(policy)
    probability_xe = policy.edge_logp(theta).exp().numpy().reshape(2, -1, 3)
    score = policy.scores(theta).reshape(2, -1, 3, policy.size)
    assert np.abs((probability_xe[..., None] * score).sum(2)).max() < 1e-13


def test_theta_is_float64(policy):
    assert start(policy).dtype is torch.float64
