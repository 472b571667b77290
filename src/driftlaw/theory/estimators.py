"""The gradient estimator of one group under any objective, read off the objective's own loss.

With n_i = 1 (`length_norm` constant, l_max 1) the estimator of one group is

    g = (1/G) sum_i sum_t c_it grad log pi(y_it),      c_it = w_it A_i for the weights w of the objective

and c is the gradient of the loss in log pi. gspo and gepo have a length normalisation 1/L of their own:
theirs is multiplied by L. "uncapped" is the plain trajectory importance weight, w = r; no objective
of the catalogue has it, and it is the reference of every cap.

Ratios are clamped at 80 nats here, so that no clamp is active in any problem of the laboratory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from driftlaw.objectives import CATALOG, Batch, get
from driftlaw.theory.policies import Floats

UNCAPPED = "uncapped"
# Its mask is chosen over the whole batch, so a batch here is one group.
COUPLED = ("m2po",)
CLAMP = 80.0


@dataclass(frozen=True)
class Objective:
    """An objective of the catalogue, or "uncapped", with the laboratory's parameters.

    eps  cap slack or clip radius; None where the objective has none of that scale
    """

    name: str
    eps: float | None = None

    @property
    def advantage(self) -> str:
        """The objective's own normalisation of advantages."""
        return "std" if self.name == UNCAPPED else CATALOG[self.name].advantage

    @property
    def parameters(self) -> dict[str, float]:
        """What `eps` sets: dapo keeps its proportion 0.28 : 0.2 of upper to lower radius [choice]."""
        if self.eps is None:
            return {}
        if self.name == "dapo":
            return {"eps_low": self.eps, "eps_high": 1.4 * self.eps}
        return {"eps": self.eps}


def takes_eps(name: str) -> bool:
    """Whether `eps` is varied. gspo clips r^(1/L) at radii of another scale: its defaults stay [choice]."""
    return name not in (UNCAPPED, "gspo") and "eps" in CATALOG[name].own


def objectives(eps: float, names: list[str] | None = None) -> list[Objective]:
    """All objectives (or `names`), with `eps` where it is taken; "uncapped" first."""
    chosen = [UNCAPPED, *CATALOG] if names is None else names
    return [Objective(name, eps if takes_eps(name) else None) for name in chosen]


@dataclass(frozen=True)
class Estimate:
    """Of M groups of G responses of L tokens.

    coefficient_mgl  c_it / G, the factor on grad log pi(y_it) in the group's estimator
    weight_mg        w_i, the mean of w_it over tokens
    """

    coefficient_mgl: Floats
    weight_mg: Floats


def estimate(
    objective: Objective, logpi_mgl: Floats, logmu_mgl: Floats, advantage_mg: Floats
) -> Estimate:
    """The objective's estimator of each of M groups; arrays M x G x L, advantages M x G."""
    if objective.name == UNCAPPED:
        ratio_mg = np.exp((logpi_mgl - logmu_mgl).sum(2))
        factor = (ratio_mg * advantage_mg / ratio_mg.shape[1])[:, :, None]
        return Estimate(np.broadcast_to(factor, logpi_mgl.shape).copy(), ratio_mg)
    m, g, length = logpi_mgl.shape
    entry = CATALOG[objective.name]
    loss = get(objective.name, length_norm="constant", l_max=1, clamp=CLAMP, **objective.parameters)
    logp = torch.tensor(logpi_mgl.reshape(-1, length), requires_grad=True)
    total, weight_nt = torch.zeros((), dtype=torch.float64), []
    for rows, batch in _batches(objective.name, logp, logmu_mgl, advantage_mg):
        result = loss(batch)
        # The loss is a mean over the batch's responses: back to the sum over its groups.
        total = total + result.loss * (rows / g)
        weight_nt.append(result.weights)
    (slope,) = torch.autograd.grad(total, logp)
    scale = float(length) if entry.fixed_length_norm else 1.0
    weight_mg = torch.cat(weight_nt).mean(1).view(m, g).numpy()
    return Estimate(-scale * slope.view(m, g, length).numpy(), weight_mg)


def _batches(
    name: str, logp: torch.Tensor, logmu_mgl: Floats, advantage_mg: Floats
) -> Iterator[tuple[int, Batch]]:
    m, g, length = logmu_mgl.shape
    logmu = torch.tensor(logmu_mgl.reshape(-1, length))
    advantage = torch.tensor(advantage_mg.reshape(-1))
    mask = torch.ones(logmu.shape, dtype=torch.bool)
    rows = g if name in COUPLED else m * g
    for start in range(0, m * g, rows):
        part = slice(start, start + rows)
        yield rows, Batch(logp[part], logmu[part], mask[part], advantage[part], g)
