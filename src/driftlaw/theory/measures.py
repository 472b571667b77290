"""What is reported of an estimator: biases, moments and errors, each with its standard error.

    cap bias      E g - (c)                    what the cap (or the token-level ratio) changes
    total bias    E g - (b)
    mse           |E g - (b)|^2 + tr Cov g     about the on-policy estimator's mean
    scaled mse    min_a E |a g - (b)|^2 / |(b)|^2 = 1 - <E g, (b)>^2 / (E|g|^2 |(b)|^2)
    cosine        of E g with grad J

mse rewards an estimator for being small; scaled mse is what is left when the learning rate absorbs the
scale. [choice] Relative biases are shares of the norm of their target.
"""

from __future__ import annotations

import numpy as np

from driftlaw.theory.exact import Point
from driftlaw.theory.moments import GROUP_MEASURES, Moments, Targets


def measures(point: Point, found: Moments, target: Targets) -> dict[str, float]:
    """Every measure, and `<measure>_se` (0 where exact).

    `cap_bias` and `total_bias` are norms, roots of debiased squares (0 where those are negative); the
    squares stand beside them: their standard errors stay meaningful near 0.
    """
    value = _values(point, found, target)
    if found.groups == 0:
        return value | {f"{name}_se": 0.0 for name in value}
    blocks = len(found.mean_bxe)
    leave_out = [_values(point, found.without(b), target) for b in range(blocks)]
    errors = {}
    for name in value:
        values_b = np.array([v[name] for v in leave_out])
        errors[f"{name}_se"] = float(np.sqrt((blocks - 1) * values_b.var()))
    for name in ("cap_bias", "total_bias"):
        # The root is not smooth at 0; there its error is that of a square one standard error away.
        norm, square_se = value[name], errors[f"{name}_squared_se"]
        errors[f"{name}_se"] = square_se / max(2 * norm, square_se**0.5) if square_se else 0.0
        scale = value[f"{name}_relative"] / norm if norm else 0.0
        errors[f"{name}_relative_se"] = errors[f"{name}_se"] * scale
    return value | errors


def _values(point: Point, found: Moments, target: Targets) -> dict[str, float]:
    x_count = point.problem.prompts
    residual_xe = found.mean_bxe.mean(0)
    mean_xe = residual_xe + found.offset_xe
    noise_x = np.zeros(x_count)
    if found.groups:
        noise_x = (found.residual_bx.mean(0) - point.squared(residual_xe)) / (found.groups - 1)
    noise = float(noise_x.sum()) / x_count**2
    mean, on, weighted = (
        point.to_parameters(v) for v in (mean_xe, target.on_policy, target.importance)
    )
    own_square_x = point.squared(mean_xe) - noise_x
    trace = float((found.square_bx.mean(0) - own_square_x).sum()) / x_count**2
    second = float(mean @ mean) - noise + trace
    on_square, weighted_square = float(on @ on), float(weighted @ weighted)
    total = float((mean - on) @ (mean - on)) - noise
    cap = float((mean - weighted) @ (mean - weighted)) - noise
    along = float(mean @ on)
    out = {
        "cap_bias": max(cap, 0.0) ** 0.5,
        "cap_bias_squared": cap,
        "cap_bias_relative": _ratio(max(cap, 0.0), weighted_square) ** 0.5,
        "total_bias": max(total, 0.0) ** 0.5,
        "total_bias_squared": total,
        "total_bias_relative": _ratio(max(total, 0.0), on_square) ** 0.5,
        "second_moment": second,
        "trace_cov": trace,
        "mse": total + trace,
        "mse_relative": _ratio(total + trace, on_square),
        "scaled_mse": 1.0 - _ratio(along**2, second * on_square),
        "cosine": _ratio(
            float(mean @ point.gradient),
            float(np.linalg.norm(mean) * np.linalg.norm(point.gradient)),
        ),
    }
    group_k = found.group_bxk.mean((0, 1))
    return out | {name: float(v) for name, v in zip(GROUP_MEASURES, group_k, strict=True)}


def _ratio(part: float, whole: float) -> float:
    """0 where both are: an estimator that is always zero."""
    return part / whole if whole else 0.0
