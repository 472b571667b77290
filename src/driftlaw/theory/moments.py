"""Moments of an estimate: the mean over X prompts of one group's estimator each.

    g = (1/X) sum_x g_x,    E g = (1/X) sum_x E g_x,    tr Cov g = (1/X^2) sum_x tr Cov g_x

Exact over all groups, or from M sampled groups a prompt. A sample estimates E g by the paired difference
to the uncapped estimator on the same groups, whose mean (c) is known exactly,

    E g  ~  (c) + mean(g - g_uncapped),

or by the plain mean where that has the smaller variance. Squared norms of sampled means are debiased,
|m|^2 - tr(S)/M, and every standard error is a delete-a-block jackknife over the sample's blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from driftlaw.theory.estimators import UNCAPPED, Estimate, Objective, estimate
from driftlaw.theory.exact import Point
from driftlaw.theory.groups import Groups
from driftlaw.theory.policies import Floats
from driftlaw.theory.targets import group_advantages, importance, on_policy

GROUP_MEASURES = ("mass_loss", "largest_share", "largest_weight", "ess")


@dataclass(frozen=True)
class Moments:
    """Averages over groups, for B blocks of a sample; B = 1 where they are exact.

    mean_bxe      B x X x E: E g_x in edge space; in a sample of the residual, which `offset_xe` completes
    square_bx     B x X: E |g_x|^2
    residual_bx   B x X: E |residual|^2, from which the noise of the mean follows; 0 where exact
    group_bxk     B x X x 4: GROUP_MEASURES
    offset_xe     X x E: what the mean of the residual is added to
    groups        M groups a prompt; 0 where exact
    """

    mean_bxe: Floats
    square_bx: Floats
    residual_bx: Floats
    group_bxk: Floats
    offset_xe: Floats
    groups: int

    def without(self, block: int) -> Moments:
        """The sample without one block."""
        keep = np.arange(len(self.mean_bxe)) != block
        left = self.groups * int(keep.sum()) // len(keep)
        return Moments(
            self.mean_bxe[keep],
            self.square_bx[keep],
            self.residual_bx[keep],
            self.group_bxk[keep],
            self.offset_xe,
            left,
        )


@dataclass(frozen=True)
class Targets:
    """(b) and (c) in edge space, X x E, of one point, group size and normalisation of advantages."""

    on_policy: Floats
    importance: Floats


def targets(point: Point, group_size: int, advantage: str) -> Targets:
    """Both exact targets that depend on the group."""
    return Targets(
        on_policy(point, group_size, advantage), importance(point, group_size, advantage)
    )


def moments(
    point: Point, groups: Groups, objective: Objective, advantage: str, target: Targets
) -> Moments:
    """Moments of the objective's estimator over `groups`; `target` is that of the same `advantage`."""
    blocks = max(groups.blocks, 1)
    x_count, m, _ = groups.outcome_xmg.shape
    edges = point.problem.tree.edges
    plain_bxe = np.empty((blocks, x_count, edges))
    paired_bxe, group_bxk = np.empty_like(plain_bxe), np.empty((blocks, x_count, 4))
    square_bx, paired_bx = np.empty((blocks, x_count)), np.empty((blocks, x_count))
    for x in range(x_count):
        member_mg, probability_m = groups.outcome_xmg[x], groups.probability_xm[x]
        response_mg = point.problem.response_o[member_mg]
        logpi, logmu = point.logpi_xyl[x][response_mg], point.logmu_xyl[x][response_mg]
        advantage_mg = group_advantages(point.problem.reward_xo[x][member_mg], advantage)
        found = estimate(objective, logpi, logmu, advantage_mg)
        edge_mgl = point.problem.tree.edge_yl[response_mg]
        weight_bm = (probability_m * blocks).reshape(blocks, -1)
        sum_me = _scatter(found.coefficient_mgl, edge_mgl, edges)
        plain_bxe[:, x] = _average(weight_bm, sum_me)
        square_bx[:, x] = _average(weight_bm, _squares(sum_me, point.kernel_xee[x]))[:, 0]
        ratio_mg = point.ratio_xy[x][response_mg]
        group_bxk[:, x] = _average(weight_bm, _group_measures(found, ratio_mg))
        if not groups.exact:
            raw = estimate(Objective(UNCAPPED), logpi, logmu, advantage_mg)
            difference = found.coefficient_mgl - raw.coefficient_mgl
            difference_me = _scatter(difference, edge_mgl, edges)
            paired_bxe[:, x] = _average(weight_bm, difference_me)
            paired_bx[:, x] = _average(weight_bm, _squares(difference_me, point.kernel_xee[x]))[
                :, 0
            ]
    if groups.exact:
        none = np.zeros_like(square_bx)
        return Moments(plain_bxe, square_bx, none, group_bxk, np.zeros((x_count, edges)), 0)
    pairing = _variance(point, paired_bxe, paired_bx) < _variance(point, plain_bxe, square_bx)
    if pairing or objective.name == UNCAPPED:
        return Moments(paired_bxe, square_bx, paired_bx, group_bxk, target.importance, m)
    return Moments(plain_bxe, square_bx, square_bx, group_bxk, np.zeros((x_count, edges)), m)


def _average(weight_bm: Floats, value_m: Floats) -> Floats:
    """B x k: block averages of M values, or of M rows of k."""
    return np.einsum("bm,bmk->bk", weight_bm, value_m.reshape(*weight_bm.shape, -1))


def _variance(point: Point, mean_bxe: Floats, square_bx: Floats) -> float:
    return float((square_bx.mean(0) - point.squared(mean_bxe.mean(0))).sum())


def _scatter(coefficient_mgl: Floats, edge_mgl: np.ndarray, edges: int) -> Floats:
    """M x E: coefficients summed on their edges."""
    m = len(coefficient_mgl)
    index = torch.from_numpy(edge_mgl.reshape(m, -1))
    value = torch.from_numpy(np.ascontiguousarray(coefficient_mgl).reshape(m, -1))
    return torch.zeros((m, edges), dtype=torch.float64).scatter_add_(1, index, value).numpy()


def _squares(sum_me: Floats, kernel_ee: Floats) -> Floats:
    return np.einsum("me,me->m", sum_me @ kernel_ee, sum_me)


def _group_measures(found: Estimate, ratio_mg: Floats) -> Floats:
    """M x 4, as GROUP_MEASURES: mean |r - w|; largest share of sum w; largest w; (sum w)^2 / sum w^2 / G.

    A group without weight has share 0 and ESS 0.
    """
    weight_mg = found.weight_mg
    sum_m, square_m = weight_mg.sum(1), (weight_mg**2).sum(1)
    largest_m = weight_mg.max(1)
    some = sum_m > 0
    share_m = np.divide(largest_m, sum_m, out=np.zeros_like(sum_m), where=some)
    ess_m = np.divide(sum_m**2, square_m, out=np.zeros_like(sum_m), where=some)
    loss_m = np.abs(ratio_mg - weight_mg).mean(1)
    return np.stack([loss_m, share_m, largest_m, ess_m / weight_mg.shape[1]], axis=1)
