"""The tables that a run leaves, column by column: the data dictionary is also the schema.

`ledger.parquet` a row an update · `eval.parquet` a row an evaluation · `samples.parquet` a row a
consumed sample · `timing.parquet` a row an update, the only table with wall-clock and host values.
The other three hold nothing that two equal runs could differ in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """One column: name, Arrow type, unit, and what it means."""

    name: str
    type: str
    unit: str
    meaning: str


def _ratio_columns(name: str, what: str) -> list[Column]:
    return [
        Column(f"{name}_mean", "double", "1", f"Mean {what}."),
        Column(f"{name}_m2", "double", "1", f"Second moment of the {what}."),
        Column(f"{name}_max", "double", "1", f"Largest {what}."),
        Column(
            f"{name}_ess",
            "double",
            "share",
            f"Effective sample size of the {what}, over its count.",
        ),
    ]


def _group_columns(kind: str, what: str) -> list[Column]:
    return [
        Column(
            f"group_{kind}_mass_mean",
            "double",
            "1",
            f"Mean over groups of the group's mean {what}.",
        ),
        Column(
            f"group_{kind}_mass_m2", "double", "1", f"Second moment of the group's mean {what}."
        ),
        Column(f"group_{kind}_mass_max", "double", "1", f"Largest group's mean {what}."),
        Column(f"group_{kind}_ess", "double", "share", f"Mean over groups of ESS/G of the {what}."),
    ]


LEDGER: tuple[Column, ...] = (
    Column("update", "int64", "updates", "t: updates completed before this one."),
    Column("version", "int64", "updates", "v(t): weights that sampled the batch."),
    Column("lag_min", "int64", "updates", "Smallest t - version over the batch's samples."),
    Column("lag_mean", "double", "updates", "Mean lag of the batch's samples."),
    Column("lag_max", "int64", "updates", "Largest lag of the batch's samples."),
    Column("lr", "double", "1/update", "Learning rate applied."),
    Column("lr_factor", "double", "1", "What the controller multiplied the learning rate by."),
    Column("applied", "bool", "", "False: a non-finite loss or gradient stopped the update."),
    Column("loss", "double", "1", "Value of the loss (objective and KL term)."),
    Column("grad_norm", "double", "1", "Gradient norm before controller and clipping."),
    Column(
        "grad_cosine",
        "double",
        "1",
        "Cosine with the gradient of the update before; null at first, where one is 0, or unwatched.",
    ),
    Column("entropy", "double", "nats/token", "Mean entropy of the learner's policy on the batch."),
    Column(
        "kl_behaviour", "double", "nats/token", "Mean of log mu - log pi on the sampled tokens."
    ),
    Column("kl_base", "double", "nats/token", "k3 estimate of KL(policy || base); null when off."),
    Column("log_ratio_abs_max", "double", "nats", "Largest |log pi - log mu| of a token."),
    Column("reward_mean", "double", "1", "Mean reward: of the behaviour policy, not the learner."),
    Column("reward_std", "double", "1", "Population standard deviation of rewards."),
    Column("informative_groups", "double", "share", "Groups whose rewards are not all equal."),
    Column("length_mean", "double", "tokens", "Mean response length, end-of-text included."),
    Column("length_max", "int64", "tokens", "Longest response."),
    Column("truncated_share", "double", "share", "Responses without end-of-text within the limit."),
    Column("unparsed_share", "double", "share", "Responses in which no answer was found."),
    Column(
        "cap_bound_share", "double", "share", "What the cap binds: tokens, responses or groups."
    ),
    Column("clamped_count", "double", "count", "Log-ratios outside the clamp."),
    *_ratio_columns("token_ratio", "token ratio"),
    *_ratio_columns("token_weight", "weight on a token's gradient, after the cap"),
    *_ratio_columns("traj_ratio", "trajectory ratio"),
    *_ratio_columns("traj_weight", "response's weight, after the cap"),
    *_group_columns("ratio", "trajectory ratio"),
    *_group_columns("weight", "weight, after the cap"),
    Column("clip_share_pos", "double", "share", "Tokens of A > 0 whose weight the cap changed."),
    Column("clip_share_neg", "double", "share", "Tokens of A < 0 whose weight the cap changed."),
    Column("gradient_token_share", "double", "share", "Tokens with weight and advantage not 0."),
    Column("generated", "int64", "samples", "Samples generated since the run began."),
    Column(
        "consumed", "int64", "samples", "Samples consumed since the run began, this update's too."
    ),
    Column("pending_batches", "int64", "batches", "Batches generated and not consumed."),
    Column("batch_digest", "string", "", "Hash of the batch's tokens, log mu and rewards."),
)

EVAL: tuple[Column, ...] = (
    Column("update", "int64", "updates", "Updates completed; 0 is the base policy."),
    Column(
        "avg_at_k", "double", "1", "Mean score of a sample (avg@k, estimated from all n samples)."
    ),
    Column("se", "double", "1", "Standard error of avg_at_k, clustered by prompt."),
    Column("pass_at_k", "double", "1", "Unbiased probability that one of k samples is right."),
    Column("pass_at_k_se", "double", "1", "Its standard error, clustered by prompt."),
    Column("k", "int64", "samples", "k of pass@k."),
    Column("n", "int64", "samples", "Samples drawn per prompt."),
    Column("prompts", "int64", "prompts", "Held-out prompts."),
    Column("truncated_share", "double", "share", "Responses without end-of-text within the limit."),
    Column("unparsed_share", "double", "share", "Responses in which no answer was found."),
    Column("length_mean", "double", "tokens", "Mean response length."),
    Column("logp_mean", "double", "nats/token", "Mean log-probability of a sampled token."),
)

SAMPLES: tuple[Column, ...] = (
    Column("update", "int64", "updates", "Update that consumed the sample."),
    Column("version", "int64", "updates", "Weights that sampled it."),
    Column("prompt_id", "string", "", "Hash of the prompt's text."),
    Column("place", "int64", "", "Place of the prompt in its cohort: with update, its stream."),
    Column("sample", "int64", "", "Number of the response in its group."),
    Column("reward", "double", "1", "Reward."),
    Column("advantage", "double", "1", "Advantage given to the objective."),
    Column("finish_reason", "string", "", "`stop` (end-of-text) or `length`."),
    Column("tokens", "list<int32>", "token ids", "The response, end-of-text included."),
    Column(
        "behaviour_logp", "list<float>", "nats", "log mu of each token, recorded while sampling."
    ),
)

TIMING: tuple[Column, ...] = (
    Column("update", "int64", "updates", "Update."),
    Column("sampling_s", "double", "s", "Generating batches since the update before."),
    Column("grading_s", "double", "s", "Grading them."),
    Column("learning_s", "double", "s", "Forward, backward, optimizer."),
    Column("evaluation_s", "double", "s", "Held-out evaluation after the update, if one was due."),
    Column("finished_unix_s", "double", "s", "Wall clock when the update was done."),
    Column("host", "string", "", "Machine."),
)

TABLES: Mapping[str, tuple[Column, ...]] = {
    "ledger": LEDGER,
    "eval": EVAL,
    "samples": SAMPLES,
    "timing": TIMING,
}


def schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of a table; units and meanings travel in the fields' metadata."""
    import pyarrow as pa

    types = {
        "int64": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "string": pa.string(),
        "list<int32>": pa.list_(pa.int32()),
        "list<float>": pa.list_(pa.float32()),
    }
    return pa.schema(
        [
            pa.field(c.name, types[c.type], metadata={"unit": c.unit, "meaning": c.meaning})
            for c in columns
        ]
    )


def table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as an Arrow table; KeyError for a row that lacks a column or has one too many."""
    import pyarrow as pa

    columns = TABLES[name]
    names = {c.name for c in columns}
    for row in rows:
        if row.keys() != names:
            raise KeyError(
                f"{name}: columns differ from the dictionary: {sorted(row.keys() ^ names)}"
            )
    return pa.Table.from_pylist(list(rows), schema=schema(columns))


def dictionary_markdown() -> str:
    """The data dictionary as Markdown, for docs/tables.md."""
    parts = []
    for name, columns in TABLES.items():
        lines = [
            f"## `{name}.parquet`",
            "",
            "| column | type | unit | meaning |",
            "|---|---|---|---|",
        ]
        lines += [f"| `{c.name}` | {c.type} | {c.unit} | {c.meaning} |" for c in columns]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
