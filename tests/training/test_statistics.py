"""Ratio diagnostics of a two-group batch, column by column, worked out by hand.

row  token ratios   r     A     G = 2, log pi = -1 on every token, eps = 0.2, NaN padding
a1   3, 1           3     +1    group a: mean r 2.25 > 1.2; under gmc w = (1.6, 0.8)
a2   .5, 3, 1       1.5   -2
b1   .5             .5    -1    group b: mean r .525
b2   1.1, .5        .55   +.5
"""

import math

import pytest
import torch

from driftlaw.objectives import Batch, get
from driftlaw.training.ledger import LEDGER
from driftlaw.training.statistics import effective_sample_size, ratio_statistics

RATIOS = [[3.0, 1.0], [0.5, 3.0, 1.0], [0.5], [1.1, 0.5]]
ADVANTAGES = [1.0, -2.0, -1.0, 0.5]


def statistics(name, ratios=RATIOS, advantages=ADVANTAGES, group_size=2, clamp=20.0, **params):
    width = max(map(len, ratios))
    logp = torch.full((len(ratios), width), math.nan, dtype=torch.float64)
    behaviour = logp.clone()
    mask = torch.zeros_like(logp, dtype=torch.bool)
    for i, row in enumerate(ratios):
        mask[i, : len(row)] = True
        logp[i, : len(row)] = -1.0
        behaviour[i, : len(row)] = -1.0 - torch.tensor(row, dtype=torch.float64).log()
    batch = Batch(
        logp.requires_grad_(),
        behaviour,
        mask,
        torch.tensor(advantages, dtype=torch.float64),
        group_size,
    )
    return ratio_statistics(batch, get(name, l_max=4, clamp=clamp, **params)(batch), clamp)


RAW = {
    # 8 tokens: 3 1 .5 3 1 .5 1.1 .5; sum 10.6; squares 9 1 .25 9 1 .25 1.21 .25, sum 21.96.
    "token_ratio_mean": 10.6 / 8,
    "token_ratio_m2": 21.96 / 8,
    "token_ratio_max": 3.0,
    "token_ratio_ess": 10.6**2 / 21.96 / 8,
    # 3 1.5 .5 .55: sum 5.55; squares 9 2.25 .25 .3025, sum 11.8025.
    "traj_ratio_mean": 5.55 / 4,
    "traj_ratio_m2": 11.8025 / 4,
    "traj_ratio_max": 3.0,
    "traj_ratio_ess": 5.55**2 / 11.8025 / 4,
    # Means of the groups: 4.5/2 and 1.05/2.
    "group_ratio_mass_mean": (2.25 + 0.525) / 2,
    "group_ratio_mass_m2": (2.25**2 + 0.525**2) / 2,
    "group_ratio_mass_max": 2.25,
    # ESS/G: 4.5^2/(9 + 2.25)/2 = .9 and 1.05^2/(.25 + .3025)/2.
    "group_ratio_ess": (0.9 + 1.05**2 / 0.5525 / 2) / 2,
    # Mean of log mu - log pi = -sum log ratio / 8; the product of the ratios is 1.2375.
    "kl_behaviour": -math.log(3 * 1.5 * 0.5 * 0.55) / 8,
    "log_ratio_abs_max": math.log(3),
}

