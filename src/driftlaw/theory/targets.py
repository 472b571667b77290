"""What an estimator may be compared with: three exact targets.

    (a) grad J
    (b) g_on = E_{y~pi} [ (1/G) sum_i A_i grad log pi(y_i) ]        the on-policy estimator's mean
    (c) g_IS = E_{y~mu} [ (1/G) sum_i r_i A_i grad log pi(y_i) ]    the uncapped estimator's mean

Responses of a group are exchangeable and A_1 depends on the peers through their rewards alone, so

    target = sum_o pi(o) grad log pi(y_o) a(R_o),      a(R) = E[ A_1 | R_1 = R ]             [derived]

with the G - 1 peers drawn from pi for (b) and from mu for (c). With K distinct rewards a(R) is a sum
over the multinomial law of the peers' rewards: exact for any G. Without std normalisation
a(R) = (1 - 1/G) (R - E R), and (c) = (1 - 1/G) grad J at any staleness, for (c)'s own E R is a constant
that E grad log pi = 0 removes; with std normalisation (c) differs from (b). (docs/method.md)
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np
from scipy.special import gammaln, xlogy

from driftlaw.theory.exact import Point
from driftlaw.theory.policies import Floats, Ints
from driftlaw.training.cohorts import advantages

DELTA = 1e-4
MOST_COMPOSITIONS = 3_000_000


def on_policy(point: Point, group_size: int, advantage: str) -> Floats:
    """Target (b), in edge space: X x E."""
    return _target(point, group_size, advantage, "pi")


def importance(point: Point, group_size: int, advantage: str) -> Floats:
    """Target (c), in edge space: X x E."""
    return _target(point, group_size, advantage, "mu")


def _target(point: Point, group_size: int, advantage: str, peers: str) -> Floats:
    problem = point.problem
    value_k = np.unique(problem.reward_xo).astype(np.float64)
    kind_xo = np.searchsorted(value_k, problem.reward_xo)
    peer_xo, own_xo = point.outcome_probability(peers), point.outcome_probability("pi")
    out = np.zeros((problem.prompts, problem.tree.edges))
    edge_ol = problem.tree.edge_yl[problem.response_o]
    for x in range(problem.prompts):
        law_k = np.array([peer_xo[x][kind_xo[x] == k].sum() for k in range(len(value_k))])
        expected_k = expected_advantage(value_k, law_k, group_size, advantage)
        factor_o = own_xo[x] * expected_k[kind_xo[x]]
        np.add.at(out[x], edge_ol, factor_o[:, None])
    return out


def expected_advantage(value_k: Floats, law_k: Floats, group_size: int, advantage: str) -> Floats:
    """K: E[A_1 | R_1 = value_k] with G - 1 peers whose rewards have the law `law_k` over `value_k`.

    Raises ValueError when the peers' rewards have more than 3 million compositions.
    """
    count_ck = compositions(group_size - 1, len(value_k))
    log_law = gammaln(group_size) + (xlogy(count_ck, law_k) - gammaln(count_ck + 1)).sum(1)
    probability_c = np.exp(log_law)
    out = np.empty(len(value_k))
    for k in range(len(value_k)):
        total_ck = count_ck + np.eye(len(value_k), dtype=np.int64)[k]
        out[k] = probability_c @ _advantage_of(value_k, total_ck, k, group_size, advantage)
    return out


def _advantage_of(
    value_k: Floats, total_ck: Ints, k: int, group_size: int, advantage: str
) -> Floats:
    """A of a response with reward value_k[k] in groups with `total_ck` responses of each reward."""
    if advantage == "none":
        return np.full(len(total_ck), value_k[k])
    mean_c = total_ck @ value_k / group_size
    centred_c = value_k[k] - mean_c
    if advantage == "mean":
        return np.asarray(centred_c)
    deviation_c = np.sqrt((total_ck * (value_k - mean_c[:, None]) ** 2).sum(1) / group_size)
    # In groups of equal rewards delta keeps what rounding leaves of 0 / (0 + delta) below 1e-11.
    return np.asarray(centred_c / (deviation_c + DELTA))


@lru_cache(maxsize=32)
def compositions(total: int, parts: int) -> Ints:
    """All ways to write `total` as an ordered sum of `parts` non-negative numbers, one a row."""
    if parts == 1:
        return np.array([[total]])
    if parts == 2:
        first = np.arange(total + 1)
        return np.stack([first, total - first], axis=1)
    rows = 1.0
    for k in range(1, parts):
        rows *= (total + k) / k
    if rows > MOST_COMPOSITIONS:
        raise ValueError(
            f"compositions of {total} into {parts} parts: {rows:.2g}; allowed: {MOST_COMPOSITIONS}"
        )
    # Stars and bars: the places of the bars among total + parts - 1.
    bars = np.array(list(combinations(range(total + parts - 1), parts - 1)), dtype=np.int64)
    edges = np.hstack(
        [np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), total + parts - 1)]
    )
    return np.diff(edges, axis=1) - 1


def group_advantages(reward_mg: Floats, advantage: str) -> Floats:
    """M x G advantages by the product's own formula, delta 1e-4."""
    return advantages(reward_mg.reshape(-1), reward_mg.shape[1], advantage, DELTA).reshape(
        reward_mg.shape
    )
