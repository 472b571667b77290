"""avg@k and pass@k by hand and by exhaustive enumeration."""

import itertools
import math

import numpy as np
import pytest

from driftlaw.evaluation.scores import avg_at_k, pass_at_k


def test_average_and_clustered_error_by_hand():
    # Prompt means 1, .5, 0, .5: mean .5; deviations .5 0 -.5 0, sample variance .5/3; P = 4.
    mean, se = avg_at_k([[1, 1], [1, 0], [0, 0], [0, 1]])
    assert mean == 0.5
    assert se == pytest.approx(math.sqrt(0.5 / 3 / 4))


def test_samples_of_one_prompt_are_not_observations():
    """Repeating each sample ten times adds no information, so the error stays."""
    scores = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    assert avg_at_k(np.repeat(scores, 10, axis=1)) == pytest.approx(avg_at_k(scores))


def test_partial_scores():
    mean, se = avg_at_k([[0.25, 0.75], [1.0, 0.0]])
    assert (mean, se) == (0.5, 0.0)


def test_one_prompt_has_no_error():
    mean, se = avg_at_k([[1, 0, 0, 0]])
    assert mean == 0.25 and math.isnan(se)


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_pass_at_k_is_the_mean_over_all_subsets(n):
    """1 - C(n-c, k)/C(n, k) is the share of k-subsets of the samples with a right one in them."""
    for k in range(1, n + 1):
        rows = [[i < c for i in range(n)] for c in range(n + 1)]
        shares = [
            np.mean([any(subset) for subset in itertools.combinations(row, k)]) for row in rows
        ]
        for row, share in zip(rows, shares, strict=True):
            assert pass_at_k([row], k)[0] == pytest.approx(share, abs=1e-15)
        mean, se = pass_at_k(rows, k)
        assert mean == pytest.approx(np.mean(shares))
        assert se == pytest.approx(np.std(shares, ddof=1) / math.sqrt(n + 1))


def test_pass_at_k_by_hand():
    # n = 4, k = 2: c = 1: 1 - 3/6 = .5; c = 2: 1 - 1/6; c = 3: 1; c = 0: 0.
    correct = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]]
    assert pass_at_k(correct, 2)[0] == pytest.approx((0.5 + 5 / 6 + 1 + 0) / 4)


def test_pass_at_1_is_the_average():
    correct = np.random.default_rng(0).random((20, 6)) < 0.3
    assert pass_at_k(correct, 1) == pytest.approx(avg_at_k(correct))


def test_pass_at_k_is_unbiased():
    """Over all 2^4 outcomes of 4 samples with p = .3, its exact expectation is 1 - .7^k."""
    for k in (1, 2, 3, 4):
        expected = 0.0
        for outcome in itertools.product([0, 1], repeat=4):
            weight = math.prod(0.3 if x else 0.7 for x in outcome)
            expected += weight * pass_at_k([outcome], k)[0]
        assert expected == pytest.approx(1 - 0.7**k)


def test_many_samples_do_not_overflow():
    # C(1000, 500) has 300 digits. One right of 1000, k = 500: one half.
    assert pass_at_k([[True] + [False] * 999], 500)[0] == pytest.approx(0.5)


@pytest.mark.parametrize("k", [0, -1, 4])
def test_a_biased_number_is_refused(k):
    with pytest.raises(ValueError, match=f"pass@{k} needs 1 <= k <= n, and n = 3"):
        pass_at_k([[1, 0, 1], [0, 0, 0]], k)


@pytest.mark.parametrize("scores", [[1.0, 0.0], [[]], [[[1.0]]], []])
def test_shapes_that_are_not_prompts_by_samples(scores):
    with pytest.raises(ValueError, match="prompts x samples"):
        avg_at_k(scores)
    with pytest.raises(ValueError, match="prompts x samples"):
        pass_at_k(scores, 1)