AFTER_CAP = {
    "gmc": {
        # Tokens: 1.6 x 2, .8 x 3, .5, .55 x 2: sum 7.2; squares 5.12 1.92 .25 .605, sum 7.895.
        "token_weight_mean": 7.2 / 8,
        "token_weight_m2": 7.895 / 8,
        "token_weight_max": 1.6,
        "token_weight_ess": 7.2**2 / 7.895 / 8,
        # 1.6 .8 .5 .55: sum 3.45; squares 2.56 .64 .25 .3025, sum 3.7525.
        "traj_weight_mean": 3.45 / 4,
        "traj_weight_m2": 3.7525 / 4,
        "traj_weight_max": 1.6,
        "traj_weight_ess": 3.45**2 / 3.7525 / 4,
        "group_weight_mass_mean": (1.2 + 0.525) / 2,
        "group_weight_mass_m2": (1.2**2 + 0.525**2) / 2,
        "group_weight_mass_max": 1.2,
        # Scaling a group leaves its ESS as it is.
        "group_weight_ess": (0.9 + 1.05**2 / 0.5525 / 2) / 2,
        # A > 0: a1's 2 of 4 tokens are scaled; A < 0: a2's 3 of 4.
        "clip_share_pos": 2 / 4,
        "clip_share_neg": 3 / 4,
        "gradient_token_share": 1.0,
    },
    "tic_mask": {
        # a1 and a2 have weight 0; tokens .5, .55, .55: sum 1.6; squares .855.
        "token_weight_mean": 1.6 / 8,
        "token_weight_m2": 0.855 / 8,
        "token_weight_max": 0.55,
        "token_weight_ess": 1.6**2 / 0.855 / 8,
        "traj_weight_mean": 1.05 / 4,
        "traj_weight_m2": 0.5525 / 4,
        "traj_weight_max": 0.55,
        "traj_weight_ess": 1.05**2 / 0.5525 / 4,
        "group_weight_mass_mean": 0.525 / 2,
        "group_weight_mass_m2": 0.525**2 / 2,
        "group_weight_mass_max": 0.525,
        # A group without any weight has ESS 0.
        "group_weight_ess": (0 + 1.05**2 / 0.5525 / 2) / 2,
        "clip_share_pos": 2 / 4,
        "clip_share_neg": 3 / 4,
        "gradient_token_share": 3 / 8,
    },
    "grpo": {
        # Clipped: a1's 3 (A > 0), a2's .5 and b1's .5 (A < 0). Left: 1; 3, 1; 1.1, .5: sum 6.6,
        # squares 1 + 9 + 1 + 1.21 + .25 = 12.46.
        "token_weight_mean": 6.6 / 8,
        "token_weight_m2": 12.46 / 8,
        "token_weight_max": 3.0,
        "token_weight_ess": 6.6**2 / 12.46 / 8,
        # Means over a response's tokens: 1/2, 4/3, 0, 1.6/2.
        "traj_weight_mean": (0.5 + 4 / 3 + 0 + 0.8) / 4,
        "traj_weight_m2": (0.25 + 16 / 9 + 0.64) / 4,
        "traj_weight_max": 4 / 3,
        "traj_weight_ess": (0.5 + 4 / 3 + 0.8) ** 2 / (0.25 + 16 / 9 + 0.64) / 4,
        "group_weight_mass_mean": ((0.5 + 4 / 3) / 2 + 0.4) / 2,
        "group_weight_mass_m2": (((0.5 + 4 / 3) / 2) ** 2 + 0.16) / 2,
        "group_weight_mass_max": (0.5 + 4 / 3) / 2,
        # Group b has one response left: ESS 1 of 2.
        "group_weight_ess": ((0.5 + 4 / 3) ** 2 / (0.25 + 16 / 9) / 2 + 0.5) / 2,
        "clip_share_pos": 1 / 4,
        "clip_share_neg": 2 / 4,
        "gradient_token_share": 5 / 8,
    },
}


@pytest.mark.parametrize("name", AFTER_CAP)
def test_every_column(name):
    assert statistics(name) == pytest.approx(RAW | AFTER_CAP[name], abs=1e-12)


def test_columns_are_those_of_the_data_dictionary():
    assert set(statistics("gmc")) <= {column.name for column in LEDGER}


def test_tokens_without_advantage_give_no_gradient_and_are_in_no_clip_share():
    # a: A = 0 for both; b: 3 tokens, none scaled by the cap.
    found = statistics("gmc", advantages=[0.0, 0.0, -1.0, 0.5])
    assert found["gradient_token_share"] == 3 / 8
    assert (found["clip_share_pos"], found["clip_share_neg"]) == (0.0, 0.0)


def test_clip_share_of_a_sign_that_does_not_occur_is_zero():
    found = statistics("tic_mask", advantages=[1.0, 2.0, 1.0, 0.5])
    assert (found["clip_share_pos"], found["clip_share_neg"]) == (5 / 8, 0.0)


def test_on_policy_everything_is_one():
    found = statistics("gmc", ratios=[[1.0], [1.0, 1.0], [1.0] * 3, [1.0]])
    ones = [
        v
        for k, v in found.items()
        if k.endswith(("_mean", "_m2", "_max", "_ess")) and "abs" not in k
    ]
    assert ones == pytest.approx([1.0] * 24)
    assert (found["kl_behaviour"], found["log_ratio_abs_max"]) == (0.0, 0.0)


@pytest.mark.parametrize("ratio", [0.1, 0.7, 1.3, 1.7])
@pytest.mark.parametrize("length", [3, 7, 11])
def test_a_shared_weight_is_read_off_exactly(ratio, length):
    """(w + w + w) / 3 need not be w; an uncapped weight equals its ratio bit for bit."""
    found = statistics("gmc", [[ratio] + [1.0] * (length - 1)], [1.0], 1, eps=1.0)
    assert found["traj_weight_max"] == found["traj_ratio_max"]
    assert found["group_weight_mass_max"] == found["group_ratio_mass_max"]


def test_a_clamped_token_counts_as_clipped():
    # exp(25) with A < 0: PPO does not clip it, the clamp does.
    found = statistics("grpo", ratios=[[math.exp(25.0)], [1.0]], advantages=[-1.0, -1.0])
    assert found["clip_share_neg"] == 1 / 2
    assert found["token_ratio_max"] == pytest.approx(math.exp(20.0))
    assert found["log_ratio_abs_max"] == pytest.approx(25.0)


def test_raw_ratios_use_the_clamp_of_the_objective():
    # The objective clamps at 2 nats: the ratio that it works with is exp(2), not 9.
    found = statistics("gmc", ratios=[[9.0], [1.0]], advantages=[1.0, -1.0], clamp=2.0)
    assert found["traj_ratio_max"] == pytest.approx(math.exp(2.0))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([1, 1, 1, 1], 4.0), ([3, 0, 0, 0], 1.0), ([2, 1], 9 / 5), ([0, 0], 0.0), ([1e-8, 1e-8], 2.0)],
)
def test_effective_sample_size(weights, expected):
    assert effective_sample_size(torch.tensor(weights).double()) == pytest.approx(expected)
