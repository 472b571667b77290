"""Losses, weights and metrics of each objective worked out by hand.

One batch serves all: G = 2, N = 6, 9 tokens, l_max = 4, eps = 0.2, log pi = -1 on every token.

    row  token ratios    r     A     |y|
    a1   3, 1            3     +1    2     group a: mass 4.5 > C = 2.4
    a2   .5, 3, 1        1.5   -2    3
    b1   .5              .5    -1    1     group b: mass 1.05 < 2.4
    b2   1.1, .5         .55   +.5   2
    c1   3               3     0     1     group c: equal rewards, mass 3 + 1 > 2.4
    c2   (no token)      1     0     0
"""

import math
from dataclasses import dataclass, field

import pytest
import torch

from .batches import L_MAX, NAMES, SEQUENCE, TRAJECTORY, batch_of_ratios, evaluate

RATIOS = [[3.0, 1.0], [0.5, 3.0, 1.0], [0.5], [1.1, 0.5], [3.0], []]
ADVANTAGES = [1.0, -2.0, -1.0, 0.5, 0.0, 0.0]
LENGTHS = [2, 3, 1, 2, 1, 0]


@dataclass
class ByHand:
    """n: length norm; weights: one a token; share: what the cap binds."""

    n: str
    loss: float
    weights: list[list[float]]
    share: float
    params: dict[str, float] = field(default_factory=dict)


def each(values):
    """The trajectory's weight on all its tokens."""
    return [[w] * n for w, n in zip(values, LENGTHS, strict=True)]


# Geometric means of the responses' token ratios: 3^(1/2), 1.5^(1/3), .5, .55^(1/2), 3.
MEAN_A1, MEAN_A2, MEAN_B2 = math.sqrt(3.0), 1.5 ** (1 / 3), math.sqrt(0.55)
# gepo: p = e^-1 and q = e^-1 / mean, so s = p / (sum q^2 / sum q) = sum(1/mean) / sum(1/mean^2).
GEPO_A = (1 / MEAN_A1 + 1 / MEAN_A2) / (1 / 3 + 1 / MEAN_A2**2)  # 1.4509 / 1.0965 = 1.3233
GEPO_B = (2 + 1 / MEAN_B2) / (4 + 1 / 0.55)  # 3.3484 / 5.8182 = .5755
GEPO_C = 3.0  # c2 is left out: (1/3) / (1/9)

