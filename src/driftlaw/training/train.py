"""`driftlaw train`: one run from its settings to its manifest, resumable at any moment.

The manifest is written last and says how the run ended: `stable` reached the horizon, `collapsed` met
the declared rule or was not finite, `censored` was stopped earlier while healthy (`--stop-at`), and
`failed` when the machinery, not the policy, broke. (method.md section 4)
"""

from __future__ import annotations

import gc
import math
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driftlaw import layout
from driftlaw.config.load import ConfigError
from driftlaw.config.settings import RunSettings
from driftlaw.config.study import Run
from driftlaw.errors import disk_trouble
from driftlaw.files import read_json, remove, replacing, write_json, write_text
from driftlaw.provenance import provenance
from driftlaw.training.interrupts import Interrupted, noted_signals
from driftlaw.training.run_folder import RunFolder

Say = Callable[[str], None]


def train(
    run: Run,
    study: str,
    out: Path,
    *,
    data_dir: Path | None = None,
    base_dir: Path | None = None,
    stop_at: int | None = None,
    say: Say = print,
    tick: Callable[[int], None] = lambda updates: None,
) -> dict[str, Any]:
    """Train a run in `out` and return its manifest; a run that has ended is not trained again.

    Prompt set and base policy are made where they are missing. Raises ConfigError for settings or a
    folder that cannot be used, Interrupted after SIGINT or SIGTERM, OSError for a full or read-only
    disk (the next start resumes); any other error is recorded in the manifest as `failed` and raised.
    """
    folder = RunFolder(out)
    with folder.locked(say):
        folder.claim(run_id=run.run_id)
        horizon = run.settings.learner.updates
        target = horizon if stop_at is None else min(stop_at, horizon)
        ended = folder.manifest()
        if ended is not None and not _goes_on(ended, target):
            if ended["status"] != "censored":
                folder.forget_progress()  # a kill right after the manifest left it
            say(f"{out}: has ended as {ended['status']} ({ended['reason']})")
            return ended
        remove(out / "manifest.json")
        remove(out / "error.log")
        try:
            return _train(run, study, folder, data_dir, base_dir, target, say, tick)
        except (ConfigError, Interrupted):
            raise
        except Exception as error:
            if not disk_trouble(error):
                _record_failure(run, study, folder, error)
            raise


def _goes_on(ended: dict[str, Any], target: int) -> bool:
    """A censored run may be trained further; a failed one is tried again."""
    return ended["status"] == "failed" or (
        ended["status"] == "censored" and ended["updates"] < target
    )


def _train(
    run: Run,
    study: str,
    folder: RunFolder,
    data_dir: Path | None,
    base_dir: Path | None,
    target: int,
    say: Say,
    tick: Callable[[int], None],
) -> dict[str, Any]:
    started = time.time()
    data_dir, base_dir = prepare_inputs(run, data_dir, base_dir, say)
    data_hash = read_json(data_dir / "manifest.json")["hash"]
    base_hash = read_json(base_dir / "manifest.json")["model_sha256"]
    folder.claim(data_hash=data_hash, base_hash=base_hash)
    with noted_signals() as caught:
        # Imports make many objects and no garbage: looking for it among them costs half a second.
        gc.disable()
        try:
            loop, text = _build_loop(run.settings, data_dir, base_dir, folder, say)
        finally:
            gc.enable()
        gc.freeze()  # one full collection of all that torch brings takes 0.2 s
        try:
            outcome = loop.run(target, lambda: bool(caught), tick)
        finally:
            gc.unfreeze()
        if outcome.interrupted:
            raise Interrupted(caught[0], outcome.updates)
    from driftlaw.laws.collapse import find_collapse, status
    from driftlaw.models.loading import save_model

    state = loop.state
    event = find_collapse(state.curve_updates, state.curve_scores, loop.rule)
    if outcome.collapse_update is not None:
        ended = "collapsed"
    else:
        ended = status(event, outcome.updates, run.settings.learner.updates)
    folder.join_parts()
    with replacing(folder.path / "model") as temporary:
        save_model(loop.learner.model, text.tokenizer, temporary)
    manifest = {
        "status": ended,
        "reason": outcome.reason
        if ended != "censored"
        else f"stopped healthy at {outcome.updates}",
        "collapse_update": outcome.collapse_update,
        "collapse_detected_at": state.detected_at,
        "collapse_bracket": list(event.bracket) if event else None,
        "updates": outcome.updates,
        "base_pass_rate": state.curve_scores[0] if state.curve_scores else None,
        "final_score": _finite(state.curve_scores[-1]) if state.curve_scores else None,
        "samples": {
            "generated": state.generated,
            "consumed": state.consumed,
            "pending": sum(len(c.reward) for c in state.queue.values()),
        },
        "hashes": {
            name: _sha256(folder.path / name)
            for name in (
                "ledger.parquet",
                "eval.parquet",
                "samples.parquet",
                "model/model.safetensors",
            )
            if (folder.path / name).exists()
        },
        **_identity(run, study, data_hash=data_hash, base_hash=base_hash),
        "provenance": {
            **provenance(),
            "started_unix_s": started,
            "resumed": state.resumed,
            "data_dir": str(data_dir),
            "base_dir": str(base_dir),
        },
    }
    write_json(folder.path / "manifest.json", manifest)
    if ended == "censored":  # it may go on from its checkpoint
        remove(folder.path / "progress.json")
    else:
        folder.forget_progress()
    say(f"{run.run_id}: {ended}: {manifest['reason']}")
    return manifest


