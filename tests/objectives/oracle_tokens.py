"""Rows of the method's table whose ratios are those of tokens."""

import math

import numpy as np

from .oracle import Expected, clamped_exp, gradient_of_weights, length_factors, log_ratio


def _assemble(data, n_i, value, weight, raw, bound, clamped):
    """Loss (1/N) sum_i n_i sum_t value_it, and the counts over all tokens."""
    n = len(n_i)
    loss = math.fsum(n_i[i] * value[i, t] for i in range(n) for t in data.tokens(i)) / n
    return Expected(
        loss=loss,
        weights=weight,
        raw=raw,
        gradient=gradient_of_weights(data, weight, n_i),
        bound=bound,
        of=int(data.mask.sum()),
        clamped=clamped,
    )


def _loop(data, n_i, clamp, of_token):
    """of_token(i, t, l, rho) -> (value, weight, whether the cap binds), on every token.

    A token is counted as clamped once, when a log-ratio of its own is outside; a fourth value says
    so where that is not l.
    """
    value, weight, raw = (np.zeros(data.mask.shape) for _ in range(3))
    bound = clamped = 0
    for i in range(len(n_i)):
        for t in data.tokens(i):
            log = log_ratio(data.logp[i, t], data.behaviour[i, t])
            raw[i, t] = clamped_exp(log, clamp)
            value[i, t], weight[i, t], binds, *outside = of_token(i, t, log, raw[i, t])
            bound += binds
            clamped += outside[0] if outside else abs(log) > clamp
    return _assemble(data, n_i, value, weight, raw, bound, clamped)


def ppo_clip(ratio, inside, advantage, low, high):
    """(-min(r A, clip(r, 1 - low, 1 + high) A), d/dlog r over -A, whether the clip binds)."""
    plain = ratio * advantage
    clipped = max(1 - low, min(1 + high, ratio)) * advantage
    # The gradient flows through the plain term wherever it is the smaller of the two.
    binds = clipped < plain
    return -min(plain, clipped), 0.0 if binds or not inside else ratio, binds


def grpo(data, n_i, clamp, eps_low, eps_high):
    def of_token(i, t, log, rho):
        return ppo_clip(rho, abs(log) <= clamp, data.advantage[i], eps_low, eps_high)

    return _loop(data, n_i, clamp, of_token)


def grpo_noclip(data, n_i, clamp):
    """-rho A."""

    def of_token(i, t, log, rho):
        return -rho * data.advantage[i], rho if abs(log) <= clamp else 0.0, False

    return _loop(data, n_i, clamp, of_token)


def truncated(data, n_i, clamp, cap):
    """cispo, tis: -sg(min(rho, cap)) A log pi; a clamped ratio is a constant like any other."""

    def of_token(i, t, log, rho):
        w = min(rho, cap)
        return -w * data.advantage[i] * data.logp[i, t], w, rho > cap

    return _loop(data, n_i, clamp, of_token)


def m2po_kept(data, m2_threshold):
    """Tokens left when the largest (log rho)^2 is taken out until the mean of the rest is low enough.

    Of equal squares the later token, row by row, goes first.
    """
    kept = {
        (i, t): log_ratio(data.logp[i, t], data.behaviour[i, t]) ** 2
        for i in range(len(data.mask))
        for t in data.tokens(i)
    }
    while kept and math.fsum(kept.values()) / len(kept) > m2_threshold:
        largest = max(kept.values())
        del kept[max(place for place, square in kept.items() if square == largest)]
    return set(kept)


def m2po(data, n_i, clamp, m2_threshold):
    """-M rho A, differentiated through rho; n_i counts masked tokens too."""
    kept = m2po_kept(data, m2_threshold)

    def of_token(i, t, log, rho):
        if (i, t) not in kept:
            return 0.0, 0.0, True
        return -rho * data.advantage[i], rho if abs(log) <= clamp else 0.0, False

    return _loop(data, n_i, clamp, of_token)


def decoupled_ppo(data, n_i, clamp, eps_low, eps_high, cap, alpha):
    """sg(min(pi_prox/mu, cap)) x PPO-clip on pi/pi_prox.

    Without prox: log pi_prox = log mu + alpha (log pi - log mu), so log pi_prox/mu = alpha l and
    log pi/pi_prox = (1 - alpha) l.
    """

    def of_token(i, t, log, rho):
        if data.prox is None:
            to_prox, from_prox = (0.0 if part == 0 else part * log for part in (alpha, 1 - alpha))
        else:
            to_prox = log_ratio(data.prox[i, t], data.behaviour[i, t])
            from_prox = log_ratio(data.logp[i, t], data.prox[i, t])
        constant = clamped_exp(to_prox, clamp)
        value, weight, clips = ppo_clip(
            clamped_exp(from_prox, clamp),
            abs(from_prox) <= clamp,
            data.advantage[i],
            eps_low,
            eps_high,
        )
        capped = min(constant, cap)
        outside = max(abs(to_prox), abs(from_prox)) > clamp
        return capped * value, capped * weight, clips or constant > cap, outside

    return _loop(data, n_i, clamp, of_token)


TOKEN_LEVEL = {
    "grpo": grpo,
    "grpo_noclip": grpo_noclip,
    "dapo": grpo,
    "dr_grpo": grpo,
    "cispo": truncated,
    "tis": truncated,
    "m2po": m2po,
    "decoupled_ppo": decoupled_ppo,
}


def token_level(name, data, *, length_norm, l_max, clamp, **own):
    n_i = length_factors(data.mask, length_norm, l_max)
    return TOKEN_LEVEL[name](data, n_i, clamp, **own)
