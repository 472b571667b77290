"""The objectives once more: NumPy scalars in loops, written from the method, not from `src`.

Every function states the formula it follows. Nothing in these files imports driftlaw. This one holds
what all share; `oracle_tokens.py` and `oracle_responses.py` hold the rows of the method's table.
"""

import math
from dataclasses import dataclass

import numpy as np


@dataclass
class Data:
    """A batch as NumPy arrays: logp, behaviour, mask N x T; advantage N; prox N x T or None."""

    logp: np.ndarray
    behaviour: np.ndarray
    mask: np.ndarray
    advantage: np.ndarray
    group_size: int
    prox: np.ndarray | None = None

    def tokens(self, i):
        return [t for t in range(self.mask.shape[1]) if self.mask[i, t]]

    def groups(self):
        return [
            range(first, first + self.group_size)
            for first in range(0, len(self.mask), self.group_size)
        ]


@dataclass
class Expected:
    """gradient is that of the loss in log pi; bound and of: how many the cap binds, of how many."""

    loss: float
    weights: np.ndarray
    raw: np.ndarray
    gradient: np.ndarray
    bound: int
    of: int
    clamped: int

    @property
    def share(self):
        return self.bound / self.of


def log_ratio(over, under):
    """log over - log under; a token that mu gives no probability has +inf."""
    return math.inf if under == -math.inf else over - under


def clamped_exp(x, clamp):
    return math.exp(max(-clamp, min(clamp, x)))


def length_factors(mask, length_norm, l_max):
    """n_i: sequence 1/|y_i|, constant 1/l_max, token N / sum |y|."""
    lengths = [int(row.sum()) for row in mask]
    if length_norm == "sequence":
        return [1.0 / n if n else 0.0 for n in lengths]
    if length_norm == "constant":
        return [1.0 / l_max] * len(lengths)
    return [len(lengths) / sum(lengths)] * len(lengths)


def gradient_of_weights(data, weights, factor):
    """-w_it A_i n_i / N: what the weights of a result mean."""
    scale = data.advantage * np.array(factor) / len(factor)
    return -weights * scale[:, None]


def on_tokens(data, values):
    """N x T with values[i] on the tokens of response i and 0 on its padding."""
    return np.where(data.mask, np.array(values, dtype=float)[:, None], 0.0)
