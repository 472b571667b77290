"""NaN on a token of the mask is never swallowed: the loss is NaN, and the learner stops there."""

import dataclasses

import pytest
import torch

from .batches import NAMES, evaluate, random_batch


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", ["logp", "behaviour_logp"])
def test_nan_shows_in_the_loss(name, where):
    batch = random_batch(5, 2, 3, 4)
    value = getattr(batch, where).detach().clone()
    row, token = batch.mask[3:].nonzero()[0].tolist()  # a group with advantages
    value[3 + row, token] = float("nan")
    if where == "logp":
        value.requires_grad_()
    result, _ = evaluate(name, dataclasses.replace(batch, **{where: value}))
    assert bool(torch.isnan(result.loss))
