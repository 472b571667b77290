"""What `get` and `Batch` refuse, in one line each."""

import pytest
import torch

from driftlaw.objectives import CATALOG, Batch, get

from .batches import NAMES
from .oracle_responses import SEQUENCE_LEVEL, TRAJECTORY
from .oracle_tokens import TOKEN_LEVEL
from .test_by_hand import BY_HAND


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [
        ("gcm", {}, ["objective", "'gcm'", "gmc", "tic_truncate"]),
        ("gmc", {"cap": 2.0}, ["cap", "not a parameter of gmc", "eps", "l_max"]),
        ("grpo_noclip", {"eps": 0.2}, ["eps", "not a parameter of grpo_noclip"]),
        ("tic_mask", {"eps_low": 0.2, "l_max": 4}, ["eps_low", "not a parameter of tic_mask"]),
        ("gmc", {}, ["l_max", "None", "constant"]),
        ("grpo", {"length_norm": "constant"}, ["l_max", "None"]),
        ("gmc", {"l_max": 0}, ["l_max", "0"]),
        ("gmc", {"l_max": 4.5}, ["l_max", "4.5"]),
        ("gmc", {"l_max": True}, ["l_max", "True"]),
        ("gmc", {"l_max": 4, "eps": -0.1}, ["eps", "-0.1", "from 0 to 100"]),
        ("gmc", {"l_max": 4, "eps": float("nan")}, ["eps", "nan"]),
        ("gmc", {"l_max": 4, "eps": "0.2"}, ["eps", "'0.2'"]),
        ("gmc", {"l_max": 4, "eps": True}, ["eps", "True"]),
        ("grpo", {"eps_low": 1.5}, ["eps_low", "1.5", "from 0 to 1"]),
        ("grpo", {"eps_high": -1.0}, ["eps_high", "-1.0"]),
        ("grpo", {"length_norm": "mean"}, ["length_norm", "'mean'", "sequence, constant, token"]),
        ("grpo", {"clamp": 0}, ["clamp", "0"]),
        ("grpo", {"clamp": 100.0}, ["clamp", "100", "80"]),
        ("grpo", {"clamp": float("inf")}, ["clamp", "inf"]),
        ("dapo", {"cap": 2.0}, ["cap", "not a parameter of dapo", "eps_high"]),
        ("dapo", {"eps_low": 1.1}, ["eps_low", "1.1", "from 0 to 1"]),
        ("gspo", {"eps": 1.5}, ["eps", "1.5", "from 0 to 1"]),
        ("gepo", {"length_norm": "mean"}, ["length_norm", "'mean'"]),
        ("cispo", {"eps": 0.2}, ["eps", "not a parameter of cispo", "cap"]),
        ("cispo", {"cap": -1.0}, ["cap", "-1.0"]),
        ("tis", {"cap": float("inf")}, ["cap", "inf"]),
        ("tis", {"cap": True}, ["cap", "True"]),
        ("m2po", {"m2_threshold": -0.04}, ["m2_threshold", "-0.04"]),
        ("m2po", {"m2_threshold": "low"}, ["m2_threshold", "'low'"]),
        ("m2po", {"eps": 0.2}, ["eps", "not a parameter of m2po", "m2_threshold"]),
        ("decoupled_ppo", {"alpha": 1.5}, ["alpha", "1.5", "from 0 to 1"]),
        ("decoupled_ppo", {"alpha": -0.5}, ["alpha", "-0.5"]),
        ("decoupled_ppo", {"cap": float("nan")}, ["cap", "nan"]),
        ("gmc", {"l_max": 4, "through_gradient": 1}, ["through_gradient", "1"]),
        ("gmc", {"l_max": 4, "through_gradient": "yes"}, ["through_gradient", "'yes'"]),
        (
            "gmc_waterfill",
            {"l_max": 4, "through_gradient": True},
            ["through_gradient", "not a parameter of gmc_waterfill"],
        ),
        ("gmc_waterfill", {}, ["l_max", "None", "constant"]),
        ("dr_grpo", {}, ["l_max", "None", "constant"]),
        ("tis", {"length_norm": "constant"}, ["l_max", "None"]),
    ],
)
def test_get_refuses_in_one_line(name, params, says):
    with pytest.raises(ValueError) as error:
        get(name, **params)
    message = str(error.value)
    assert "\n" not in message
    assert [word for word in says if word not in message] == []


@pytest.mark.parametrize("norm", ["", 0, False])
def test_a_length_norm_that_is_false_is_not_taken_for_none(norm):
    with pytest.raises(ValueError, match="length_norm"):
        get("grpo", length_norm=norm)


@pytest.mark.parametrize("name", NAMES)
def test_null_means_the_default(name):
    params = dict.fromkeys([*CATALOG[name].own, "length_norm", "clamp"])
    batch = Batch(
        torch.tensor([[0.0, 0.5], [0.0, -0.5]]),
        torch.zeros(2, 2),
        torch.ones(2, 2, dtype=torch.bool),
        torch.tensor([1.0, -1.0]),
        2,
    )
    null, default = get(name, l_max=2, **params)(batch), get(name, l_max=2)(batch)
    assert float(null.loss) == float(default.loss)


def test_catalog_names_what_is_tested_here():
    """A new objective needs its line in the oracle and in the tables of these tests."""
    assert set(CATALOG) == set(NAMES)
    assert set(CATALOG) == set(BY_HAND)
    assert set(CATALOG) == {*TOKEN_LEVEL, *TRAJECTORY, *SEQUENCE_LEVEL}


@pytest.mark.parametrize(
    "change",
    [
        {"logp": torch.zeros(4, 2)},
        {"behaviour_logp": torch.zeros(3, 3)},
        {"mask": torch.ones(4, 1, dtype=torch.bool)},
        {"logp": torch.zeros(4), "behaviour_logp": torch.zeros(4), "mask": torch.ones(4) > 0},
        {"logp": torch.tensor(0.0)},
        {"prox_logp": torch.zeros(3, 3)},
        {"prox_logp": torch.zeros(4, 2)},
        {"advantages": torch.zeros(3)},
        {"advantages": torch.zeros(4, 1)},
        {"group_size": 3},
        {"group_size": 0},
        {"group_size": -2},
        {
            "logp": torch.zeros(0, 3),
            "behaviour_logp": torch.zeros(0, 3),
            "mask": torch.ones(0, 3) > 0,
            "advantages": torch.zeros(0),
        },
    ],
)
def test_shapes_that_do_not_fit(change):
    fits = {
        "logp": torch.zeros(4, 3),
        "behaviour_logp": torch.zeros(4, 3),
        "mask": torch.ones(4, 3, dtype=torch.bool),
        "advantages": torch.zeros(4),
        "group_size": 2,
    }
    assert Batch(**fits, prox_logp=torch.zeros(4, 3)).group_size == 2
    with pytest.raises(ValueError, match="Batch: "):
        Batch(**(fits | change))
