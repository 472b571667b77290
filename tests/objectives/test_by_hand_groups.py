"""What a group does to its responses' weights, worked out by hand: gmc, water-filling, gepo, gspo."""

import math

import pytest
import torch

from .batches import batch_of_log_ratios, batch_of_ratios, evaluate


def test_group_mass_exactly_at_the_cap_keeps_the_ratios():
    # G = 2, eps = .5: C = 3 = 2 + 1.
    for name in ("gmc", "gmc_waterfill"):
        result, _ = evaluate(name, batch_of_ratios([[2.0], [1.0]], [1.0, -1.0], 2), eps=0.5)
        assert result.weights.tolist() == [[2.0], [1.0]]
        assert result.metrics["cap_bound_share"] == 0


def test_responses_with_no_advantage_count_in_the_group_mass():
    # r = (1, 2, 1), C = 3.6, mass 4: the factor is .9 although A_2 = 0.
    batch = batch_of_ratios([[1.0], [2.0], [1.0]], [1.0, 0.0, -1.0], 3)
    result, gradient = evaluate("gmc", batch, l_max=1)
    assert result.weights[:, 0].tolist() == pytest.approx([0.9, 1.8, 0.9])
    assert gradient[:, 0].tolist() == pytest.approx([-0.3, 0.0, 0.3])
    # Water-filling: c = 3.6 - 2 = 1.6 takes it all from the second.
    result, gradient = evaluate("gmc_waterfill", batch, l_max=1)
    assert result.weights[:, 0].tolist() == pytest.approx([1.0, 1.6, 1.0])
    assert gradient[:, 0].tolist() == pytest.approx([-1 / 3, 0.0, 1 / 3])


@pytest.mark.parametrize("name", ["gmc", "gmc_waterfill"])
def test_one_response_may_hold_the_whole_mass(name):
    # r = (8, 1e-6, 1e-6, 1e-6): the largest weight is almost G (1 + eps) = 4.8.
    ratios = [[8.0], [1e-6], [1e-6], [1e-6]]
    result, _ = evaluate(name, batch_of_ratios(ratios, [1.0, -1.0, 0.0, 0.0], 4))
    assert float(result.weights.max()) == pytest.approx(4.8, rel=1e-5)


@pytest.mark.parametrize(
    ("ratios", "eps", "expected"),
    [
        # Mass 7 > 4.8 = C.  k = 2: c = (4.8 - 1.5)/2 = 1.65, 1 <= 1.65 < 2.
        ([3.5, 0.5, 1.0, 2.0], 0.2, [1.65, 0.5, 1.0, 1.65]),
        # C = 4.  k = 3: c = 4 - 1.75 = 2.25, between 1 and 4.
        ([0.25, 4.0, 1.0, 0.5], 0.0, [0.25, 2.25, 1.0, 0.5]),
        # k = 0: all are over c = 1.2.
        ([5.0, 2.0, 3.0, 1.3], 0.2, [1.2, 1.2, 1.2, 1.2]),
        # Equal ratios at the top share what is left: (4.8 - .8)/2 = 2.
        ([3.0, 0.4, 3.0, 0.4], 0.2, [2.0, 0.4, 2.0, 0.4]),
        # A ratio exactly at the level is kept: C = 4, c = (4 - .5)/2 = 1.75 with .25, .25 below.
        ([5.0, 1.75, 0.25, 0.25], 0.0, [1.75, 1.75, 0.25, 0.25]),
        # Under the cap: 4.5 <= 4.8.
        ([3.0, 0.5, 0.5, 0.5], 0.2, [3.0, 0.5, 0.5, 0.5]),
    ],
)
def test_water_level(ratios, eps, expected):
    batch = batch_of_ratios([[r] for r in ratios], [1.0, -1.0, 0.5, -0.5], 4)
    result, _ = evaluate("gmc_waterfill", batch, eps=eps)
    assert result.weights[:, 0].tolist() == pytest.approx(expected, abs=1e-12)


