"""Claim 3: a cap keeps the second moment bounded however far the policies are apart.

With weights of mean at most 1 + eps in every group (a cap on each trajectory, or on the group's mass)

    |g| <= (1/G) sum_i w_i |A_i| |grad log pi(y_i)| <= (1 + eps) max|A| max_y |grad log pi(y)|

and E|g|^2 is at most its square, with max|A| <= sqrt(G - 1) for standardised rewards [derived]. Plain
trajectory weights have no such bound: E|g|^2 grows with E_pi[r].

ascent   mu stays at the start and pi ascends J until it is nearly deterministic
apart    mu moves back along grad J and pi forward, so that rewarded responses become rare under mu and
         their ratios, with A > 0, grow without limit
against  the reverse: responses without reward, with A < 0, have the large ratios. A clip that holds A > 0
         alone (PPO's, tic_ppo) does not bind there
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from driftlaw.config.lab import SamplingSettings, SecondMomentSettings
from driftlaw.config.lab_problem import MOST_MULTISETS
from driftlaw.theory.cells import Cell, Row, Say
from driftlaw.theory.estimators import objectives
from driftlaw.theory.exact import Point, ascend, gradient
from driftlaw.theory.problems import LABORATORY, Problem, build

BOUNDED = ("tic_mask", "tic_truncate", "gmc", "gmc_waterfill")


def second_moment(settings: SecondMomentSettings, say: Say) -> dict[str, pd.DataFrame]:
    """Tables `second_moment`, a row per path, drift and objective, and `sup`, the largest of each path.

    `bound` is NaN for objectives that guarantee none; moments are exact.
    """
    exact = SamplingSettings(enumerate_up_to=MOST_MULTISETS)
    rows: list[Row] = []
    for path, size, point in _points(settings):
        stream = (exact.seed, LABORATORY, 7)
        cell = Cell(point, settings.group_size, exact, stream, advantage="std")
        limit = _bound(point, settings.group_size, settings.eps)
        for row in cell.rows(objectives(settings.eps, settings.objectives), path=path, size=size):
            row["bound"] = limit if row["objective"] in BOUNDED else np.nan
            rows.append(row)
        say(f"{path} {size:g}: KL = {point.kl:.3g} nats")
    frame = pd.DataFrame(rows)
    return {"second_moment": frame, "sup": supremum(frame)}


def _points(settings: SecondMomentSettings) -> Iterator[tuple[str, float, Point]]:
    problem = build(settings.problem)
    theta, done = problem.start, 0
    for updates in sorted(settings.updates):
        theta, done = ascend(problem, theta, updates - done, settings.lr), updates
        yield "ascent", updates * settings.lr, Point(problem, problem.start, theta)
    for distance in sorted(settings.distances):
        yield "apart", distance, apart(problem, distance)
    for distance in sorted(settings.distances):
        yield "against", distance, apart(problem, -distance)


def apart(problem: Problem, distance: float) -> Point:
    """mu = start - distance u, pi = start + distance u, with u the unit vector of grad J.

    A negative distance moves pi down J.
    """
    direction = gradient(problem, problem.start)
    direction = direction * (distance / float(direction.norm()))
    return Point(problem, problem.start - direction, problem.start + direction)


def _bound(point: Point, group_size: int, eps: float) -> float:
    """(1 + eps)^2 (G - 1) max_y |grad log pi(y)|^2."""
    edge_yl = point.problem.tree.edge_yl
    largest = 0.0
    for kernel_ee in point.kernel_xee:
        square_y = kernel_ee[edge_yl[:, :, None], edge_yl[:, None, :]].sum((1, 2))
        largest = max(largest, float(square_y.max()))
    return (1 + eps) ** 2 * (group_size - 1) * largest


def supremum(frame: pd.DataFrame) -> pd.DataFrame:
    """The largest second moment of each path and objective, where it is, and what is left at the end.

    `within`: all second moments are below the bound; NaN without one. `growth`: sup over the smallest
    drift's value.
    """
    rows: list[Row] = []
    for (path, name), cells in frame.groupby(["path", "objective"], sort=False):
        top = cells.loc[cells["second_moment"].idxmax()]
        bounded = bool(cells["bound"].notna().all())
        rows.append(
            {
                "path": path,
                "objective": name,
                "sup": top["second_moment"],
                "kl_at_sup": top["kl"],
                "largest_kl": cells["kl"].max(),
                "largest_ratio": cells["largest_ratio"].max(),
                "growth": top["second_moment"] / cells["second_moment"].iloc[0],
                "last": cells["second_moment"].iloc[-1],
                "bound": cells["bound"].max(),
                "within": bool((cells["second_moment"] <= cells["bound"]).all())
                if bounded
                else np.nan,
            }
        )
    return pd.DataFrame(rows)