BY_HAND = {
    # a1: -(1.2 + 1)/2 = -1.1         A > 0 and 3 > 1.2: clipped, no gradient
    # a2: +2 (0.8 + 3 + 1)/3 = 3.2    A < 0: .5 < .8 clipped, 3 is not
    # b1: +1 * 0.8 = 0.8              A < 0 and .5 < .8: clipped
    # b2: -.5 (1.1 + .5)/2 = -0.4     A > 0: .5 is not clipped
    # (-1.1 + 3.2 + 0.8 - 0.4)/6; 3 of 9 tokens clipped.
    "grpo": ByHand(
        "sequence", 2.5 / 6, [[0.0, 1.0], [0.0, 3.0, 1.0], [0.0], [1.1, 0.5], [3.0], []], 3 / 9
    ),
    # a1: -(3 + 1)/2 = -2; a2: +2 (.5 + 3 + 1)/3 = 3; b1: .5; b2: -.5 (1.1 + .5)/2 = -.4
    "grpo_noclip": ByHand("sequence", 1.1 / 6, RATIOS, 0.0),
    # n_i = 6/9, so loss = sum over tokens / 9.
    # a1: -(1.28 + 1) = -2.28; a2: +2 (.8 + 3 + 1) = 9.6; b1: .8; b2: -.5 * 1.6 = -.8
    "dapo": ByHand(
        "token", 7.32 / 9, [[0.0, 1.0], [0.0, 3.0, 1.0], [0.0], [1.1, 0.5], [3.0], []], 3 / 9
    ),
    # n_i = 1/4.  a1: -2.2; a2: 9.6; b1: .8; b2: -.8
    "dr_grpo": ByHand(
        "constant", 7.4 / 24, [[0.0, 1.0], [0.0, 3.0, 1.0], [0.0], [1.1, 0.5], [3.0], []], 3 / 9
    ),
    # n_i = 1/4.  a1: -1.2; a2: +2 * 1.2 = 2.4; b1: +.5; b2: -.5 * .55 = -.275; sum 1.425
    # a1, a2 (either sign of A) and c1 exceed 1.2: no gradient; 3 of 6 responses.
    "tic_mask": ByHand("constant", 1.425 / 24, each([0.0, 0.0, 0.5, 0.55, 0.0, 1.0]), 3 / 6),
    # As the mask where A > 0; a2: +2 * 1.5 = 3 keeps its gradient; c1 has no sign to clip.
    # -1.2 + 3 + .5 - .275 = 2.025
    "tic_ppo": ByHand("constant", 2.025 / 24, each([0.0, 1.5, 0.5, 0.55, 3.0, 1.0]), 1 / 6),
    # log pi(y) = -|y|.  a1: -1.2 * 1 * -2 = 2.4; a2: -1.2 * -2 * -3 = -7.2
    #                    b1: -.5 * -1 * -1 = -.5;  b2: -.55 * .5 * -2 = .55; sum -4.75
    "tic_truncate": ByHand("constant", -4.75 / 24, each([1.2, 1.2, 0.5, 0.55, 1.2, 1.0]), 3 / 6),
    # a: 2.4/4.5 * (3, 1.5) = (1.6, .8); b: as they are; c: 2.4/4 * (3, 1) = (1.8, .6)
    # a1: -1.6 * 1 * -2 = 3.2; a2: -.8 * -2 * -3 = -4.8; b1: -.5; b2: .55; sum -1.55
    "gmc": ByHand("constant", -1.55 / 24, each([1.6, 0.8, 0.5, 0.55, 1.8, 0.6]), 2 / 3),
    # a: both over c = 1.2 (k = 0); b: as they are; c: c = 2.4 - 1 = 1.4 (k = 1)
    # a1: 2.4; a2: -7.2; b1: -.5; b2: .55; sum -4.75
    "gmc_waterfill": ByHand("constant", -4.75 / 24, each([1.2, 1.2, 0.5, 0.55, 1.4, 1.0]), 2 / 3),
    # a1: A > 0, 1.3233 clipped: -1.2; a2: A < 0: +2 * 1.3233; b1: A < 0, .5755 clipped: .8
    # b2: A > 0: -.5 * .5755
    "gepo": ByHand(
        "sequence",
        (-1.2 + 2 * GEPO_A + 0.8 - 0.5 * GEPO_B) / 6,
        each([0.0, GEPO_A, 0.0, GEPO_B, GEPO_C, 0.0]),
        2 / 6,
    ),
    # s = 1.7321, 1.1447, .5, .7416, 3.  a1: clipped, -1.2; a2: within, +2 * 1.1447
    # b1: A < 0, clipped: .8; b2: A > 0: -.5 * .7416
    "gspo": ByHand(
        "sequence",
        (-1.2 + 2 * MEAN_A2 + 0.8 - 0.5 * MEAN_B2) / 6,
        each([0.0, MEAN_A2, 0.0, MEAN_B2, 3.0, 0.0]),
        2 / 6,
        {"eps": 0.2},
    ),
    # Cap 2.5, token loss w A (log pi = -1).  a1: 3.5; a2: -2 * 4 = -8; b1: -.5; b2: .5 * 1.6 = .8
    "cispo": ByHand(
        "token",
        -4.2 / 9,
        [[2.5, 1.0], [0.5, 2.5, 1.0], [0.5], [1.1, 0.5], [2.5], []],
        3 / 9,
        {"cap": 2.5},
    ),
    # Cap 2.  a1: 3; a2: -2 * 3.5 = -7; b1: -.5; b2: .8
    "tis": ByHand(
        "token", -3.7 / 9, [[2.0, 1.0], [0.5, 2.0, 1.0], [0.5], [1.1, 0.5], [2.0], []], 3 / 9
    ),
    # Squares: ln^2 3 = 1.2069 (three), ln^2 .5 = .4805 (three), ln^2 1.1 = .0091, 0 (two).
    # Threshold .2: without the 3's the mean is (3 * .4805 + .0091)/6 = .2417; of the .5's the last,
    # b2's, goes: (2 * .4805 + .0091)/5 = .194. Kept 1 | .5, 1 | .5 | 1.1.
    # a1: -1; a2: +2 * 1.5 = 3; b1: .5; b2: -.55
    "m2po": ByHand(
        "token",
        1.95 / 9,
        [[0.0, 1.0], [0.5, 0.0, 1.0], [0.5], [1.1, 0.0], [0.0], []],
        4 / 9,
        {"m2_threshold": 0.2},
    ),
    # pi_prox/mu and pi/pi_prox are both the root: 1.7321 of 3, .7071 of .5, 1.0488 of 1.1. Cap 1.5.
    # a1: -(1.5 * 1.2 + 1) = -2.8           clipped
    # a2: +2 (.7071 * .8 + 1.5 * 1.7321 + 1)  .5 clipped, 3 at the cap
    # b1: .7071 * .8                        clipped
    # b2: -.5 (1.1 + .5) = -.8
    # c1: weight 1.5 * 1.7321.  Bound: two clipped .5's and three 3's of 9.
    "decoupled_ppo": ByHand(
        "token",
        (-2.8 + 2 * (0.8 * math.sqrt(0.5) + 1.5 * math.sqrt(3) + 1) + 0.8 * math.sqrt(0.5) - 0.8)
        / 9,
        [
            [0.0, 1.0],
            [0.0, 1.5 * math.sqrt(3), 1.0],
            [0.0],
            [1.1, 0.5],
            [1.5 * math.sqrt(3)],
            [],
        ],
        5 / 9,
        {"cap": 1.5},
    ),
}


