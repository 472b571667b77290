"""Checkpoints: weights, optimizer moments and pending batches, complete or absent.

    checkpoints/00000025/state.json            counters and small state
                         model.safetensors      weights
                         optimizer.safetensors  AdamW's step and moments, by parameter name
                         gradient.safetensors   the last gradient, where the controller looks at it
                         pending.safetensors    batches sampled but not yet consumed

A checkpoint is written under another name, forced to disk and renamed; the two newest are kept.
Everything is safetensors and JSON: nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file

from driftlaw.files import read_json, remove, replacing

if TYPE_CHECKING:
    from torch import nn

KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds besides weights and moments, which are loaded into place."""

    updates: int
    state: dict[str, Any]
    pending: dict[str, torch.Tensor]
    gradient: list[torch.Tensor] | None


def save(
    folder: Path,
    updates: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    pending: dict[str, torch.Tensor],
    gradient: list[torch.Tensor] | None,
    state: dict[str, Any],
) -> None:
    """Write checkpoint number `updates`; older ones but the last are deleted after it is complete."""

    with replacing(folder / f"{updates:08d}") as temporary:
        temporary.mkdir(parents=True)
        save_file(_owned(dict(model.state_dict())), temporary / "model.safetensors")
        save_file(_owned(_moments(model, optimizer)), temporary / "optimizer.safetensors")
        save_file(_owned(pending), temporary / "pending.safetensors")
        by_place = {f"{i:05d}": g for i, g in enumerate(gradient or [])}
        save_file(_owned(by_place), temporary / "gradient.safetensors")
        text = json.dumps({"updates": updates, **state}, sort_keys=True)
        (temporary / "state.json").write_text(text, encoding="utf-8")
    for old in list(_complete(folder))[:-KEPT]:
        remove(old)


def load(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Checkpoint | None:
    """Load the newest checkpoint into model and optimizer; None if there is none."""
    found = list(_complete(folder))
    if not found:
        return None
    newest = found[-1]
    model.load_state_dict(load_file(newest / "model.safetensors"))
    moments = load_file(newest / "optimizer.safetensors")
    for name, parameter in model.named_parameters():
        if f"{name}/step" in moments:
            optimizer.state[parameter] = {
                key: moments[f"{name}/{key}"] for key in ("step", "exp_avg", "exp_avg_sq")
            }
    state = read_json(newest / "state.json")
    gradient = load_file(newest / "gradient.safetensors")
    return Checkpoint(
        state.pop("updates"),
        state,
        load_file(newest / "pending.safetensors"),
        [gradient[place] for place in sorted(gradient)] or None,
    )


def clear(folder: Path) -> None:
    """Delete all checkpoints, finished or not: the run has ended."""
    remove(folder)


def _complete(folder: Path) -> Iterator[Path]:
    """Finished checkpoints, oldest first: a finished one has been renamed to its number."""
    if folder.is_dir():
        yield from sorted(p for p in folder.iterdir() if p.name.isdigit())


def _moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{name}/{key}": torch.as_tensor(value)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def _owned(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors as safetensors wants them: contiguous, none sharing memory with another."""
    return {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
