"""The peers' advantages of one set of rewards, beside ours."""

from __future__ import annotations

from typing import Any

from peers.inputs import GROUP_SIZE


def measure() -> list[dict[str, Any]]:
    """verl's and AReaL's advantages of 16 random rewards in groups of 4, beside ours."""
    import numpy as np
    import torch
    from areal.api.cli_args import NormConfig
    from areal.utils.data import Normalization
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    from driftlaw.training.cohorts import advantages as ours

    reward = np.random.default_rng(0).random(16)
    group = np.arange(16) // GROUP_SIZE
    rewards = torch.tensor(reward)
    one_token = rewards.unsqueeze(1)

    def verls(by_std: bool) -> torch.Tensor:
        return compute_grpo_outcome_advantage(
            one_token.clone(), torch.ones_like(one_token), group, norm_adv_by_std_in_grpo=by_std
        )[0].squeeze(1)

    def areals(std: str | None, **more: Any) -> torch.Tensor:
        config = NormConfig(mean_level="group", std_level=std, group_size=GROUP_SIZE, **more)
        return Normalization(config)(rewards)

    shrink = "sample deviation: sqrt((G-1)/G) of ours"
    found = (
        ("verl", "norm_adv_by_std_in_grpo=False", verls(False), "mean", 0.0, ""),
        ("verl", "defaults", verls(True), "std", 1e-4, f"{shrink}; + 1e-6 against 1e-4"),
        ("areal", "mean_level=group, std_level=None", areals(None), "mean", 0.0, "float32"),
        (
            "areal",
            "group levels, std_unbiased=False",
            areals("group", std_unbiased=False),
            "std",
            1e-5,
            "both + 1e-5; float32",
        ),
        (
            "areal",
            "group levels, else defaults",
            areals("group"),
            "std",
            1e-4,
            f"{shrink}; + 1e-5 against 1e-4",
        ),
    )
    rows = []
    for peer, settings, theirs, normalise, delta, note in found:
        mine = ours(reward, GROUP_SIZE, normalise, delta)
        rows.append(
            {
                "peer": peer,
                "settings": settings,
                "normalise": normalise,
                "delta": delta,
                "advantage": float(np.abs(theirs.double().numpy() - mine).max()),
                "ratio": float(np.median(theirs.double().numpy() / mine)),
                "note": note,
            }
        )
    return rows
