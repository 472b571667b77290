"""The objectives once more: NumPy scalars in loops, written from the method, not from `src`.

Every function states the formula it follows. Nothing here imports driftlaw.
"""

import math

import numpy as np

TOKEN_LEVEL = ("grpo", "grpo_noclip")


def length_factors(mask, length_norm, l_max):
    """n_i: sequence 1/|y_i|, constant 1/l_max, token N / sum |y|."""
    lengths = [int(row.sum()) for row in mask]
    if length_norm == "sequence":
        return [1.0 / n if n else 0.0 for n in lengths]
    if length_norm == "constant":
        return [1.0 / l_max] * len(lengths)
    return [len(lengths) / sum(lengths)] * len(lengths)


def trajectory_ratios(logp, behaviour, mask, clamp):
    """[(r_i, whether the sum of log-ratios was inside the clamp)], r_i = exp clamp(sum_t l_it)."""
    out = []
    for i in range(len(logp)):
        total = math.fsum(logp[i, t] - behaviour[i, t] for t in range(logp.shape[1]) if mask[i, t])
        out.append((math.exp(max(-clamp, min(clamp, total))), abs(total) <= clamp))
    return out


def objective(
    name, logp, behaviour, mask, advantage, group_size, *, eps, length_norm, l_max, clamp
):
    """(loss, N x T weight on A_i n_i grad log pi(y_it) / N, N factors n_i)."""
    n, width = logp.shape
    factor = length_factors(mask, length_norm, l_max)
    weight = np.zeros((n, width))
    terms = []
    if name in TOKEN_LEVEL:
        for i in range(n):
            term = 0.0
            for t in range(width):
                if not mask[i, t]:
                    continue
                log_ratio = logp[i, t] - behaviour[i, t]
                ratio = math.exp(max(-clamp, min(clamp, log_ratio)))
                plain = ratio * advantage[i]
                clipped = max(1 - eps, min(1 + eps, ratio)) * advantage[i]
                value = min(plain, clipped) if name == "grpo" else plain
                term -= value
                # The gradient flows through the plain term wherever it is the smaller of the two.
                weight[i, t] = ratio if value == plain and abs(log_ratio) <= clamp else 0.0
            terms.append(factor[i] * term)
        return sum(terms) / n, weight, factor

    ratios = trajectory_ratios(logp, behaviour, mask, clamp)
    for i, (r, inside) in enumerate(ratios):
        log_likelihood = math.fsum(logp[i, t] for t in range(width) if mask[i, t])
        if name == "tic_mask":
            # -min(r, 1 + eps) A, differentiated through.
            terms.append(-min(r, 1 + eps) * advantage[i] * factor[i])
            w = r if r <= 1 + eps and inside else 0.0
        else:
            if name == "tic_truncate":
                w = min(r, 1 + eps)
            elif name == "gmc":
                # w_i = r_i min{1, (1 + eps) G / sum_j r_j}, j over the whole group.
                first = (i // group_size) * group_size
                mass = sum(ratios[j][0] for j in range(first, first + group_size))
                w = r * min(1.0, (1 + eps) * group_size / mass)
            else:
                raise ValueError(name)
            terms.append(-w * advantage[i] * factor[i] * log_likelihood)
        for t in range(width):
            if mask[i, t]:
                weight[i, t] = w
    return sum(terms) / n, weight, factor
