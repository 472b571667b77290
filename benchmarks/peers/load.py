"""Finds the peers in a folder and makes them importable.

The peers import far more than their losses use: cluster, GPU and web packages, most of which need
hardware or a compiler. Those in `UNUSED` are replaced by empty stand-ins where they are not
installed; they are imported, never called, on the way to a loss. The peers' own code is unchanged.
"""

from __future__ import annotations

import importlib.abc
import importlib.metadata
import importlib.util
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

# The versions that docs/peers.md speaks of; others run too, and the table then names them.
PEERS = {"trl": "1.16.0", "verl": "0.9.1", "openrlhf": "0.11.2", "areal": "1.0.4"}
# What their losses do need beyond driftlaw's environment.
SUPPORT = (
    *("accelerate", "datasets", "multiprocess", "dill", "xxhash", "colorlog"),
    *("tensordict", "orjson", "pyvers", "cloudpickle"),
)
UNUSED = (
    *("aiofiles", "aiohttp", "codetiming", "deepspeed", "einops", "flash_attn", "flask", "httpx"),
    *("hydra", "lark", "numba", "omegaconf", "openai", "peft", "pybase64", "pylatexenc", "ray"),
    *("swanlab", "tensorboardX", "torchdata", "trackio", "uvloop", "wandb", "werkzeug"),
)


class MissingPeers(Exception):
    """The folder lacks something; the message is one line."""


def make_importable(folder: Path) -> dict[str, str]:
    """Puts `folder` behind driftlaw's own packages and returns the versions of `PEERS` and `SUPPORT`.

    Raises MissingPeers where one of them is neither in the folder nor in the environment.
    """
    sys.path.append(str(folder))
    versions, missing = {}, []
    for name in (*PEERS, *SUPPORT):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        raise MissingPeers(f"{folder}: no {', '.join(missing)}; docs/peers.md has the pip command")
    # TRL first: it asks which optional packages there are, and a stand-in must not be an answer.
    importlib.import_module("trl.trainer.grpo_trainer")
    sys.meta_path.append(_StandIns())
    return versions


class _Anything(type):
    """Metaclass of a name of a stand-in: its attributes are itself, and as a decorator it does nothing."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name

    def __getitem__(cls, item: object) -> Any:
        return cls

    def __call__(cls, *words: Any, **named: Any) -> Any:
        if cls is not _Name:  # a class that a peer derived from it
            return super().__call__(*words, **named)
        return words[0] if len(words) == 1 and callable(words[0]) else _Name


class _Name(metaclass=_Anything):
    pass


class _StandIn(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012  # a package: submodules are stand-ins too

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder: asked only for what is not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] in UNUSED:
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass
