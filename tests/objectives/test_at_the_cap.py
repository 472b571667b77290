"""One response beside its thresholds: exactly at a cap or clip, just beyond, and at the clamp."""

import math

import pytest
import torch

from .batches import (
    NAMES,
    TRAJECTORY,
    batch_of_log_ratios,
    batch_of_ratios,
    evaluate,
)


# 2 and 1/2 are exact after log and exp, so these ratios sit exactly on their thresholds; the next
# number beyond is `log ratio` times 1 + 1e-12.
@pytest.mark.parametrize(
    ("name", "ratio", "advantage", "params", "at", "beyond"),
    [
        ("grpo", 2.0, 1.0, {"eps": 1.0}, 2.0, 0.0),
        ("grpo", 2.0, 1.0, {"eps": 0.2, "eps_high": 1.0}, 2.0, 0.0),
        ("grpo", 0.5, -1.0, {"eps": 0.5}, 0.5, 0.0),
        ("grpo", 0.5, -1.0, {"eps": 0.2, "eps_low": 0.5}, 0.5, 0.0),
        ("dapo", 2.0, 1.0, {"eps_high": 1.0}, 2.0, 0.0),
        ("dapo", 0.5, -1.0, {"eps_low": 0.5}, 0.5, 0.0),
        ("dr_grpo", 2.0, 1.0, {"eps_high": 1.0}, 2.0, 0.0),
        ("gspo", 2.0, 1.0, {"eps_high": 1.0}, 2.0, 0.0),
        ("gspo", 0.5, -1.0, {"eps_low": 0.5}, 0.5, 0.0),
        # G = 1: q^2/q = q, so gepo's weight is p/q.
        ("gepo", 2.0, 1.0, {"eps_high": 1.0}, 2.0, 0.0),
        ("gepo", 0.5, -1.0, {"eps_low": 0.5}, 0.5, 0.0),
        ("tic_mask", 2.0, 1.0, {"eps": 1.0}, 2.0, 0.0),
        ("tic_mask", 2.0, -1.0, {"eps": 1.0}, 2.0, 0.0),
        ("tic_ppo", 2.0, 1.0, {"eps": 1.0}, 2.0, 0.0),
        ("tic_truncate", 2.0, 1.0, {"eps": 1.0}, 2.0, 2.0),
        ("gmc", 2.0, 1.0, {"eps": 1.0}, 2.0, 2.0),
        ("gmc_waterfill", 2.0, 1.0, {"eps": 1.0}, 2.0, 2.0),
        ("cispo", 2.0, 1.0, {"cap": 2.0}, 2.0, 2.0),
        ("tis", 2.0, -1.0, {"cap": 2.0}, 2.0, 2.0),
        ("m2po", 2.0, 1.0, {"m2_threshold": math.log(2.0) ** 2}, 2.0, 0.0),
        # alpha 1: all of the ratio is in the capped factor; alpha 0: all of it in the clipped one.
        ("decoupled_ppo", 2.0, 1.0, {"alpha": 1.0, "cap": 2.0}, 2.0, 2.0),
        ("decoupled_ppo", 2.0, 1.0, {"alpha": 0.0, "eps_high": 1.0}, 2.0, 0.0),
        ("decoupled_ppo", 0.5, -1.0, {"alpha": 0.0, "eps_low": 0.5}, 0.5, 0.0),
    ],
)
def test_exactly_at_the_cap_the_gradient_is_kept(name, ratio, advantage, params, at, beyond):
    # log pi = 0, so that log mu = -log ratio and their difference are exact.
    batch = batch_of_ratios([[ratio]], [advantage], 1, logp=0.0)
    assert float((batch.logp.detach() - batch.behaviour_logp).exp()[0, 0]) == ratio
    result, gradient = evaluate(name, batch, length_norm="constant", l_max=1, **params)
    assert float(gradient[0, 0]) == -at * advantage
    assert result.metrics["cap_bound_share"] == 0

    past = batch_of_log_ratios([[math.log(ratio) * (1 + 1e-12)]], [advantage], 1, logp=0.0)
    result, gradient = evaluate(name, past, length_norm="constant", l_max=1, **params)
    assert float(gradient[0, 0]) == pytest.approx(-beyond * advantage, abs=1e-9)
    assert result.metrics["cap_bound_share"] == 1


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("name", "kept"),
    [
        # Ratios .7, .85, 1.15, 1.25, 1.3; A > 0 is clipped above, A < 0 below.
        ("grpo", {1.0: [1, 1, 1, 0, 0], -1.0: [0, 1, 1, 1, 1]}),
        ("dapo", {1.0: [1, 1, 1, 1, 0], -1.0: [0, 1, 1, 1, 1]}),
        ("dr_grpo", {1.0: [1, 1, 1, 0, 0], -1.0: [0, 1, 1, 1, 1]}),
        ("grpo_noclip", {1.0: [1, 1, 1, 1, 1], -1.0: [1, 1, 1, 1, 1]}),
        ("tic_mask", {1.0: [1, 1, 1, 0, 0], -1.0: [1, 1, 1, 0, 0]}),
        ("tic_ppo", {1.0: [1, 1, 1, 0, 0], -1.0: [1, 1, 1, 1, 1]}),
        ("gepo", {1.0: [1, 1, 1, 0, 0], -1.0: [0, 1, 1, 1, 1]}),
    ],
)
def test_which_side_each_default_clip_binds(name, kept, sign):
    """Each ratio is a response of one token in a group of one."""
    ratios = [0.7, 0.85, 1.15, 1.25, 1.3]
    batch = batch_of_ratios([[ratio] for ratio in ratios], [sign] * 5, 1)
    result, _ = evaluate(name, batch)
    expected = [ratio * keep for ratio, keep in zip(ratios, kept[sign], strict=True)]
    assert result.weights[:, 0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_default_clip_of_gspo(sign):
    """Around 1 - 3e-4 and 1 + 4e-4."""
    ratios = [0.99969, 0.99971, 1.00039, 1.00041]
    result, _ = evaluate("gspo", batch_of_ratios([[r] for r in ratios], [sign] * 4, 1))
    kept = {1.0: [1, 1, 1, 0], -1.0: [0, 1, 1, 1]}[sign]
    expected = [ratio * keep for ratio, keep in zip(ratios, kept, strict=True)]
    assert result.weights[:, 0].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("name", "cap"), [("cispo", 5.0), ("tis", 2.0)])
def test_default_caps(name, cap):
    result, _ = evaluate(name, batch_of_ratios([[cap - 0.1, cap + 0.1, 0.01]], [1.0], 1))
    assert result.weights[0].tolist() == pytest.approx([cap - 0.1, cap, 0.01])


def clamped_weight(name, total, advantage):
    """The weight of a lone token of log-ratio +-25 beside a response of ratio 1, A = 0, clamp 20.

    A ratio that is differentiated through has no gradient outside the clamp; one that is a constant
    is exp(+-20), and then its own cap.
    """
    r = math.exp(math.copysign(20.0, total))
    return {
        "tic_truncate": min(r, 1.2),
        "gmc": r * min(1.0, 2.4 / (r + 1)),
        "gmc_waterfill": 1.4 if total > 0 else r,
        "cispo": min(r, 5.0),
        "tis": min(r, 2.0),
        # pi/pi_prox = e^12.5 is inside: clipped for A > 0, else e^12.5 times the capped pi_prox/mu.
        # e^-12.5 is clipped for A < 0, else e^-25 in all.
        "decoupled_ppo": {
            (25.0, 1.0): 0.0,
            (25.0, -1.0): 5.0 * math.exp(12.5),
            (-25.0, 1.0): math.exp(-25.0),
            (-25.0, -1.0): 0.0,
        }[total, advantage],
    }.get(name, 0.0)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "gepo"])
