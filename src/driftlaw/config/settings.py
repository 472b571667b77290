"""The sections of a run's settings. Field descriptions are the manual; defaults stand only here.

Units are in the descriptions. "update" is one optimizer update; lr is per update. Combinations that
cannot work are refused in `driftlaw.config.checks`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictStr

from driftlaw.config.lab import LabSettings
from driftlaw.config.section import Int, Real, Section


class ModelSettings(Section):
    """Which network is trained: a tiny one built from scratch, or a published one from a folder."""

    architecture: Literal["qwen3", "llama"] = Field(
        "qwen3", description="Architecture of the tiny model built when `path` is null."
    )
    hidden_size: Int = Field(64, ge=8, le=8192, description="Width of the residual stream.")
    intermediate_size: Int = Field(128, ge=8, le=65536, description="Width of the MLP.")
    layers: Int = Field(2, ge=1, le=128, description="Transformer blocks.")
    heads: Int = Field(4, ge=1, le=128, description="Attention heads.")
    kv_heads: Int = Field(2, ge=1, le=128, description="Key-value heads; must divide `heads`.")
    head_dim: Literal[32, 64, 80, 96, 112, 128] = Field(
        32, description="Width of one head; one of the sizes that vLLM's kernels accept."
    )
    max_position: Int = Field(
        256, ge=16, description="Longest sequence, prompt and response, tokens."
    )
    path: StrictStr | None = Field(
        None,
        description="Local Hugging Face folder (config, safetensors, tokenizer). Null: build a tiny model.",
    )
    trust_remote_code: StrictBool = Field(
        False,
        description="Run Python code that comes with the model folder. Off unless you trust it.",
    )


class RunningSumTask(Section):
    """`37+05=` answered by running sums `042`: generated here, exact match on the last number."""

    name: Literal["running_sum"] = Field("running_sum", description="Which task.")
    level: Int = Field(
        2,
        ge=1,
        le=5,
        description="Difficulty: 1 = 2 terms of 1 digit, 2 = 2 of 2, 3 = 3 of 2, 4 = 4 of 2, 5 = 4 of 3.",
    )
    train_prompts: Int = Field(2048, ge=1, le=10_000_000, description="Distinct training prompts.")
    heldout_prompts: Int = Field(
        128, ge=1, le=1_000_000, description="Distinct held-out prompts, disjoint from training."
    )
    seed: Int = Field(0, ge=0, description="Seed of the prompt set.")


class ReasoningGymTask(Section):
    """A procedural data set of the reasoning-gym package, scored by its own verifier."""

    name: Literal["reasoning_gym"] = Field(description="Which task.")
    dataset: StrictStr = Field("chain_sum", description="Name of the reasoning-gym data set.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Options of that data set, passed as they are."
    )
    train_prompts: Int = Field(2048, ge=1, le=10_000_000, description="Distinct training prompts.")
    heldout_prompts: Int = Field(
        128, ge=1, le=1_000_000, description="Distinct held-out prompts, disjoint from training."
    )
    seed: Int = Field(0, ge=0, description="Seed of the prompt set.")


class FileTask(Section):
    """Prompts and answers from a local file; the last number of the response is compared."""

    name: Literal["file"] = Field(description="Which task.")
    path: StrictStr = Field(
        description="jsonl, csv or parquet file with text columns `prompt` and `answer`."
    )
    heldout_prompts: Int = Field(
        128, ge=1, le=1_000_000, description="Rows held out, chosen by `seed`, never trained on."
    )
    match: Literal["last_number", "exact"] = Field(
        "last_number",
        description="`last_number`: last number of the response equals the answer's; `exact`: same text.",
    )
    seed: Int = Field(0, ge=0, description="Seed of the split.")


TaskSettings = Annotated[RunningSumTask | ReasoningGymTask | FileTask, Field(discriminator="name")]


class BaseSettings(Section):
    """The base policy: a model that can do the task a little, so that RL has room to improve it.

    First clean answers, then answers with random digits replaced (`noise`), until the held-out pass
    rate has come down to `pass_rate_target`. With both numbers of updates 0 the model is taken as it is.
    """

    clean_updates: Int = Field(400, ge=0, description="Supervised updates on clean answers.")
    noisy_updates: Int = Field(
        200, ge=0, description="Most supervised updates on noisy answers, after the clean ones."
    )
    batch: Int = Field(256, ge=1, description="Answers per supervised update.")
    lr: Real = Field(2e-3, gt=0, le=1, description="Peak learning rate of the supervised phase.")
    noise: Real = Field(
        0.25, ge=0, le=1, description="Probability that a digit of an answer is replaced at random."
    )
    pass_rate_target: Real = Field(
        0.3, ge=0, le=1, description="The noisy phase ends at or below this held-out pass rate."
    )
    pass_rate_low: Real = Field(
        0.15, ge=0, le=1, description="A base policy below this held-out pass rate is refused."
    )
    pass_rate_high: Real = Field(
        0.5, ge=0, le=1, description="A base policy above this held-out pass rate is refused."
    )
    seed: Int = Field(0, ge=0, description="Seed of initial weights and supervised batches.")


class ObjectiveSettings(Section):
    """Which loss. Parameters left null take the objective's own default (see `driftlaw.objectives`)."""

    name: StrictStr = Field("gmc", description="Name of the objective.")
    eps: Real | None = Field(
        None,
        ge=0,
        le=100,
        description="Cap slack epsilon, or both clip radii, a ratio (default: the objective's, mostly 0.2).",
    )
    eps_low: Real | None = Field(
        None, ge=0, le=1, description="Lower clip radius (default `eps`, else the objective's)."
    )
    eps_high: Real | None = Field(
        None, ge=0, le=100, description="Upper clip radius (default `eps`, else the objective's)."
    )
    cap: Real | None = Field(
        None, ge=0, le=1e6, description="Largest token weight (cispo 5, tis 2, decoupled_ppo 5)."
    )
    alpha: Real | None = Field(
        None,
        ge=0,
        le=1,
        description="decoupled_ppo: log pi_prox = log mu + alpha (log pi - log mu) (default 0.5).",
    )
    m2_threshold: Real | None = Field(
        None,
        ge=0,
        le=1e4,
        description="m2po: largest mean square log-ratio, nats^2 (default 0.04).",
    )
    through_gradient: StrictBool | None = Field(
        None, description="gmc: differentiate through the capped weights (default false)."
    )
    length_norm: Literal["sequence", "constant", "token"] | None = Field(
        None,
        description="Weight of a response's log-probability: 1/|y|, 1/l_max, or P*G/sum|y| (default: "
        "the objective's; gspo and gepo have their own).",
    )
    l_max: Int | None = Field(
        None, ge=1, description="Length of `constant`, tokens (default `rollout.max_tokens`)."
    )
    clamp: Real | None = Field(
        None, gt=0, le=80, description="Clamp of log-ratios, nats (default 20); clamps are counted."
    )


