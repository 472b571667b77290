"""Every objective as the policy drifts: biases, moments and errors, over kinds of problems.

The winner of a cell (problem, drift, group size, eps) has the smallest relative mse, |E g - (b)|^2 +
tr Cov g over |(b)|^2; among objectives with the same advantages that is the smallest mse. Winners by
scaled mse, which a learning rate cannot change, stand beside it. An estimate here is one group a prompt:
at that noise small estimates win by mse, so read both.

Objectives are compared on the same groups. m2po has a smaller sample of its own, and takes part only where
it is exact. Equal values, as those of all caps where none binds, go to the first in the order of the rows.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from driftlaw.config.lab import DriftSettings
from driftlaw.theory.cells import Cell, Row, Say
from driftlaw.theory.estimators import COUPLED, objectives
from driftlaw.theory.exact import drifted
from driftlaw.theory.problems import LABORATORY, build


def drift(settings: DriftSettings, say: Say) -> dict[str, pd.DataFrame]:
    """Table `drift`: a row per problem, drift, group size, eps and objective.

    An objective that takes no eps has the same values in the rows of every eps, with `eps` NaN; `cap`
    is the eps of the comparison. drift = updates x lr; kl in nats per response.
    """
    rows: list[Row] = []
    for number, chosen in enumerate(settings.problems):
        problem = build(chosen)
        for updates in settings.updates:
            point = drifted(problem, updates, settings.lr)
            for group_size in settings.group_sizes:
                stream = (settings.sampling.seed, LABORATORY, 2, number, updates, group_size)
                cell = Cell(point, group_size, settings.sampling, stream)
                for eps in settings.eps:
                    columns = {
                        "policy": chosen.policy,
                        "rewards": chosen.reward,
                        "vocabulary": chosen.vocabulary,
                        "length": chosen.length,
                        "updates": updates,
                        "drift": updates * settings.lr,
                        "cap": eps,
                    }
                    rows += cell.rows(objectives(eps, settings.objectives), **columns)
        say(f"problem {number + 1} of {len(settings.problems)}")
    frame = pd.DataFrame(rows)
    frame["winner"] = _winners(frame, "mse_relative")
    frame["scaled_winner"] = _winners(frame, "scaled_mse")
    return {"drift": frame}


def _winners(frame: pd.DataFrame, measure: str) -> pd.Series:
    """The objective with the smallest measure in each row's cell."""
    keys = ["policy", "rewards", "vocabulary", "length", "updates", "cap", "group_size"]
    apart = frame["objective"].isin(COUPLED) & ~frame["exact"]
    value = frame[measure].mask(apart, np.inf)
    smallest = value.groupby([frame[key] for key in keys]).transform("min")
    # Equal to rounding is equal.
    ties = frame["objective"].where(value <= smallest + 1e-9 * smallest.abs())
    return ties.groupby([frame[key] for key in keys]).transform("first")