@pytest.mark.parametrize("total", [25.0, -25.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_clamp_keeps_numbers_finite_and_stops_the_gradient_through_r(name, total, advantage):
    batch = batch_of_log_ratios([[total], [0.0]], [advantage, 0.0], 2)
    result, gradient = evaluate(name, batch, length_norm="constant", l_max=1)
    assert bool(torch.isfinite(result.loss))
    assert result.metrics["clamped_count"] == (0 if name == "decoupled_ppo" else 1)
    assert float(result.raw[0, 0]) == pytest.approx(math.exp(math.copysign(20.0, total)))
    weight = clamped_weight(name, total, advantage)
    assert float(result.weights[0, 0]) == pytest.approx(weight, rel=1e-9, abs=1e-15)
    assert float(gradient[0, 0]) == pytest.approx(-weight * advantage / 2, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_gepo_clamps_its_own_log_weight(advantage):
    """log pi = -1; q = e^-26, e^-1: their mean under q is e^-1, so log s = 0 for both.

    With log pi = -26 and q = e^-1 for both, log s = -25 and is clamped.
    """
    batch = batch_of_log_ratios([[25.0], [0.0]], [advantage, 0.0], 2)
    result, _ = evaluate("gepo", batch)
    assert result.raw[:, 0].tolist() == pytest.approx([1.0, 1.0])
    assert result.metrics["clamped_count"] == 0
    batch = batch_of_log_ratios([[-25.0], [-25.0]], [advantage, 0.0], 2, logp=-26.0)
    result, gradient = evaluate("gepo", batch)
    assert result.raw[:, 0].tolist() == pytest.approx([math.exp(-20.0)] * 2)
    assert result.metrics["clamped_count"] == 2
    assert not gradient.any()


@pytest.mark.parametrize("log_ratio", [45.0, -45.0])
def test_decoupled_ppo_clamps_each_of_its_ratios(log_ratio):
    """alpha 1/2: both halves are +-22.5, outside; the token is counted once and has no gradient."""
    batch = batch_of_log_ratios([[log_ratio]], [-math.copysign(1.0, log_ratio)], 1)
    result, gradient = evaluate("decoupled_ppo", batch)
    assert result.metrics["clamped_count"] == 1
    assert not gradient.any()
    # Neither sign is clipped here: the loss is -A min(e^+-20, 5) e^+-20.
    r = math.exp(math.copysign(20.0, log_ratio))
    expected = math.copysign(1.0, log_ratio) * min(r, 5.0) * r
    assert float(result.loss.detach()) == pytest.approx(expected)


@pytest.mark.parametrize(
    "name", ["grpo", "grpo_noclip", "dapo", "dr_grpo", "tic_mask", "tic_ppo", "gspo", "gepo"]
)
def test_just_inside_the_clamp_the_gradient_flows(name):
    batch = batch_of_log_ratios([[-19.9]], [1.0], 1)
    result, gradient = evaluate(name, batch, length_norm="constant", l_max=1)
    assert float(gradient[0, 0]) == pytest.approx(-math.exp(-19.9), rel=1e-9)
    assert result.metrics["clamped_count"] == 0


@pytest.mark.parametrize("name", ["grpo_noclip", "tic_mask", "tic_ppo", "gspo", "gepo"])
def test_clamp_is_a_parameter(name):
    batch = batch_of_log_ratios([[-3.0]], [1.0], 1)
    result, gradient = evaluate(name, batch, l_max=1, clamp=2.0)
    assert float(result.raw[0, 0]) == pytest.approx(math.exp(-2.0))
    assert float(gradient[0, 0]) == 0.0
    assert float(result.loss.detach()) == pytest.approx(-math.exp(-2.0))


def test_gspo_clamps_the_trajectory_not_its_root():
    # 24 nats on 3 tokens: r = e^20, s = e^(20/3); the root alone would be inside.
    result, gradient = evaluate("gspo", batch_of_log_ratios([[8.0, 8.0, 8.0]], [-1.0], 1))
    assert float(result.raw[0, 0]) == pytest.approx(math.exp(20.0 / 3.0))
    assert result.metrics["clamped_count"] == 1
    assert not gradient.any()


@pytest.mark.parametrize("name", [*TRAJECTORY, "gspo"])
def test_only_the_sum_is_clamped_for_trajectories(name):
    # 30 - 30 nats: r = 1 and nothing is clamped; both tokens alone are outside.
    batch = batch_of_log_ratios([[30.0, -30.0]], [1.0], 1)
    result, _ = evaluate(name, batch)
    assert result.weights[0].tolist() == pytest.approx([1.0, 1.0])
    assert result.metrics["clamped_count"] == 0
    assert evaluate("grpo_noclip", batch)[0].metrics["clamped_count"] == 2