class AdvantageSettings(Section):
    """How rewards of a group become advantages; a group of equal rewards has advantage 0."""

    normalise: Literal["std", "mean", "none"] | None = Field(
        None,
        description="`std`: (R - mean)/(std + delta); `mean`: R - mean; `none`: R itself; null: the "
        "objective's own, `mean` for dr_grpo and `std` for all others.",
    )
    delta: Real = Field(1e-4, ge=0, le=1, description="Added to the population standard deviation.")


class ScheduleSettings(Section):
    """Declared staleness: update t consumes samples of version max(0, I*floor((t-D)/I))."""

    delay: Int = Field(0, ge=0, le=1_000_000, description="Delay D, updates.")
    interval: Int = Field(1, ge=1, le=1_000_000, description="Synchronisation interval I, updates.")


class LearnerSettings(Section):
    """The optimizer and the horizon."""

    lr: Real = Field(1e-4, gt=0, le=10, description="Learning rate, constant after warm-up.")
    updates: Int = Field(100, ge=1, le=10_000_000, description="Horizon T, updates.")
    warmup: Int = Field(0, ge=0, description="Updates over which lr rises linearly from 0.")
    beta1: Real = Field(0.9, ge=0, lt=1, description="AdamW's first-moment decay.")
    beta2: Real = Field(0.95, ge=0, lt=1, description="AdamW's second-moment decay.")
    adam_eps: Real = Field(1e-8, gt=0, le=1, description="AdamW's denominator term.")
    weight_decay: Real = Field(0.0, ge=0, le=1, description="AdamW's decoupled weight decay.")
    grad_clip: Real = Field(1.0, gt=0, description="Largest gradient norm; larger ones are scaled.")
    kl_coef: Real = Field(
        0.0, ge=0, description="Weight of KL(policy || base) in the loss (k3 estimator); 0 = off."
    )
    checkpoint_every: Int = Field(
        25, ge=1, description="Updates between checkpoints. Not part of a run's identity."
    )
    threads: Int = Field(1, ge=1, le=256, description="CPU threads of a run; bits depend on it.")


