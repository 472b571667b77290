"""Losses, weights and metrics of each objective worked out by hand.

One batch serves all: G = 2, N = 6, l_max = 4, eps = 0.2, log pi = -1 on every token.

    row  token ratios    r     A     |y|
    a1   3, 1            3     +1    2     group a: mass 4.5 > C = 2.4
    a2   .5, 3, 1        1.5   -2    3
    b1   .5              .5    -1    1     group b: mass 1.05 < 2.4
    b2   1.1, .5         .55   +.5   2
    c1   3               3     0     1     group c: equal rewards, mass 4 > 2.4
    c2   1, 1            1     0     2
"""

import math

import pytest
import torch

from driftlaw.objectives import get

from .batches import L_MAX, NAMES, TRAJECTORY, batch_of_ratios, evaluate

RATIOS = [[3.0, 1.0], [0.5, 3.0, 1.0], [0.5], [1.1, 0.5], [3.0], [1.0, 1.0]]
ADVANTAGES = [1.0, -2.0, -1.0, 0.5, 0.0, 0.0]
LENGTHS = [2, 3, 1, 2, 1, 2]

# name -> (loss, weight of each token, cap_bound_share)
EXPECTED = {
    # n_i = 1/|y|.  a1: -(1.2 + 1)/2 = -1.1         A > 0 and 3 > 1.2: clipped, no gradient
    #               a2: +2 (0.8 + 3 + 1)/3 = 3.2    A < 0: .5 < .8 clipped, 3 is not
    #               b1: +1 * 0.8 = 0.8              A < 0 and .5 < .8: clipped
    #               b2: -.5 (1.1 + .5)/2 = -0.4     A > 0: .5 is not clipped
    # (-1.1 + 3.2 + 0.8 - 0.4)/6; 3 of 11 tokens clipped.
    "grpo": (
        2.5 / 6,
        [[0.0, 1.0], [0.0, 3.0, 1.0], [0.0], [1.1, 0.5], [3.0], [1.0, 1.0]],
        3 / 11,
    ),
    # a1: -(3 + 1)/2 = -2; a2: +2 (.5 + 3 + 1)/3 = 3; b1: .5; b2: -.5 (1.1 + .5)/2 = -.4
    "grpo_noclip": (1.1 / 6, RATIOS, 0.0),
    # n_i = 1/4.  a1: -1.2; a2: +2 * 1.2 = 2.4; b1: +.5; b2: -.5 * .55 = -.275; sum 1.425
    # a1, a2 (either sign of A) and c1 exceed 1.2: no gradient; 3 of 6 responses.
    "tic_mask": (
        1.425 / 24,
        [[0.0, 0.0], [0.0, 0.0, 0.0], [0.5], [0.55, 0.55], [0.0], [1.0, 1.0]],
        3 / 6,
    ),
    # log pi(y) = -|y|.  a1: -1.2 * 1 * -2 = 2.4; a2: -1.2 * -2 * -3 = -7.2
    #                    b1: -.5 * -1 * -1 = -.5;  b2: -.55 * .5 * -2 = .55; sum -4.75
    "tic_truncate": (
        -4.75 / 24,
        [[1.2, 1.2], [1.2, 1.2, 1.2], [0.5], [0.55, 0.55], [1.2], [1.0, 1.0]],
        3 / 6,
    ),
    # a: 2.4/4.5 * (3, 1.5) = (1.6, .8); b: as they are; c: 2.4/4 * (3, 1) = (1.8, .6)
    # a1: -1.6 * 1 * -2 = 3.2; a2: -.8 * -2 * -3 = -4.8; b1: -.5; b2: .55; sum -1.55
    "gmc": (
        -1.55 / 24,
        [[1.6, 1.6], [0.8, 0.8, 0.8], [0.5], [0.55, 0.55], [1.8], [0.6, 0.6]],
        2 / 3,
    ),
}


def padded(rows):
    return torch.tensor([row + [0.0] * (3 - len(row)) for row in rows], dtype=torch.float64)


