"""What a study will cost, before anything runs: updates and predicted core-hours.

    seconds(update) = flops / RATE + calls * layers * CALL
    flops           = 2 n (sampled tokens) + 6 n (prompt + response tokens), n parameters

RATE and CALL are measured on one core of a current x86 server by `make bench`; a prediction is good
to about a factor of two on another CPU, and says nothing about GPUs.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from driftlaw import layout
from driftlaw.config.settings import ModelSettings, RunningSumTask, RunSettings
from driftlaw.config.study import LoadedStudy, Run

RATE = 37e9  # float32 operations per second and core that tiny models reach
CALL = 1.2e-3  # seconds a layer and forward or backward call, whatever its size
START = 6.0  # seconds to import, load and reach the first update
ASSUMED_PROMPT = 64  # tokens, where the prompts are not known before they are made
VOCABULARY = 99  # of the tiny models' character tokenizer


def parameters(model: ModelSettings) -> int:
    """Parameters of the model: exact for a tiny one, from the safetensors' size for a folder."""
    if model.path is not None:
        size = sum(p.stat().st_size for p in Path(model.path).glob("*.safetensors"))
        config = json.loads((Path(model.path) / "config.json").read_text())
        dtype = str(config.get("dtype") or config.get("torch_dtype") or "float32")
        return size // (4 if dtype.endswith("32") else 2)
    m = model
    attention = m.hidden_size * m.head_dim * (2 * m.heads + 2 * m.kv_heads)
    norms = 2 * m.hidden_size + (2 * m.head_dim if m.architecture == "qwen3" else 0)
    block = attention + 3 * m.hidden_size * m.intermediate_size + norms
    return 2 * VOCABULARY * m.hidden_size + m.layers * block + m.hidden_size


def _seconds(
    n: int, layers: int, sampled: float, read: float, trained: float, calls: float
) -> float:
    return n * (2 * (sampled + read) + 6 * trained) / RATE + calls * layers * CALL


def run_seconds(settings: RunSettings) -> float:
    """Predicted seconds of one run on one core, start-up and evaluations included."""
    s, n, layers = settings, parameters(settings.model), settings.model.layers
    prompt = prompt_tokens(s)
    length = s.rollout.max_tokens
    responses = s.rollout.prompts * s.rollout.group_size
    chunks = math.ceil(s.rollout.prompts / s.rollout.chunk_prompts)
    update = _seconds(
        n,
        layers,
        responses * length,
        s.rollout.prompts * prompt,
        responses * (prompt + length),
        chunks * length + 3,
    )
    asked = s.evaluation.prompts
    evaluation = _seconds(
        n,
        layers,
        asked * s.evaluation.n * length,
        asked * prompt,
        0,
        length * math.ceil(asked / 64),
    )
    evaluations = 1 + math.ceil(s.learner.updates / s.evaluation.every)
    return START + s.learner.updates * update + evaluations * evaluation


def base_seconds(settings: RunSettings) -> float:
    """Predicted seconds of the base policy, its noisy phase taken in full."""
    s, n = settings, parameters(settings.model)
    tokens = s.base.batch * (prompt_tokens(s) + s.rollout.max_tokens)
    updates = s.base.clean_updates + s.base.noisy_updates
    return START + updates * _seconds(n, s.model.layers, 0, 0, tokens, 3)


def prompt_tokens(settings: RunSettings) -> int:
    if isinstance(settings.task, RunningSumTask):
        from driftlaw.tasks.running_sum import problem

        return len(problem(settings.task.level, 0).prompt)
    return ASSUMED_PROMPT


def summary(study: LoadedStudy) -> str:
    """What `driftlaw config check` prints."""
    bases: dict[str, Run] = {run.base_id: run for run in study.runs}
    updates = sum(run.settings.learner.updates for run in study.runs)
    training = sum(run_seconds(run.settings) for run in study.runs)
    making = sum(base_seconds(run.settings) for run in bases.values())
    lines = [f"study             {study.name} ({study.where})"]
    if study.runs:
        lines += [
            f"runs              {len(study.runs)}",
            f"updates           {updates:,} (at most: collapsed runs may stop early)",
            f"base policies     {len(bases)}",
            f"core-hours        {(training + making) / 3600:.2f} predicted on CPU "
            f"({training / 3600:.2f} training, {making / 3600:.2f} base policies)",
            f"report            {layout.report(study.name)}",
        ]
    if study.settings.lab is not None:
        lines += [
            f"laboratory        {', '.join(study.settings.lab.chosen())}",
            f"its page          {layout.lab_page(study.name)}",
        ]
    return "\n".join(lines)