class ControllerSettings(Section):
    """What watches the updates and holds them back (`driftlaw.learner.controllers`)."""

    name: Literal["none", "ess_lr", "gac"] = Field(
        "none",
        description="`ess_lr`: lr times sqrt(ESS/N) of the trajectory ratios; `gac`: the part of a "
        "gradient that repeats the one before is reduced; `none`.",
    )
    max_cosine: Real = Field(
        0.3, ge=0, lt=1, description="gac: largest cosine left between consecutive gradients."
    )
    watch_cosine: StrictBool = Field(
        True,
        description="Record that cosine in the ledger; keeps one gradient in memory and checkpoints.",
    )


class RolloutSettings(Section):
    """How responses are sampled for training."""

    prompts: Int = Field(16, ge=1, le=65536, description="Prompts P per update.")
    group_size: Int = Field(8, ge=1, le=4096, description="Responses G per prompt.")
    chunk_prompts: Int = Field(
        16,
        ge=1,
        description="Prompts generated together: the unit of generation, part of identity.",
    )
    max_tokens: Int = Field(8, ge=1, le=1_000_000, description="Longest response, tokens.")
    temperature: Real = Field(
        1.0, gt=0, le=10, description="Sampling temperature, also the learner's."
    )
    top_p: Real = Field(
        1.0, gt=0, le=1, description="Nucleus mass; below 1 the support is truncated."
    )
    keep_samples: StrictBool = Field(
        True, description="Write every consumed sample to samples.parquet."
    )
    allow_truncated_support: StrictBool = Field(
        False, description="Permit top_p < 1 with objectives whose analysis needs E[ratio] = 1."
    )


class EvaluationSettings(Section):
    """The frozen held-out evaluation: same prompts, same sampling streams, at fixed updates."""

    every: Int = Field(
        10, ge=1, description="Updates between evaluations; 0 and the last always count."
    )
    prompts: Int = Field(64, ge=1, description="Held-out prompts used.")
    n: Int = Field(4, ge=1, le=4096, description="Responses sampled per prompt.")
    k: Int = Field(2, ge=1, le=4096, description="k of pass@k; at most n.")
    temperature: Real = Field(1.0, gt=0, le=10, description="Sampling temperature.")
    top_p: Real = Field(1.0, gt=0, le=1, description="Nucleus mass.")
    seed: Int = Field(1, ge=0, description="Seed of the evaluation's sampling streams.")


class CollapseSettings(Section):
    """The declared collapse rule, applied to the held-out curve (`driftlaw.laws.collapse`)."""

    fraction: Real = Field(
        0.5, gt=0, lt=1, description="Collapsed below this fraction of the running best score."
    )
    floor: Real = Field(
        0.15,
        ge=0,
        le=1,
        description="The rule is silent until the running best has reached this score.",
    )
    consecutive: Int = Field(
        2, ge=1, le=1000, description="Evaluations in a row that must be below."
    )
    stop_after: Int | None = Field(
        20,
        ge=0,
        description="Updates trained after the collapse is seen before the run stops; null: never stop.",
    )


class Sections(Section):
    """The settings that a run has; a study gives them once and varies some of them in its grid."""

    model: ModelSettings = Field(default_factory=ModelSettings)
    task: TaskSettings = Field(default_factory=RunningSumTask)
    base: BaseSettings = Field(default_factory=BaseSettings)
    objective: ObjectiveSettings = Field(default_factory=ObjectiveSettings)
    advantage: AdvantageSettings = Field(default_factory=AdvantageSettings)
    schedule: ScheduleSettings = Field(default_factory=ScheduleSettings)
    learner: LearnerSettings = Field(default_factory=LearnerSettings)
    controller: ControllerSettings = Field(default_factory=ControllerSettings)
    rollout: RolloutSettings = Field(default_factory=RolloutSettings)
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    collapse: CollapseSettings = Field(default_factory=CollapseSettings)


class RunSettings(Sections):
    """One training run: every section, and the seed of its prompts and samples."""

    seed: Int = Field(0, ge=0, description="Seed of prompt order and sampling.")


class Study(Sections):
    """A study file: the sections, the seeds, and the grid of what varies."""

    study: StrictStr = Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$",
        description="Name of the study: results go to results/<study>/. Lower-case, digits, - and _.",
    )
    description: StrictStr = Field("", description="What the study asks, in a sentence.")
    seeds: list[Annotated[Int, Field(ge=0)]] = Field(
        default=[0],
        description="Seeds of every cell of the grid. `[]`: no training, only the laboratory.",
    )
    lab: LabSettings | None = Field(
        None, description="The estimator laboratory of this study; null: none."
    )
    grid: list[dict[str, Any]] = Field(
        default_factory=list,
        description=(
            "Blocks of runs. A block maps dotted keys (or `seeds`, or a whole section) to a value or a "
            "list of values; its runs are the product. Empty: one run per seed."
        ),
    )