@pytest.mark.parametrize("name", NAMES)
def test_loss_weights_gradient_and_metrics(name):
    loss, weights, bound = EXPECTED[name]
    result, gradient = evaluate(name, batch_of_ratios(RATIOS, ADVANTAGES, 2))
    assert float(result.loss.detach()) == pytest.approx(loss, abs=1e-12)
    torch.testing.assert_close(result.weights, padded(weights), rtol=0, atol=1e-12)
    assert result.metrics["cap_bound_share"] == pytest.approx(bound)
    assert result.metrics["clamped_count"] == 0
    factor = [1 / L_MAX if name in TRAJECTORY else 1 / n for n in LENGTHS]
    by_hand = [
        [-w * a * n / 6 for w in row] for row, a, n in zip(weights, ADVANTAGES, factor, strict=True)
    ]
    torch.testing.assert_close(gradient, padded(by_hand), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_raw_is_the_ratio_before_any_cap(name):
    result, _ = evaluate(name, batch_of_ratios(RATIOS, ADVANTAGES, 2))
    trajectory = [[math.prod(row)] * len(row) for row in RATIOS]
    expected = padded(trajectory if name in TRAJECTORY else RATIOS)
    torch.testing.assert_close(result.raw, expected, rtol=0, atol=1e-12)


# 2 and 1/2 are exact after log and exp, so these ratios sit exactly on their thresholds; the next
# number beyond is `log ratio` times 1 + 1e-12.
@pytest.mark.parametrize(
    ("name", "ratio", "advantage", "params", "at", "beyond"),
    [
        ("grpo", 2.0, 1.0, {"eps": 1.0}, 2.0, 0.0),
        ("grpo", 2.0, 1.0, {"eps": 0.2, "eps_high": 1.0}, 2.0, 0.0),
        ("grpo", 0.5, -1.0, {"eps": 0.5}, 0.5, 0.0),
        ("grpo", 0.5, -1.0, {"eps": 0.2, "eps_low": 0.5}, 0.5, 0.0),
        ("tic_mask", 2.0, 1.0, {"eps": 1.0}, 2.0, 0.0),
        ("tic_mask", 2.0, -1.0, {"eps": 1.0}, 2.0, 0.0),
        ("tic_truncate", 2.0, 1.0, {"eps": 1.0}, 2.0, 2.0),
        ("gmc", 2.0, 1.0, {"eps": 1.0}, 2.0, 2.0),
    ],
)
def test_exactly_at_the_cap_the_gradient_is_kept(name, ratio, advantage, params, at, beyond):
    batch = batch_of_ratios([[ratio]], [advantage], 1)
    assert float((batch.logp.detach() - batch.behaviour_logp).exp()[0, 0]) == ratio
    result, gradient = evaluate(name, batch, length_norm="constant", l_max=1, **params)
    assert float(gradient[0, 0]) == -at * advantage
    assert result.metrics["cap_bound_share"] == 0

    past = batch_of_ratios([[ratio ** (1 + 1e-12)]], [advantage], 1)
    result, gradient = evaluate(name, past, length_norm="constant", l_max=1, **params)
    assert float(gradient[0, 0]) == pytest.approx(-beyond * advantage, abs=1e-9)
    assert result.metrics["cap_bound_share"] == 1


def test_group_mass_exactly_at_the_cap_keeps_the_ratios():
    # G = 2, eps = .5: C = 3 = 2 + 1.
    result, _ = evaluate("gmc", batch_of_ratios([[2.0], [1.0]], [1.0, -1.0], 2), eps=0.5)
    assert result.weights.tolist() == [[2.0], [1.0]]
    assert result.metrics["cap_bound_share"] == 0


def test_responses_with_no_advantage_count_in_the_group_mass():
    # r = (1, 2, 1), C = 3.6, mass 4: the factor is .9 although A_2 = 0.
    result, gradient = evaluate(
        "gmc", batch_of_ratios([[1.0], [2.0], [1.0]], [1.0, 0.0, -1.0], 3), l_max=1
    )
    assert result.weights[:, 0].tolist() == pytest.approx([0.9, 1.8, 0.9])
    assert gradient[:, 0].tolist() == pytest.approx([-0.3, 0.0, 0.3])


def test_one_response_may_hold_the_whole_mass():
    # r = (8, 1e-6, 1e-6, 1e-6): the largest weight is almost G (1 + eps) = 4.8.
    ratios = [[8.0], [1e-6], [1e-6], [1e-6]]
    result, _ = evaluate("gmc", batch_of_ratios(ratios, [1.0, -1.0, 0.0, 0.0], 4))
    assert float(result.weights.max()) == pytest.approx(4.8, rel=1e-6)


def test_trajectory_ratio_is_a_product_token_ratio_is_not():
    # Tokens 4 and 1/4: the trajectory is on-policy, the tokens are not.
    batch = batch_of_ratios([[4.0, 0.25]], [1.0], 1)
    token_level = {"grpo": [0.0, 0.25], "grpo_noclip": [4.0, 0.25]}
    for name in NAMES:
        weights = evaluate(name, batch)[0].weights[0].tolist()
        assert weights == pytest.approx(token_level.get(name, [1.0, 1.0]), abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", ["sequence", "constant", "token"])
def test_row_without_tokens_adds_no_gradient_and_no_nan(name, norm):
    batch = batch_of_ratios([[1.0, 1.0], []], [1.0, -1.0], 2)
    result, gradient = evaluate(name, batch, length_norm=norm)
    # n_1 = 1/2, 1/4 or 2/2; N = 2.
    n = {"sequence": 1 / 2, "constant": 1 / 4, "token": 1.0}[norm]
    assert gradient.tolist() == [[-n / 2, -n / 2], [0.0, 0.0]]
    assert bool(torch.isfinite(result.loss))
    assert result.weights[1].tolist() == [0.0, 0.0]


# Above 20 nats the ratio is exp(20) and, where the gradient goes through the ratio, it is zero.
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("total", [25.0, -25.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_clamp_keeps_numbers_finite_and_stops_the_gradient_through_r(name, total, advantage):
    batch = batch_of_ratios([[math.exp(total)], [1.0]], [advantage, 0.0], 2)
    result, gradient = evaluate(name, batch, length_norm="constant", l_max=1)
    assert bool(torch.isfinite(result.loss))
    assert result.metrics["clamped_count"] == 1
    clamped = math.exp(math.copysign(20.0, total))
    assert float(result.raw[0, 0]) == pytest.approx(clamped)
    capped = {"tic_truncate": min(clamped, 1.2), "gmc": clamped * min(1, 2.4 / (clamped + 1))}
    weight = capped.get(name, 0.0)
    assert float(result.weights[0, 0]) == pytest.approx(weight, abs=1e-15)
    assert float(gradient[0, 0]) == pytest.approx(-weight * advantage / 2, abs=1e-15)


@pytest.mark.parametrize("name", ["grpo", "grpo_noclip", "tic_mask"])
def test_just_inside_the_clamp_the_gradient_flows(name):
    batch = batch_of_ratios([[math.exp(-19.9)]], [1.0], 1)
    result, gradient = evaluate(name, batch, length_norm="constant", l_max=1)
    assert float(gradient[0, 0]) == pytest.approx(-math.exp(-19.9), rel=1e-9)
    assert result.metrics["clamped_count"] == 0


def test_clamp_is_a_parameter():
    batch = batch_of_ratios([[math.exp(-3.0)]], [1.0], 1)
    result, gradient = evaluate("tic_mask", batch, l_max=1, clamp=2.0)
    assert float(result.raw[0, 0]) == pytest.approx(math.exp(-2.0))
    assert float(gradient[0, 0]) == 0.0
    assert float(result.loss.detach()) == pytest.approx(-math.exp(-2.0))


def test_only_the_sum_is_clamped_for_trajectories():
    # 30 - 30 nats: r = 1 and nothing is clamped; both tokens alone are outside.
    batch = batch_of_ratios([[math.exp(30.0), math.exp(-30.0)]], [1.0], 1)
    result, _ = evaluate("gmc", batch)
    assert result.weights[0].tolist() == pytest.approx([1.0, 1.0])
    assert result.metrics["clamped_count"] == 0
    assert evaluate("grpo_noclip", batch)[0].metrics["clamped_count"] == 2


@pytest.mark.parametrize(
    ("name", "norm"),
    [
        ("grpo", "sequence"),
        ("grpo_noclip", "sequence"),
        ("tic_mask", "constant"),
        ("tic_truncate", "constant"),
        ("gmc", "constant"),
    ],
)
def test_default_length_normalisation(name, norm):
    losses = {
        n: float(
            get(name, l_max=L_MAX, **({} if n is None else {"length_norm": n}))(
                batch_of_ratios(RATIOS, ADVANTAGES, 2)
            ).loss.detach()
        )
        for n in (None, "sequence", "constant", "token")
    }
    assert losses[None] == losses[norm]
    assert len({losses[n] for n in ("sequence", "constant", "token")}) == 3


@pytest.mark.parametrize("name", ["grpo", *TRAJECTORY])
def test_default_eps_is_one_fifth(name):
    default, _ = evaluate(name, batch_of_ratios(RATIOS, ADVANTAGES, 2))
    given, _ = evaluate(name, batch_of_ratios(RATIOS, ADVANTAGES, 2), eps=0.2)
    assert default.weights.tolist() == given.weights.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_float32_batch_with_float64_advantages(name):
    """As in training: float32 log-probabilities, float64 advantages; the loss stays float32."""
    batch = batch_of_ratios(RATIOS, ADVANTAGES, 2)
    single = type(batch)(
        batch.logp.detach().float().requires_grad_(),
        batch.behaviour_logp.float(),
        batch.mask,
        batch.advantages,
        2,
    )
    result, _ = evaluate(name, single)
    assert result.loss.dtype == torch.float32
    assert float(result.loss.detach()) == pytest.approx(EXPECTED[name][0], abs=1e-6)
