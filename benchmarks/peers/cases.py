"""Which loss is compared with which: with aligned settings, and at the defaults of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from peers.inputs import L_MAX, batches, distance, far_batch, long_batch
from peers.losses import Loss, areal, driftlaw, openrlhf, trl, verl


@dataclass(frozen=True)
class Pair:
    """A peer's loss and ours.

    `gradient_only`: the two losses have the same gradient by construction, their values are other
    quantities (one has a ratio, the other a weighted log-probability).
    """

    theirs: Loss
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    gradient_only: bool = False
    equal_lengths: bool = False
    long: bool = False  # on the batch of long responses

    def measure(self) -> dict[str, Any]:
        """The largest distances over all batches, JSON-ready."""
        ours = driftlaw(self.name, self.params)
        chosen = [long_batch()] if self.long else batches(self.equal_lengths)
        apart = [distance(self.theirs.call, ours, inputs) for inputs in chosen]
        far = distance(self.theirs.call, ours, far_batch()).gradient
        return {
            "peer": self.theirs.peer,
            "function": self.theirs.function,
            "settings": self.theirs.text,
            "objective": {"name": self.name, **self.params},
            "loss": None if self.gradient_only else max(d.loss for d in apart),
            "gradient": max(d.gradient for d in apart),
            "gradient_beyond_clamp": None if self.equal_lengths else far,
            "equal_lengths": self.equal_lengths,
            "note": self.note,
        }


GSPO = (3e-4, 4e-4)
OLD_PI = "old = pi: one update a batch; the value is another quantity"
WEIGHT = "weighted log pi against a ratio: the value is another quantity"


def aligned() -> Iterator[Pair]:
    """Pairs that are the same loss by their formulas."""
    yield Pair(trl(loss_type="grpo"), "grpo")
    yield Pair(trl(), "grpo", {"length_norm": "token"}, note="loss_type dapo with epsilon 0.2")
    yield Pair(trl(loss_type="bnpo", epsilon_high=0.28), "dapo")
    yield Pair(
        trl(loss_type="dapo", epsilon_high=0.28), "dapo", note="num_items_in_batch = all tokens"
    )
    yield Pair(trl(loss_type="dr_grpo", max_completion_length=L_MAX), "dr_grpo", {"l_max": L_MAX})
    yield Pair(
        _trl_gspo(),
        "gspo",
    )
    yield Pair(trl(loss_type="cispo", epsilon_high=5.0), "cispo", note="the cap is epsilon_high")
    yield Pair(
        trl(loss_type="bnpo", is_mode="token_truncate", vllm_importance_sampling_clip_max=2.0),
        "tis",
        note=OLD_PI,
        gradient_only=True,
    )
    yield Pair(
        trl(is_mode="sequence_mask"),
        "tic_mask",
        {"eps": 2, "length_norm": "token"},
        note=f"TRL's defaults; {OLD_PI}",
        gradient_only=True,
    )
    for mode, name in (("sequence_truncate", "tic_truncate"), ("sequence_mask", "tic_mask")):
        yield Pair(
            trl(
                loss_type="dr_grpo",
                max_completion_length=L_MAX,
                is_mode=mode,
                vllm_importance_sampling_clip_max=1.2,
            ),
            name,
            {"eps": 0.2, "l_max": L_MAX},
            note=OLD_PI,
            gradient_only=True,
        )

    wide = {"clip_ratio_c": 1e9}  # no dual clip
    norm = {"loss_agg_mode": "seq-mean-token-sum-norm", "loss_scale_factor": L_MAX}
    plus = "the peer divides by a length + 1e-8"
    yield Pair(verl("vanilla", loss_agg_mode="seq-mean-token-mean", **wide), "grpo", note=plus)
    yield Pair(verl("vanilla", **wide), "grpo", {"length_norm": "token"})
    yield Pair(verl("vanilla", clip_ratio_high=0.28, **wide), "dapo")
    yield Pair(verl("vanilla", **norm, **wide), "dr_grpo", {"l_max": L_MAX})
    yield Pair(
        _verl_gspo(),
        "gspo",
        note=f"straight-through: each token's ratio is s times pi / sg(pi); {plus}",
    )
    yield Pair(
        verl("cispo", clip_ratio_low=1.0, clip_ratio_high=4.0),
        "cispo",
        note="the cap is 1 + clip_ratio_high; a lower radius of 1 is no floor",
    )
    correct = {"loss_type": "reinforce", "bypass_mode": True}
    yield Pair(
        verl(
            "bypass_mode",
            rollout_correction=correct | {"rollout_is": "token", "rollout_is_threshold": 2.0},
        ),
        "tis",
    )
    sequence = correct | {"rollout_is": "sequence", "rollout_is_threshold": 1.2}
    yield Pair(
        verl("bypass_mode", rollout_correction=sequence, **norm),
        "tic_truncate",
        {"eps": 0.2, "l_max": L_MAX},
    )
    yield Pair(
        verl(
            "bypass_mode",
            rollout_correction=sequence | {"rollout_is_threshold": "1e-9_1.2"},
            **norm,
        ),
        "tic_mask",
        {"eps": 0.2, "l_max": L_MAX},
        note=WEIGHT + "; bounds 'lower_upper' drop what lies outside",
        gradient_only=True,
    )
    yield Pair(
        verl(
            "vanilla",
            old="prox",
            rollout_correction={"rollout_is": "token", "rollout_is_threshold": 5.0},
            **wide,
        ),
        "decoupled_ppo",
        {"prox": True},
    )

    yield Pair(openrlhf(token_level_loss=False), "grpo", note=plus)
    yield Pair(openrlhf(), "grpo", {"length_norm": "token"})
    yield Pair(
        openrlhf(token_level_loss=False, clip_eps_low=1.0, clip_eps_high=1e9),
        "grpo_noclip",
        note=f"radii that never bind; {plus}",
    )
    yield Pair(openrlhf(clip_eps_high=0.28), "dapo")
    yield Pair(
        openrlhf(policy_loss_type="gspo", clip_eps_low=GSPO[0], clip_eps_high=GSPO[1]),
        "gspo",
        note=plus,
    )
    clip = {"is_correction_level": "token", "is_correction_mode": "clip"}
    yield Pair(
        openrlhf(old="pi", **clip, is_correction_threshold=[0.0, 2.0]),
        "tis",
        note=OLD_PI,
        gradient_only=True,
    )
    yield Pair(
        openrlhf(old="prox", **clip, is_correction_threshold=[0.0, 5.0]),
        "decoupled_ppo",
        {"prox": True},
    )

    clamp = {"level": "token", "action": "clamp", "metric": "ratio"}
    single = "AReaL takes these weights in float32"
    yield Pair(areal(), "grpo", {"length_norm": "token"}, note="AReaL has the token mean alone")
    yield Pair(areal(eps_clip_higher=0.28), "dapo")
    yield Pair(
        areal(importance_sampling_level="sequence", eps_clip=GSPO[0], eps_clip_higher=GSPO[1]),
        "gspo",
        note="equal lengths only: AReaL takes the mean over tokens",
        equal_lengths=True,
    )
    yield Pair(
        areal(old="prox", rejection_sampling=clamp | {"upper": 5.0}),
        "decoupled_ppo",
        {"prox": True},
        note=single,
    )
    yield Pair(
        areal(old="loglinear", rejection_sampling=clamp | {"upper": 5.0}),
        "decoupled_ppo",
        {"alpha": 0.5},
        note=f"two updates old; {single}",
    )
    yield Pair(
        areal(old="pi", rejection_sampling=clamp | {"upper": 2.0}),
        "tis",
        note=f"{OLD_PI}; {single}",
        gradient_only=True,
    )
    yield Pair(
        areal(
            old="pi",
            rejection_sampling=clamp | {"upper": 1e30},
            m2_threshold=0.04,
            mean_over_all=True,
        ),
        "m2po",
        note=f"same tokens; AReaL divides by those it keeps, we by all; {single}",
    )


def defaults() -> Iterator[Pair]:
    """A peer's loss with its own defaults beside ours with ours; only the kind of loss is chosen."""
    token_mean = "the peer takes the mean over all tokens, ours first over a response's"
    yield Pair(trl(), "grpo", note=f"loss_type is dapo by default: {token_mean}")
    yield Pair(trl(), "dapo", note="epsilon_high 0.2 against 0.28")
    yield Pair(trl(loss_type="grpo"), "grpo")
    yield Pair(trl(loss_type="dr_grpo"), "dr_grpo", {"l_max": 512}, note="l_max = TRL's 512")
    yield Pair(
        trl(importance_sampling_level="sequence"),
        "gspo",
        note="clip 0.2 against 3e-4 / 4e-4; a response counts by its tokens (loss_type dapo)",
    )
    yield Pair(
        trl(loss_type="cispo"),
        "cispo",
        note="epsilon_high unset is epsilon: every weight is capped at 0.2, ours at 5",
    )
    yield Pair(
        trl(is_mode="sequence_mask"),
        "tis",
        note="TRL's default correction drops responses with r > 3; ours caps tokens at 2",
        gradient_only=True,
    )
    yield Pair(
        trl(is_mode="sequence_mask"),
        "tic_mask",
        note=f"cap 3 against 1.2, and the mean over tokens against 1/l_max (here {L_MAX})",
        gradient_only=True,
    )
    yield Pair(verl("vanilla"), "grpo", note=f"{token_mean}; dual clip: A < 0 has ratio <= 3")
    yield Pair(verl("vanilla"), "dapo", note="clip_ratio_high 0.2 against 0.28; dual clip at 3")
    yield Pair(
        verl("gspo"),
        "gspo",
        note="clip 0.2 against 3e-4 / 4e-4; loss_agg_mode token-mean: a response counts by its tokens",
    )
    yield Pair(verl("cispo"), "cispo", note="weights clipped to [0.8, 1.2] against at most 5")
    yield Pair(
        verl("bypass_mode", rollout_correction={"loss_type": "reinforce", "rollout_is": "token"}),
        "tis",
        note="cap 2 in both",
    )
    yield Pair(verl("vanilla", clip_ratio_high=0.28), "dapo", note="dual clip alone")
    yield Pair(openrlhf(), "grpo", note=token_mean)
    yield Pair(openrlhf(), "dapo", note="clip_eps_high 0.2 against 0.28")
    yield Pair(openrlhf(policy_loss_type="gspo"), "gspo", note="clip 0.2 against 3e-4 / 4e-4")
    yield Pair(
        openrlhf(old="pi", is_correction_level="token"),
        "tis",
        note="mode mask: tokens outside [0.5, 5] are dropped; ours caps at 2 and has no floor",
        gradient_only=True,
    )
    yield Pair(areal(), "grpo", note=token_mean)
    yield Pair(areal(), "dapo", note="eps_clip_higher unset is 0.2, against 0.28")
    yield Pair(
        areal(importance_sampling_level="sequence"),
        "gspo",
        note="clip 0.2 against 3e-4 / 4e-4; a response counts by its tokens",
    )
    yield Pair(
        areal(old="prox"),
        "decoupled_ppo",
        {"prox": True},
        note="rejection_sampling unset: no weight of prox to mu; ours caps it at 5",
    )
    yield Pair(
        areal(old="pi", m2_threshold=0.04),
        "m2po",
        note="no weight of pi to mu without rejection_sampling; mean over the tokens kept",
    )


def long_responses() -> Iterator[Pair]:
    """GSPO where the sum of a response's log-ratios passes the clamp, and with the widest clamp."""
    for clamp in (20.0, 80.0):
        yield Pair(_trl_gspo(), "gspo", {"clamp": clamp}, long=True)
        yield Pair(_verl_gspo(), "gspo", {"clamp": clamp}, long=True)


def _trl_gspo() -> Loss:
    low, high = GSPO
    return trl(
        loss_type="grpo", importance_sampling_level="sequence", epsilon=low, epsilon_high=high
    )


def _verl_gspo() -> Loss:
    low, high = GSPO
    return verl(
        "gspo", loss_agg_mode="seq-mean-token-mean", clip_ratio_low=low, clip_ratio_high=high
    )


NOT_COMPARED = (
    ("gmc, gmc_waterfill", "no peer ships a cap on a group's mass"),
    (
        "gepo",
        "no peer ships it; verl's geo_mean is another loss (clipped tokens, no group expectation)",
    ),
    ("tic_ppo", "no peer ships a trajectory ratio with an upper clip for A > 0 alone"),
    (
        "TRL's truncation of weights, its advantages",
        "made inside its generation, which needs a model; the loss was called, with weights made here",
    ),
    ("TRL luspo, sapo, vespo; AReaL's SAPO", "driftlaw has no such objective"),
    ("verl clip_cov, kl_cov, dppo_tv, dppo_kl, geo_mean, gpg, dro, sapo", "the same"),
)
