"""Mass losses whose value is known: log-normal ratios, and the two-point laws that attain the bounds.

Log-normal, log r ~ N(-s^2/2, s^2), so E r = 1; with d = (s^2/2 - ln(1 + eps)) / s        [derived]

    mask        E[r 1{r > 1 + eps}] = Phi(d)
    truncation  E(r - 1 - eps)_+    = Phi(d) - (1 + eps) Phi(d - s)
    gmc         E(mean r - 1 - eps)_+, by sampling

Two points, r = 1 + a with probability p and 1 - v/a otherwise, p = v / (a^2 + v): E r = 1 and
Var r = v; a >= v keeps r >= 0. Over a, the largest mass losses are                          [derived]

    mask        (1 + a) p          at a -> eps+          <= v/eps^2 + v/eps
    truncation  (a - eps)_+ p      at a ~ 2 eps          <= v/(4 eps)
    gmc         E(mean r - 1 - eps)_+, exact by the binomial law of the number of high r, at a ~ 2 G eps
                                                          <= v/(4 G eps)
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.stats import binom, norm

from driftlaw.config.lab import ReferenceSettings
from driftlaw.objectives import Batch, get
from driftlaw.streams import generator
from driftlaw.theory.cells import Row, Say
from driftlaw.theory.policies import Floats
from driftlaw.theory.problems import LABORATORY

CAPS = ("tic_mask", "tic_truncate", "gmc")


def lognormal_mass_loss(name: str, s: float, eps: float) -> float:
    """Exact E|r - w| of `tic_mask` or `tic_truncate`; NaN for the group's caps."""
    d = (s * s / 2 - np.log1p(eps)) / s
    if name == "tic_mask":
        return float(norm.cdf(d))
    if name == "tic_truncate":
        return float(norm.cdf(d) - (1 + eps) * norm.cdf(d - s))
    return float("nan")


def lognormal_ratios(
    s: float, groups: int, group_size: int, generator: np.random.Generator
) -> Floats:
    """M x G ratios."""
    return np.exp(s * generator.standard_normal((groups, group_size)) - s * s / 2)


def weights(name: str, eps: float, ratio_mg: ArrayLike) -> Floats:
    """M x G weights that the objective `name` gives to responses of these trajectory ratios.

    One token each; advantages 1, which no trajectory weight of these objectives depends on.
    """
    ratio_mg = np.asarray(ratio_mg, dtype=float)
    logp = torch.tensor(np.log(ratio_mg).reshape(-1, 1))
    mask, advantage = torch.ones_like(logp, dtype=torch.bool), torch.ones(len(logp)).double()
    objective = get(name, eps=eps, length_norm="constant", l_max=1, clamp=80.0)
    batch = Batch(logp, torch.zeros_like(logp), mask, advantage, ratio_mg.shape[1])
    return objective(batch).weights.numpy().reshape(ratio_mg.shape)


def mass_loss(name: str, eps: float, ratio_mg: Floats) -> tuple[float, float]:
    """Mean over groups of (1/G) sum |r - w|, and its standard error, through the objective."""
    loss_m = np.abs(ratio_mg - weights(name, eps, ratio_mg)).mean(1)
    return float(loss_m.mean()), float(loss_m.std(ddof=1) / len(loss_m) ** 0.5)


def reference(settings: ReferenceSettings, say: Say) -> dict[str, pd.DataFrame]:
    """Table `reference`: a row per s, G and cap, by formula and sampled through the objectives."""
    rows: list[Row] = []
    for s in settings.log_sds:
        for group_size in settings.group_sizes:
            random = generator((settings.seed, LABORATORY, 4, round(1000 * s), group_size))
            groups = max(settings.responses // group_size, 2)
            ratio_mg = lognormal_ratios(s, groups, group_size, random)
            for name in (*CAPS, "gmc_waterfill"):
                value, error = mass_loss(name, settings.eps, ratio_mg)
                rows.append(
                    {
                        "log_sd": s,
                        "group_size": group_size,
                        "eps": settings.eps,
                        "objective": name,
                        "formula": lognormal_mass_loss(name, s, settings.eps),
                        "mass_loss": value,
                        "mass_loss_se": error,
                        "groups": groups,
                    }
                )
        say(f"log-normal ratios of s = {s:g}")
    return {"reference": pd.DataFrame(rows)}


def two_point_mass_loss(
    name: str, a: ArrayLike, variance: float, eps: float, group_size: int
) -> Floats:
    """Exact mass loss at jumps `a` >= variance; a mask keeps nothing at or above its cap here.

    The mask's own convention keeps r = 1 + eps; counting a = eps as masked makes the supremum a maximum.
    """
    a = np.asarray(a, dtype=float)
    p = variance / (a * a + variance)
    if name == "tic_mask":
        return np.where(a >= eps, (1 + a) * p, 0.0)
    if name == "tic_truncate":
        return np.maximum(a - eps, 0.0) * p
    high = np.arange(group_size + 1)[:, None]
    excess = (high * a - (group_size - high) * variance / a) / group_size
    return np.asarray((binom.pmf(high, group_size, p) * np.maximum(excess - eps, 0.0)).sum(0))


def extremal(name: str, variance: float, eps: float, group_size: int) -> tuple[float, float]:
    """(largest mass loss over all two-point laws of this variance, the jump a that attains it)."""
    low = max(eps, variance)
    a = np.geomspace(low, 100.0 * group_size * (eps + variance**0.5 + variance), 600)
    loss = two_point_mass_loss(name, a, variance, eps, group_size)
    best = int(loss.argmax())
    if best in (0, len(a) - 1):
        return float(loss[best]), float(a[best])
    found = minimize_scalar(
        lambda log_a: (
            -float(two_point_mass_loss(name, np.exp([log_a]), variance, eps, group_size)[0])
        ),
        bounds=(np.log(a[best - 1]), np.log(a[best + 1])),
        method="bounded",
        options={"xatol": 1e-10},
    )
    if -found.fun < loss[best]:
        return float(loss[best]), float(a[best])
    return float(-found.fun), float(np.exp(found.x))


def bound(name: str, variance: float, eps: float, group_size: int) -> float:
    """The bound of docs/method.md section 3 on the mass loss."""
    if name == "tic_mask":
        return variance / eps**2 + variance / eps
    if name == "tic_truncate":
        return variance / (4 * eps)
    return variance / (4 * group_size * eps)