def padded(rows):
    return torch.tensor([row + [0.0] * (3 - len(row)) for row in rows], dtype=torch.float64)


def factors(norm):
    return {
        "sequence": [1 / n if n else 0.0 for n in LENGTHS],
        "constant": [1 / L_MAX] * 6,
        "token": [6 / 9] * 6,
    }[norm]


@pytest.mark.parametrize("name", NAMES)
def test_loss_weights_gradient_and_metrics(name):
    hand = BY_HAND[name]
    result, gradient = evaluate(name, batch_of_ratios(RATIOS, ADVANTAGES, 2), **hand.params)
    assert float(result.loss.detach()) == pytest.approx(hand.loss, abs=1e-12)
    torch.testing.assert_close(result.weights, padded(hand.weights), rtol=0, atol=1e-12)
    assert result.metrics["cap_bound_share"] == pytest.approx(hand.share)
    assert result.metrics["clamped_count"] == 0
    by_hand = [
        [-w * a * n / 6 for w in row]
        for row, a, n in zip(hand.weights, ADVANTAGES, factors(hand.n), strict=True)
    ]
    torch.testing.assert_close(gradient, padded(by_hand), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_raw_is_the_ratio_before_any_cap(name):
    result, _ = evaluate(name, batch_of_ratios(RATIOS, ADVANTAGES, 2))
    expected = RATIOS
    if name in TRAJECTORY:
        expected = each([3.0, 1.5, 0.5, 0.55, 3.0, 1.0])
    elif name == "gspo":
        expected = each([MEAN_A1, MEAN_A2, 0.5, MEAN_B2, 3.0, 0.0])
    elif name == "gepo":
        expected = each([GEPO_A, GEPO_A, GEPO_B, GEPO_B, GEPO_C, 0.0])
    torch.testing.assert_close(result.raw, padded(expected), rtol=0, atol=1e-12)


def test_trajectory_ratio_is_a_product_token_ratio_is_not():
    # Tokens 4 and 1/4: the trajectory is on-policy, the tokens are not.
    batch = batch_of_ratios([[4.0, 0.25]], [1.0], 1)
    token_level = {
        "grpo": [0.0, 0.25],
        "grpo_noclip": [4.0, 0.25],
        "dapo": [0.0, 0.25],
        "dr_grpo": [0.0, 0.25],
        "cispo": [4.0, 0.25],
        "tis": [2.0, 0.25],
        "m2po": [0.0, 0.0],  # ln^2 4 = ln^2 1/4 = 1.92
        "decoupled_ppo": [0.0, 0.25],
    }
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
    n = 1 / 2 if name in SEQUENCE else n
    assert gradient.tolist() == [[-n / 2, -n / 2], [0.0, 0.0]]
    assert bool(torch.isfinite(result.loss))
    assert result.weights[1].tolist() == [0.0, 0.0]
    assert result.raw[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", NAMES)
def test_default_length_normalisation(name):
    """By the batch's first response alone: n_i = 1/2, 1/4, 6/9 differ."""
    _, gradient = evaluate(
        name, batch_of_ratios([[1.0] * len(row) for row in RATIOS], ADVANTAGES, 2)
    )
    assert float(gradient[0, 0]) == pytest.approx(-factors(BY_HAND[name].n)[0] / 6)


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
    result, _ = evaluate(name, single, **BY_HAND[name].params)
    assert result.loss.dtype == torch.float32
    assert float(result.loss.detach()) == pytest.approx(BY_HAND[name].loss, abs=1e-6)
