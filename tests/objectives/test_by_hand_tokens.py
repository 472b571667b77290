"""m2po's mask and decoupled_ppo's two ratios, worked out by hand."""

import math
from dataclasses import replace

import pytest
import torch

from .batches import batch_of_log_ratios, batch_of_ratios, evaluate


def kept(logs, threshold):
    """Which tokens m2po keeps, by row."""
    batch = batch_of_log_ratios(logs, [1.0] * len(logs), 1)
    result, _ = evaluate("m2po", batch, m2_threshold=threshold)
    masked = sum(map(len, logs)) - int((result.weights > 0).sum())
    assert result.metrics["cap_bound_share"] == pytest.approx(masked / sum(map(len, logs)))
    return [
        [int(w > 0) for w in row[: len(own)]]
        for row, own in zip(result.weights.tolist(), logs, strict=True)
    ]


class TestM2poMask:
    def test_the_largest_go_until_the_mean_is_at_the_threshold(self):
        # Squares .01, .09, .04, .25, .16: mean .11; without .25 .075; without .16 .0467.
        logs = [[0.1, -0.3, 0.2], [-0.5, 0.4]]
        assert kept(logs, 0.12) == [[1, 1, 1], [1, 1]]
        assert kept(logs, 0.08) == [[1, 1, 1], [0, 1]]
        assert kept(logs, 0.05) == [[1, 1, 1], [0, 0]]
        # (.01 + .04)/2 = .025 without .09
        assert kept(logs, 0.03) == [[1, 0, 1], [0, 0]]

    def test_the_default_threshold(self):
        # .04 is the default: squares .0361 and .0441 are one below and one above it.
        for log, keep in ((0.19, 1), (0.21, 0)):
            result, _ = evaluate("m2po", batch_of_log_ratios([[log]], [1.0], 1))
            assert bool(result.weights[0, 0] > 0) == bool(keep)

    def test_a_mean_equal_to_the_threshold_is_enough(self):
        # (1/4 + 0)/2 = 1/8 exactly.
        batch = batch_of_log_ratios([[0.5, 0.0]], [1.0], 1, logp=0.0)
        for threshold, share in ((0.125, 0.0), (0.1249, 0.5)):
            result, _ = evaluate("m2po", batch, m2_threshold=threshold)
            assert result.metrics["cap_bound_share"] == share

    def test_a_threshold_of_zero_keeps_tokens_without_a_shift(self):
        assert kept([[0.0, 0.1], [0.0, -0.1]], 0.0) == [[1, 0], [1, 0]]

    def test_of_equal_squares_the_later_goes_first(self):
        # Squares 1/4 (four of them, both signs) and 0: 4/20, 3/16, 2/12, 1/8, 0.
        logs = [[0.5, -0.5], [0.0, 0.5], [-0.5]]
        batch = batch_of_log_ratios(logs, [1.0] * 3, 1, logp=0.0)
        masks = {
            threshold: (evaluate("m2po", batch, m2_threshold=threshold)[0].weights > 0).tolist()
            for threshold in (0.19, 0.17, 0.13, 0.1)
        }
        assert masks[0.19] == [[True, True], [True, True], [False, False]]
        assert masks[0.17] == [[True, True], [True, False], [False, False]]
        assert masks[0.13] == [[True, False], [True, False], [False, False]]
        assert masks[0.1] == [[False, False], [True, False], [False, False]]

    def test_the_squares_are_not_clamped(self):
        # Squares 9 and 4, mean 6.5: the first goes. Clamped at 1 the mean would be 1, none would.
        # The second stays, but its ratio is clamped: no gradient, loss -(0 + e)/2.
        batch = batch_of_log_ratios([[3.0, 2.0]], [1.0], 1)
        result, gradient = evaluate("m2po", batch, m2_threshold=4.5, clamp=1.0)
        assert result.metrics == pytest.approx({"cap_bound_share": 0.5, "clamped_count": 2})
        assert float(result.loss.detach()) == pytest.approx(-math.e / 2)
        assert not gradient.any()

    def test_masked_tokens_count_in_the_normalisation(self):
        # Ratios 1, e: the second is masked (mean .5), the first has n/N = 1/2 all the same.
        _, gradient = evaluate("m2po", batch_of_log_ratios([[0.0, 1.0]], [1.0], 1))
        assert gradient[0].tolist() == [-0.5, 0.0]

    def test_the_advantage_has_no_say(self):
        logs = [[0.1, -0.3], [0.5, 0.0]]
        weights = [
            evaluate("m2po", batch_of_log_ratios(logs, advantages, 2))[0].weights.tolist()
            for advantages in ([1.0, 1.0], [-1.0, 0.0])
        ]
        assert weights[0] == weights[1]


