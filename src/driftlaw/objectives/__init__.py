"""Objectives: pure functions from a typed record to a loss, its weights and its metrics.

    loss = driftlaw.objectives.get("gmc", eps=0.2, length_norm="constant", l_max=8)
    result = loss(Batch(logp, behaviour_logp, mask, advantages, group_size))
    result.loss.backward()

Adding one: a file with the function, and its line in `catalog.py`. Importing this package does not
import torch.
"""

from __future__ import annotations

from driftlaw.objectives.batch import Batch, Result
from driftlaw.objectives.catalog import CATALOG, Entry, Parameter, get

__all__ = ["CATALOG", "Batch", "Entry", "Parameter", "Result", "get"]
