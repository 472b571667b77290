"""Settings of the laboratory's small problems."""

from __future__ import annotations

from math import comb
from typing import Literal, Self

from pydantic import Field, model_validator

from driftlaw.config.section import Int, Real, Section

# Groups of outcomes that are enumerated at most, as multisets.
MOST_MULTISETS = 60_000


class ProblemSettings(Section):
    """A small problem whose V^L responses are all known, with a policy and a kind of reward."""

    policy: Literal["tabular", "network"] = Field(
        "tabular",
        description="`tabular`: free logits per prompt and prefix; `network`: one shared tanh layer.",
    )
    reward: Literal["sparse", "dense", "noisy"] = Field(
        "sparse",
        description="`sparse`: 1 for `rewarded` responses; `dense`: share of positions that match; "
        "`noisy`: sparse, flipped with probability `flip`.",
    )
    vocabulary: Int = Field(4, ge=2, le=64, description="Tokens V of the vocabulary.")
    length: Int = Field(2, ge=1, le=12, description="Length L of every response, tokens.")
    prompts: Int = Field(2, ge=1, le=64, description="Prompts, of equal weight.")
    rewarded: Int = Field(2, ge=1, description="sparse, noisy: responses of reward 1 per prompt.")
    flip: Real = Field(0.1, ge=0, le=0.5, description="noisy: probability that a reward flips.")
    logit_scale: Real = Field(
        0.5, ge=0, le=10, description="Standard deviation of the start's logits, nats."
    )
    hidden: Int = Field(8, ge=1, le=256, description="network: hidden units.")
    seed: Int = Field(0, ge=0, description="Seed of rewards and starting weights.")

    @property
    def outcomes(self) -> int:
        """Responses, times two where a reward may be flipped."""
        return self.vocabulary**self.length * (2 if self.reward == "noisy" else 1)

    def check_enumerable(self, group_size: int) -> None:
        """Raises ValueError when groups of this size cannot be enumerated."""
        groups = comb(self.outcomes + group_size - 1, group_size)
        if groups > MOST_MULTISETS:
            raise ValueError(
                f"group_size: {groups} groups of {self.outcomes} outcomes: must be at most "
                f"{MOST_MULTISETS} to be enumerated"
            )

    @model_validator(mode="after")
    def _countable(self) -> Self:
        responses = self.vocabulary**self.length
        if responses > 20_000:
            raise ValueError(f"vocabulary^length = {responses}: must be at most 20000 responses")
        if self.rewarded >= responses:
            raise ValueError(f"rewarded: must be less than vocabulary^length = {responses}")
        return self