def with_prox(ratio, prox_over_mu, advantage):
    """One token: pi/mu and pi_prox/mu."""
    batch = batch_of_ratios([[ratio]], [advantage], 1)
    return replace(batch, prox_logp=batch.behaviour_logp + math.log(prox_over_mu))


class TestDecoupledPpo:
    @pytest.mark.parametrize(
        ("ratio", "prox", "advantage", "weight", "loss", "bound"),
        [
            (2.2, 2.0, 1.0, 2.2, -2.2, 0),  # 2 * 1.1
            (2.2, 2.0, -1.0, 2.2, 2.2, 0),
            (2.6, 2.0, 1.0, 0.0, -2.4, 1),  # 1.3 clipped at 1.2
            (2.6, 2.0, -1.0, 2.6, 2.6, 0),
            (1.4, 2.0, 1.0, 1.4, -1.4, 0),
            (1.4, 2.0, -1.0, 0.0, 1.6, 1),  # .7 clipped at .8
            (8.8, 8.0, 1.0, 5.5, -5.5, 1),  # 8 capped at 5, times 1.1
            (10.4, 8.0, 1.0, 0.0, -6.0, 1),  # 5 * 1.2, both bind, one token
        ],
    )
    def test_given_prox(self, ratio, prox, advantage, weight, loss, bound):
        result, gradient = evaluate("decoupled_ppo", with_prox(ratio, prox, advantage))
        assert float(result.loss.detach()) == pytest.approx(loss)
        assert float(result.weights) == pytest.approx(weight)
        assert float(result.raw) == pytest.approx(ratio)
        assert float(gradient) == pytest.approx(-weight * advantage)
        assert result.metrics == pytest.approx({"cap_bound_share": bound, "clamped_count": 0})

    def test_default_prox_is_half_way_in_log_probability(self):
        # Ratio 9: pi_prox/mu = 3, pi/pi_prox = 3; A < 0: 3 * 3 is neither clipped nor capped.
        # Ratio 36: 6 is capped at 5, times 6.
        result, _ = evaluate("decoupled_ppo", batch_of_ratios([[9.0, 36.0]], [-1.0], 1))
        assert result.weights[0].tolist() == pytest.approx([9.0, 30.0])

    @pytest.mark.parametrize(
        ("alpha", "weight", "bound"),
        [
            (0.0, 8.0, 0),  # all of it in pi/pi_prox
            (1 / 3, 8.0, 0),  # 2 * 4
            (1.0, 5.0, 1),  # all of it in pi_prox/mu: tis at cap 5
        ],
    )
    def test_alpha(self, alpha, weight, bound):
        batch = batch_of_ratios([[8.0]], [-1.0], 1)
        result, gradient = evaluate("decoupled_ppo", batch, alpha=alpha)
        assert float(result.weights) == pytest.approx(weight)
        assert float(gradient) == pytest.approx(weight)
        assert result.metrics["cap_bound_share"] == bound

    def test_alpha_is_not_read_where_prox_is_given(self):
        batch = with_prox(2.2, 2.0, 1.0)
        results = [evaluate("decoupled_ppo", batch, alpha=alpha)[0] for alpha in (0.0, 0.5, 1.0)]
        assert all(torch.equal(result.weights, results[0].weights) for result in results)
