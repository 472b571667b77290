"""Rows of the method's table whose ratios are those of whole responses."""

import math

import numpy as np

from .oracle import (
    Expected,
    clamped_exp,
    gradient_of_weights,
    length_factors,
    log_ratio,
    on_tokens,
)
from .oracle_tokens import ppo_clip


def log_trajectory_ratios(data):
    """sum_t l_it of each response; 0 for one without tokens."""
    return [
        sum(log_ratio(data.logp[i, t], data.behaviour[i, t]) for t in data.tokens(i))
        for i in range(len(data.mask))
    ]


def log_likelihood(data, i):
    return math.fsum(data.logp[i, t] for t in data.tokens(i))


# Each of these: (data, r, inside, eps) -> (w with value -w A n_i, weight of the gradient, binds).


def tic_mask(data, r, inside, eps):
    """-min(r, 1 + eps) A, differentiated through."""
    value = [min(x, 1 + eps) for x in r]
    weight = [x if x <= 1 + eps and ok else 0.0 for x, ok in zip(r, inside, strict=True)]
    return value, weight, sum(x > 1 + eps for x in r)


def tic_ppo(data, r, inside, eps):
    """max(-A r, -A min(r, 1 + eps)), differentiated through: bound for A > 0 alone."""
    binds = [a > 0 and x > 1 + eps for a, x in zip(data.advantage, r, strict=True)]
    value = [1 + eps if b else x for b, x in zip(binds, r, strict=True)]
    weight = [x if ok and not b else 0.0 for b, x, ok in zip(binds, r, inside, strict=True)]
    return value, weight, sum(binds)


def tic_truncate(data, r, inside, eps):
    """sg(min(r, 1 + eps)) in front of log pi(y)."""
    w = [min(x, 1 + eps) for x in r]
    return w, w, sum(x > 1 + eps for x in r)


def group_scale(r, group, eps):
    """min{1, (1 + eps) G / sum_j r_j}, j over the whole group."""
    return min(1.0, (1 + eps) * len(group) / math.fsum(r[j] for j in group))


def gmc(data, r, inside, eps):
    w, bound = [], 0
    for group in data.groups():
        scale = group_scale(r, group, eps)
        w += [r[j] * scale for j in group]
        bound += scale < 1
    return w, w, bound


def water_level(r, eps):
    """c = (G (1 + eps) - sum_{i<=k} r_(i)) / (G - k) with r_(k) <= c < r_(k+1), inf under the cap."""
    size, ordered = len(r), sorted(r)
    mass = size * (1 + eps)
    if math.fsum(r) <= mass:
        return math.inf
    for k in range(size):
        c = (mass - math.fsum(ordered[:k])) / (size - k)
        if (k == 0 or ordered[k - 1] <= c) and c < ordered[k]:
            return c
    raise AssertionError("no level: the mass is over the cap, so one exists")


def gmc_waterfill(data, r, inside, eps):
    w, bound = [], 0
    for group in data.groups():
        level = water_level([r[j] for j in group], eps)
        w += [min(r[j], level) for j in group]
        bound += level < math.inf
    return w, w, bound


TRAJECTORY = {
    "tic_mask": tic_mask,
    "tic_ppo": tic_ppo,
    "tic_truncate": tic_truncate,
    "gmc": gmc,
    "gmc_waterfill": gmc_waterfill,
}
# sg(w) stands in front of log pi(y) in these; in the others the loss is -w A n_i itself.
IN_FRONT_OF_LOG_PI = ("tic_truncate", "gmc", "gmc_waterfill")


def trajectory_level(name, data, *, length_norm, l_max, clamp, eps, through_gradient=False):
    n_i = length_factors(data.mask, length_norm, l_max)
    logs = log_trajectory_ratios(data)
    r = [clamped_exp(x, clamp) for x in logs]
    inside = [abs(x) <= clamp for x in logs]
    w, weight, bound = TRAJECTORY[name](data, r, inside, eps)
    times = [
        log_likelihood(data, i) if name in IN_FRONT_OF_LOG_PI and not through_gradient else 1.0
        for i in range(len(r))
    ]
    loss = -math.fsum(
        a * b * c * d for a, b, c, d in zip(w, data.advantage, n_i, times, strict=True)
    )
    weights = on_tokens(data, weight)
    gradient = gradient_of_weights(data, weights, n_i)
    if through_gradient:
        gradient = on_tokens(data, gmc_through_gradient(data, r, inside, n_i, eps))
    grouped = name in ("gmc", "gmc_waterfill")
    return Expected(
        loss=loss / len(r),
        weights=weights,
        raw=on_tokens(data, r),
        gradient=gradient,
        bound=bound,
        of=len(r) // data.group_size if grouped else len(r),
        clamped=sum(not ok for ok in inside),
    )


