"""Groups of G outcomes drawn from the behaviour policy: all of them with probabilities, or a sample.

An estimator does not depend on the order of a group, so all groups are the multisets of outcomes, with

    P(multiset) = G! prod_o mu(o)^{m_o} / m_o!

m2po breaks ties by order: for it all ordered groups stand, O^G of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb, factorial

import numpy as np

from driftlaw.config.lab_problem import MOST_MULTISETS
from driftlaw.theory.exact import Point
from driftlaw.theory.policies import Floats, Ints

MOST_ORDERED = 1_100


@dataclass(frozen=True)
class Groups:
    """M groups of each of X prompts.

    outcome_xmg     X x M x G outcomes
    probability_xm  X x M: of each multiset; 1/M in a sample
    blocks          0 when these are all groups; else the number of blocks of the sample, for the jackknife
    """

    outcome_xmg: Ints
    probability_xm: Floats
    blocks: int

    @property
    def exact(self) -> bool:
        return self.blocks == 0


def all_groups(point: Point, group_size: int, ordered: bool = False) -> Groups:
    """Every group, with its probability under mu.

    Raises ValueError when there are too many (`enumerable`).
    """
    outcomes = len(point.problem.response_o)
    if not enumerable(outcomes, group_size, MOST_MULTISETS, ordered):
        raise ValueError(f"groups of {group_size} from {outcomes} outcomes: too many to enumerate")
    members = _ordered if ordered else multisets
    member_mg, multiplicity_m = members(outcomes, group_size)
    probability_xo = point.outcome_probability("mu")
    probability_xm = multiplicity_m * probability_xo[:, member_mg].prod(axis=2)
    return Groups(
        np.broadcast_to(member_mg, (len(probability_xo), *member_mg.shape)), probability_xm, 0
    )


def enumerable(outcomes: int, group_size: int, most: int, ordered: bool = False) -> bool:
    """Whether there are at most `most` multisets; or, ordered, at most 1,100 groups."""
    if ordered:
        return outcomes**group_size <= min(MOST_ORDERED, most)
    return comb(outcomes + group_size - 1, group_size) <= most


@lru_cache(maxsize=8)
def multisets(outcomes: int, group_size: int) -> tuple[Ints, Floats]:
    """(M x G sorted members, M numbers of orders G! / prod m_o!)."""
    member_mg = np.array(
        list(combinations_with_replacement(range(outcomes), group_size)), dtype=np.int64
    )
    orders_m = np.full(len(member_mg), float(factorial(group_size)))
    run_m = np.ones(len(member_mg))
    for i in range(1, group_size):
        # The running length of equal members multiplies up to m_o!.
        run_m = np.where(member_mg[:, i] == member_mg[:, i - 1], run_m + 1, 1.0)
        orders_m /= run_m
    return member_mg, orders_m


def _ordered(outcomes: int, group_size: int) -> tuple[Ints, Floats]:
    grid = np.indices((outcomes,) * group_size).reshape(group_size, -1).T
    return grid, np.ones(len(grid))


def sample_groups(
    point: Point, group_size: int, count: int, blocks: int, generator: np.random.Generator
) -> Groups:
    """`count` groups of each prompt from mu, `count` a multiple of `blocks`.

    The order is random, so that ties by order cost m2po nothing.
    """
    if count % blocks:
        raise ValueError(f"sample: {count} groups; allowed: a multiple of {blocks}")
    probability_xo = point.outcome_probability("mu")
    outcome_xmg = np.empty((len(probability_xo), count, group_size), dtype=np.int64)
    for x, probability_o in enumerate(probability_xo):
        ladder = probability_o.cumsum()
        draws = generator.random((count, group_size)) * ladder[-1]
        outcome_xmg[x] = ladder.searchsorted(draws, side="right")
    return Groups(outcome_xmg, np.full(outcome_xmg.shape[:2], 1.0 / count), blocks)