def prepare_inputs(
    run: Run, data_dir: Path | None, base_dir: Path | None, say: Say
) -> tuple[Path, Path]:
    """Folders of the run's prompt set and base policy, made in their usual place where missing."""
    data, base = prepare_data(run, data_dir, say), base_dir or layout.base_dir(run.base_id)
    if base_dir is not None and not (base_dir / "manifest.json").exists():
        raise ConfigError("", "--base-dir", str(base_dir), "holds no manifest.json")
    prepare_base(run, data, base, say)
    return data, base


def prepare_data(run: Run, given: Path | None, say: Say) -> Path:
    """The given prompt set, or the run's own in its usual place, made there if it is missing."""
    from driftlaw.tasks.prepare import prepare

    data = given or layout.data_dir(run.data_id)
    if given is not None and not (given / "manifest.json").exists():
        raise ConfigError("", "--data-dir", str(given), "holds no manifest.json")
    with RunFolder(data).locked(say):
        if not (data / "manifest.json").exists():
            say(f"preparing prompts in {data}")
            prepare(run.settings.task, data)
    return data


def prepare_base(run: Run, data_dir: Path, out: Path, say: Say) -> dict[str, Any]:
    """The manifest of the base policy in `out`, made there if it is missing."""
    from driftlaw.models.base import make_base

    with RunFolder(out).locked(say):
        if (out / "manifest.json").exists():
            return dict(read_json(out / "manifest.json"))
        say(f"making the base policy in {out}")
        return make_base(run.settings, data_dir, out, say)


def _build_loop(
    settings: RunSettings, data_dir: Path, base_dir: Path, folder: RunFolder, say: Say
) -> tuple[Any, Any]:
    import torch

    from driftlaw import objectives
    from driftlaw.learner.update import Learner
    from driftlaw.models.loading import load_model, load_tokenizer
    from driftlaw.models.text import Text
    from driftlaw.rollout.torch_engine import TorchEngine
    from driftlaw.tasks import build
    from driftlaw.tasks.prepare import load_problems
    from driftlaw.training.loop import Loop, World

    torch.set_num_threads(settings.learner.threads)
    torch.use_deterministic_algorithms(True)
    # That mode also fills every new tensor with NaN, a thousand times an update.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    trust = settings.model.trust_remote_code
    model = load_model(base_dir / "model", trust)
    reference = load_model(base_dir / "model", trust) if settings.learner.kl_coef > 0 else None
    text = Text(load_tokenizer(base_dir / "model", trust))
    train, heldout, _ = load_problems(data_dir)
    heldout = heldout[: settings.evaluation.prompts]
    train_ids = [text.encode(p.prompt) for p in train]
    heldout_ids = [text.encode(p.prompt) for p in heldout]
    longest = max(map(len, [*train_ids, *heldout_ids])) + settings.rollout.max_tokens
    room = getattr(model.config, "max_position_embeddings", longest)
    if longest > room:
        raise ConfigError(
            "",
            "rollout.max_tokens",
            settings.rollout.max_tokens,
            f"prompt and response need {longest} tokens, the model has {room}",
        )
    world = World(train, train_ids, heldout, heldout_ids, build(settings.task), text)
    learner = Learner(
        model,
        objectives.get(settings.objective.name, **objective_parameters(settings)),
        settings.learner,
        settings.controller,
        temperature=settings.rollout.temperature,
        pad_id=text.pad_id,
        reference=reference,
    )

    def engine(sampling: Any) -> TorchEngine:
        return TorchEngine(
            model,
            pad_id=text.pad_id,
            eos_id=text.eos_id,
            max_tokens=settings.rollout.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
        )

    loop = Loop(
        settings, world, learner, engine(settings.rollout), engine(settings.evaluation), folder, say
    )
    return loop, text


def objective_parameters(settings: RunSettings) -> dict[str, Any]:
    """The objective's parameters that the study sets; l_max is max_tokens unless it says otherwise."""
    given = settings.objective.model_dump(exclude={"name"}, exclude_none=True)
    return {"l_max": settings.rollout.max_tokens, **given}


def _identity(run: Run, study: str, **hashes: str) -> dict[str, Any]:
    names = {"run_id": run.run_id, "base_id": run.base_id, "data_id": run.data_id}
    return {
        "identity": names | hashes,
        "study": study,
        "settings": run.settings.model_dump(mode="json"),
    }


def _record_failure(run: Run, study: str, folder: RunFolder, error: Exception) -> None:
    """Status `failed` with its reason; the traceback goes to error.log."""
    reason = " ".join(str(error).split()) or type(error).__name__
    write_text(folder.path / "error.log", traceback.format_exc())
    write_json(folder.path / "manifest.json", failure_manifest(run, study, reason))


def failure_manifest(run: Run, study: str, reason: str) -> dict[str, Any]:
    """The manifest of a run whose machinery broke."""
    return {
        "status": "failed",
        "reason": reason,
        "collapse_update": None,
        "updates": None,
        "base_pass_rate": None,
        "final_score": None,
        **_identity(run, study),
        "provenance": provenance(),
    }


def _sha256(path: Path) -> str:
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