def gmc_through_gradient(data, r, inside, n_i, eps):
    """d/dlog r_i of -(1/N) sum_j n_j w_j A_j, w_j = r_j min(1, C / sum_k r_k).

    While the cap is active dw_j/dlog r_i = w_j (1{i=j} - w_i / C), so

        -(w_i / N) (n_i A_i - sum_j w_j n_j A_j / C),   C = sum_j w_j;

    for one n_i for all, -(n/N) w_i (A_i - sum_j w_j A_j / sum_j w_j).
    """
    out = []
    for group in data.groups():
        scale = group_scale(r, group, eps)
        w = {j: r[j] * scale for j in group}
        mean = 0.0
        if scale < 1:
            mean = math.fsum(w[j] * n_i[j] * data.advantage[j] for j in group)
            mean /= math.fsum(w.values())
        for j in group:
            through = w[j] * (n_i[j] * data.advantage[j] - mean) / len(r)
            out.append(-through if inside[j] else 0.0)
    return out


def gspo_ratios(data, clamp):
    """(s_i = r_i^(1/|y_i|) with r_i clamped, whether inside) by row; None without tokens."""
    out = []
    for i, log in enumerate(log_trajectory_ratios(data)):
        length = len(data.tokens(i))
        s = math.exp(max(-clamp, min(clamp, log)) / length) if length else 1.0
        out.append((s, abs(log) <= clamp) if length else None)
    return out


def gepo_ratios(data, clamp):
    """s_i = p_i / (sum_j q_j^2 / sum_j q_j), p and q the geometric means of pi and mu over tokens.

    The denominator is the mean of q under q itself, so q is first divided by the group's largest.
    """
    out = []
    for group in data.groups():
        mean = {
            i: [
                float(np.mean([x[i, t] for t in data.tokens(i)]))
                for x in (data.logp, data.behaviour)
            ]
            for i in group
            if data.tokens(i)
        }
        largest = max((log_q for _, log_q in mean.values()), default=0.0)
        if largest > -math.inf:
            q = [math.exp(log_q - largest) for _, log_q in mean.values()]
            denominator = largest + math.log(sum(x * x for x in q) / sum(q)) if q else 0.0
        else:
            denominator = -math.inf
        for i in group:
            if i not in mean:
                out.append(None)
                continue
            log = log_ratio(mean[i][0], denominator)
            out.append((clamped_exp(log, clamp), abs(log) <= clamp))
    return out


SEQUENCE_LEVEL = {"gspo": gspo_ratios, "gepo": gepo_ratios}


def sequence_level(name, data, *, clamp, eps_low, eps_high, length_norm=None, l_max=None):
    """-min(s A, clip(s) A), mean over N, differentiated through s; length_norm has no effect."""
    ratios = SEQUENCE_LEVEL[name](data, clamp)
    n_i = length_factors(data.mask, "sequence", None)
    value, weight = [], []
    bound = 0
    for i, ratio in enumerate(ratios):
        v, w, binds = (
            ppo_clip(*ratio, data.advantage[i], eps_low, eps_high) if ratio else (0.0, 0.0, False)
        )
        value.append(v)
        weight.append(w)
        bound += binds
    weights = on_tokens(data, weight)
    return Expected(
        loss=math.fsum(value) / len(value),
        weights=weights,
        raw=on_tokens(data, [ratio[0] if ratio else 0.0 for ratio in ratios]),
        gradient=gradient_of_weights(data, weights, n_i),
        bound=bound,
        of=len(ratios),
        clamped=sum(not ratio[1] for ratio in ratios if ratio),
    )


def response_level(name, data, **params):
    if name in TRAJECTORY:
        return trajectory_level(name, data, **params)
    return sequence_level(name, data, **params)
