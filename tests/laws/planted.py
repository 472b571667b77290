"""Run tables drawn from planted laws: the truth that the fits must recover."""

import numpy as np
import pandas as pd

S_VALUES = np.array([2, 4, 8, 16, 32, 64])
SEEDS = 3
COLUMNS = ["S", "lr", "seed", "status", "collapse_update", "horizon"]


def boundary_table(exponent, slope, seed, horizon=1000, eta0=1e-3):
    """6 S x 6 lr x 3 seeds with P(collapse) = logit^-1(slope * log(lr / (eta0 S^exponent))).

    slope: log-odds per natural log of lr; infinite is a sharp boundary. The grid of lr covers the
    boundary of every S.
    """
    rng = np.random.default_rng(seed)
    half_width = 1.2 + abs(exponent) * np.log(S_VALUES[-1] / S_VALUES[0]) / 2
    centre = np.log(eta0) + exponent * np.log(S_VALUES).mean()
    rows = []
    for s in S_VALUES:
        for log_lr in centre + half_width * np.linspace(-1.0, 1.0, 6):
            distance = log_lr - np.log(eta0) - exponent * np.log(s)
            p = float(distance > 0) if np.isinf(slope) else 1.0 / (1.0 + np.exp(-slope * distance))
            for k in range(SEEDS):
                time = rng.uniform(0.1, 1.0) * horizon if rng.random() < p else np.nan
                status = "stable" if np.isnan(time) else "collapsed"
                rows.append((s, np.exp(log_lr), k, status, time, horizon))
    return pd.DataFrame(rows, columns=COLUMNS)


def time_table(seed, b=1.0, c=0.0, sigma=0.3, horizon=None, boundary=None):
    """6 S x 6 lr x 3 seeds with log T_c = log 0.25 - b log lr - c log S + sigma * eps.

    eps: log of a unit exponential, so the Weibull AFT is the true model. horizon: updates, None
    waits for every collapse. boundary: runs with lr * S below it never collapse; None has none.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for s in S_VALUES:
        for lr in 1e-4 * 2.0 ** np.arange(6):
            for k in range(SEEDS):
                noise = sigma * np.log(rng.exponential())
                time = np.exp(np.log(0.25) - b * np.log(lr) - c * np.log(s) + noise)
                if boundary is not None and lr * s < boundary:
                    time = np.inf
                end = int(np.ceil(time)) if horizon is None else horizon
                seen = time <= end
                status = "collapsed" if seen else "stable"
                rows.append((s, lr, k, status, time if seen else np.nan, end))
    return pd.DataFrame(rows, columns=COLUMNS)