class TestThroughTheWeights:
    """gmc with through_gradient: L = -(n/N) sum_i w_i A_i, w_i = r_i min(1, C / sum_j r_j)."""

    def test_while_the_cap_is_active(self):
        # r = (3, 1), C = 2.4, w = (1.8, .6), A = (1, -1); n/N = 1/2.
        # sum w A / sum w = 1.2/2.4 = .5: 1.8 (1 - .5) = .9 and .6 (-1 - .5) = -.9.
        batch = batch_of_ratios([[3.0, 1.0], [1.0]], [1.0, -1.0], 2)
        result, gradient = evaluate("gmc", batch, l_max=1, through_gradient=True)
        assert float(result.loss.detach()) == pytest.approx(-0.6)
        assert result.weights.tolist() == [pytest.approx([1.8, 1.8]), pytest.approx([0.6, 0.0])]
        assert gradient.tolist() == [pytest.approx([-0.45, -0.45]), pytest.approx([0.45, 0.0])]
        assert result.metrics["cap_bound_share"] == 1

    def test_responses_with_no_advantage_are_pushed_too(self):
        # r = (1, 2, 1), w = .9 r, A = (1, 0, 0): sum w A / sum w = .9/3.6 = .25.
        batch = batch_of_ratios([[1.0], [2.0], [1.0]], [1.0, 0.0, 0.0], 3)
        _, gradient = evaluate("gmc", batch, l_max=1, through_gradient=True)
        # -(1/3) (.9 * .75, -1.8 * .25, -.9 * .25)
        assert gradient[:, 0].tolist() == pytest.approx([-0.225, 0.15, 0.075])

    def test_equal_advantages_have_no_gradient_while_the_cap_is_active(self):
        # The mass is pinned to C, so -A sum w is a constant.
        batch = batch_of_ratios([[3.0], [1.0]], [1.0, 1.0], 2)
        _, gradient = evaluate("gmc", batch, l_max=1, through_gradient=True)
        assert gradient[:, 0].tolist() == pytest.approx([0.0, 0.0], abs=1e-15)

    def test_under_the_cap_and_at_it_the_gradient_is_that_of_the_ratio(self):
        # Mass 3 = C at eps = .5.
        for eps in (0.5, 0.6):
            batch = batch_of_ratios([[2.0], [1.0]], [1.0, -1.0], 2, logp=0.0)
            _, gradient = evaluate("gmc", batch, l_max=1, eps=eps, through_gradient=True)
            assert gradient[:, 0].tolist() == [-1.0, 0.5]

    def test_a_clamped_response_has_no_gradient_but_holds_its_mass(self):
        # Clamp 1: r = (e, 1), C = 2.4, w_2 = 2.4/(e + 1), sum w A / C = -w_2/2.4.
        batch = batch_of_log_ratios([[3.0], [0.0]], [0.0, -1.0], 2)
        result, gradient = evaluate("gmc", batch, l_max=1, clamp=1.0, through_gradient=True)
        w = 2.4 / (math.e + 1)
        assert result.weights[1, 0].item() == pytest.approx(w)
        assert gradient[:, 0].tolist() == pytest.approx([0.0, -w * (-1 + w / 2.4) / 2])

    def test_each_length_normalisation_weighs_the_mean_of_the_group(self):
        # As the first case with n = (1/2, 1): sum n w A = .9 - .6 = .3, over C = 2.4: .125.
        # (1.8 (.5 - .125), .6 (-1 - .125)) = (.675, -.675), times -1/2.
        batch = batch_of_ratios([[3.0, 1.0], [1.0]], [1.0, -1.0], 2)
        _, gradient = evaluate("gmc", batch, length_norm="sequence", through_gradient=True)
        assert gradient[:, 0].tolist() == pytest.approx([-0.3375, 0.3375])


def test_gepo_differs_from_reinforce_on_policy():
    """p = q = (1/2, 1/4): the denominator is (1/4 + 1/16)/(3/4) = 5/12, s = (1.2, .6)."""
    logs = [math.log(0.5), math.log(0.25)]
    batch = batch_of_ratios([[1.0, 1.0], [1.0, 1.0]], [1.0, 1.0], 2)
    logp = torch.tensor([[x, x] for x in logs], dtype=torch.float64).requires_grad_()
    batch = type(batch)(logp, logp.detach(), batch.mask, batch.advantages, 2)
    result, gradient = evaluate("gepo", batch, eps=0.5)
    assert result.weights[:, 0].tolist() == pytest.approx([1.2, 0.6])
    # n_i = 1/2, N = 2.
    assert gradient.tolist() == [pytest.approx([-0.3, -0.3]), pytest.approx([-0.15, -0.15])]
    # Where all q are equal it is the ratio of geometric means, 1 on-policy.
    same = batch_of_ratios([[1.0], [1.0]], [1.0, -1.0], 2)
    assert evaluate("gepo", same)[0].weights[:, 0].tolist() == pytest.approx([1.0, 1.0])


def test_gepo_takes_the_mean_over_tokens_not_their_sum():
    # Token ratios 4 and 1, log pi = -1: p/q = 2 alone in its group.
    result, _ = evaluate("gepo", batch_of_ratios([[4.0, 1.0]], [-1.0], 1))
    assert result.weights[0].tolist() == pytest.approx([2.0, 2.0])


def test_gspo_weighs_by_the_root_of_the_ratio():
    # r = 4 on two tokens: s = 2, n = 1/2, N = 1, A = -1 (no upper clip).
    result, gradient = evaluate("gspo", batch_of_ratios([[4.0, 1.0]], [-1.0], 1))
    assert result.weights[0].tolist() == pytest.approx([2.0, 2.0])
    assert gradient[0].tolist() == pytest.approx([1.0, 1.0])
    assert float(result.loss.detach()) == pytest.approx(2.0)
