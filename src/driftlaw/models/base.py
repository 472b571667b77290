"""`driftlaw base`: the base policy, a model with the skill and with room to improve.

A tiny model is trained on clean answers until it has the skill, then on answers with random digits
replaced: its pass rate comes down while the skill stays underneath, for RL to bring back. (Stopping
the clean phase early does not do it: the skill appears suddenly.) A published model is taken as it is
when both numbers of updates are 0. The result is an ordinary Hugging Face folder and a manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftlaw.config.settings import BaseSettings, EvaluationSettings, RunSettings
from driftlaw.config.study import content_hash
from driftlaw.evaluation.heldout import Evaluation, evaluate
from driftlaw.files import remove, replacing, write_json
from driftlaw.models.loading import load_model, load_tokenizer, save_model
from driftlaw.models.text import Text
from driftlaw.streams import BASE_BATCH, BASE_NOISE, generator
from driftlaw.tasks import Problem, Task, build
from driftlaw.tasks.prepare import load_problems

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

# The base's own yardstick, whatever a study evaluates with: it decides when the noisy phase ends, so a
# base policy would else depend on settings that are not part of its identity.
YARDSTICK = EvaluationSettings(n=4, k=1, temperature=1.0, top_p=1.0, seed=1)
CHECK_EVERY = 10  # noisy updates between looks at the pass rate
NOISY_LR_SHARE = 0.1  # the noisy phase's constant lr, as a share of the clean phase's peak


class BaseOutOfRange(RuntimeError):
    """The base policy's pass rate is outside the declared range."""


def make_base(
    settings: RunSettings, data_dir: Path, out: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    """Make the base policy of a run in `out`; returns its manifest."""
    import torch

    torch.set_num_threads(settings.learner.threads)
    train, heldout, data_hash = load_problems(data_dir)
    remove(out / "manifest.json")
    text = Text(_tokenizer(settings))
    model = _initial(settings, len(text.tokenizer))
    task, base = build(settings.task), settings.base

    def measure(update: int) -> Evaluation:
        return held_out_score(model, text, task, heldout, settings, update)

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=base.lr, betas=(0.9, 0.95), weight_decay=0.0
    )
    for u in range(base.clean_updates):
        _supervised_update(model, optimizer, text, train, base, u, noisy=False)
        if (u + 1) % 100 == 0 or u + 1 == base.clean_updates:
            say(
                f"clean update {u + 1}/{base.clean_updates}: pass rate {measure(u + 1).avg_at_k:.3f}"
            )
    clean = measure(base.clean_updates)
    found, noisy = clean, 0
    while noisy < base.noisy_updates and found.avg_at_k > base.pass_rate_target:
        _supervised_update(
            model, optimizer, text, train, base, base.clean_updates + noisy, noisy=True
        )
        noisy += 1
        if noisy % CHECK_EVERY == 0 or noisy == base.noisy_updates:
            found = measure(base.clean_updates + noisy)
            say(f"noisy update {noisy}/{base.noisy_updates}: pass rate {found.avg_at_k:.3f}")
    if not base.pass_rate_low <= found.avg_at_k <= base.pass_rate_high:
        raise BaseOutOfRange(
            f"base.pass_rate_low/high: the base policy's held-out pass rate {found.avg_at_k:.3f} is outside "
            f"[{base.pass_rate_low}, {base.pass_rate_high}]; change base.clean_updates, base.noise or task"
        )
    with replacing(out / "model") as folder:
        save_model(model, text.tokenizer, folder)
    manifest = {
        "pass_rate": found.avg_at_k,
        "pass_rate_se": found.se,
        "clean_pass_rate": clean.avg_at_k,
        "entropy_proxy_nats_per_token": -found.logp_mean,
        "clean_updates": base.clean_updates,
        "noisy_updates": noisy,
        "parameters": sum(p.numel() for p in model.parameters()),
        "data_hash": data_hash,
        "model_sha256": content_hash(out / "model"),
        "settings": {
            "base": base.model_dump(mode="json"),
            "model": settings.model.model_dump(mode="json"),
        },
    }
    write_json(out / "manifest.json", manifest)
    return manifest


def held_out_score(
    model: PreTrainedModel,
    text: Text,
    task: Task,
    heldout: Sequence[Problem],
    settings: RunSettings,
    update: int,
) -> Evaluation:
    """The yardstick's score over all held-out prompts."""
    from driftlaw.rollout.torch_engine import TorchEngine

    engine = TorchEngine(
        model,
        pad_id=text.pad_id,
        eos_id=text.eos_id,
        max_tokens=settings.rollout.max_tokens,
        temperature=YARDSTICK.temperature,
        top_p=YARDSTICK.top_p,
        version=update,
    )
    ids = [text.encode(p.prompt) for p in heldout]
    return evaluate(engine, update, heldout, ids, task, text.decode, YARDSTICK)


def _tokenizer(settings: RunSettings) -> Any:
    from driftlaw.models.tiny import build_tokenizer

    if settings.model.path:
        return load_tokenizer(Path(settings.model.path), settings.model.trust_remote_code)
    return build_tokenizer()


def _initial(settings: RunSettings, vocab_size: int) -> PreTrainedModel:
    from driftlaw.models.tiny import build_model

    if settings.model.path:
        return load_model(Path(settings.model.path), settings.model.trust_remote_code)
    return build_model(settings.model, vocab_size, settings.base.seed).eval()


def _supervised_update(
    model: PreTrainedModel,
    optimizer: torch.optim.Optimizer,
    text: Text,
    train: Sequence[Problem],
    base: BaseSettings,
    update: int,
    noisy: bool,
) -> None:
    """One update on `base.batch` demonstrations, chosen and disturbed by streams of (seed, update)."""
    import torch

    from driftlaw.models.logprobs import response_logits, token_logprobs

    rows = generator((base.seed, BASE_BATCH, update)).integers(0, len(train), base.batch)
    noise = generator((base.seed, BASE_NOISE, update))
    prompts, responses = [], []
    for row in rows.tolist():
        answer = train[row].demonstration
        if noisy:
            answer = disturb(answer, base.noise, noise)
        prompts.append(text.encode(train[row].prompt))
        responses.append([*text.encode(answer), text.eos_id])
    width = max(len(r) for r in responses)
    response = torch.tensor([r + [text.pad_id] * (width - len(r)) for r in responses])
    mask = torch.tensor([[True] * len(r) + [False] * (width - len(r)) for r in responses])
    logits = response_logits(model, prompts, response, text.pad_id)
    logp, _ = token_logprobs(logits, response, 1.0)
    loss = -torch.where(mask, logp, 0.0).sum() / mask.sum()
    for group in optimizer.param_groups:
        group["lr"] = _learning_rate(base, update, noisy)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def _learning_rate(base: BaseSettings, update: int, noisy: bool) -> float:
    """Clean phase: 20 updates up, then linearly down to a tenth. Noisy phase: constant."""
    if noisy:
        return base.lr * NOISY_LR_SHARE
    up = min(1.0, (update + 1) / 20)
    return base.lr * up * (1 - 0.9 * update / max(1, base.clean_updates))


def disturb(answer: str, probability: float, stream: np.random.Generator) -> str:
    """`answer` with each digit replaced, with `probability`, by a digit drawn uniformly."""
    replace = stream.random(len(answer)) < probability
    digits = stream.integers(0, 10, len(answer))
    return "".join(
        str(d) if c.isdigit() and r else c for c, r, d in zip(answer, replace, digits, strict=True)
    )
