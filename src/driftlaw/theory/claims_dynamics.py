"""What the laboratory's dynamics say: asynchronous SGD (claim 4) and the mean-field model (claim 7)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from driftlaw.theory.claim import Claim, Tables, claim, interval, number, records, span, verdict_of

SYMBOLS = {"tau": "τ", "G": "G", "eps": "ε", "N": "N"}
# docs/method.md: largest stable eta x 1e4 by S, at kappa 1, nu 4e-4, M 50, R .25 and T = 8000.
STATED = {3: "4.12", 5: "2.09", 9: "1.09", 17: "0.61", 33: "0.41", 65: "0.35"}


def asynchronous_sgd(tables: Tables) -> Claim:
    """By the exponents of gmc's delay term in tau, G and eps: supported if their intervals contain the
    claimed ones, not supported if none does; undecided without an exponent."""
    exponents, cells = tables["exponents"], tables["cells"]
    inside = exponents[(exponents["scope"] == "inside") & exponents["estimate"].notna()]
    delay = inside[inside["term"] == "delay"]
    mine = [r for r in records(delay[delay["method"] == "gmc"]) if r["variable"] != "N"]
    verdict = verdict_of(r["low"] <= r["claimed"] <= r["high"] for r in mine)
    said = ", ".join(
        f"{SYMBOLS[r['variable']]} {interval(r, 'estimate')} (claimed {number(r['claimed'])})"
        for r in mine
    )
    free = records(delay[(delay["method"] == "uncapped") & (delay["variable"] == "G")])
    plain = f"; plain ratios have G {interval(free[0], 'estimate')}" if free else ""
    delayed = cells[cells["tau"] > 0]
    resolved = int(delayed["delay_resolved"].sum())
    capped = delayed[delayed["cap_term"].notna()]
    evidence = (
        f"Exponents of gmc's delay term: {said or 'none can be fitted'}{plain}. "
        f"{resolved} of {len(delayed)} delay terms are "
        f"resolved, and {int(capped['cap_resolved'].sum())} of {len(capped)} of the cap's own part."
    )
    rows = []
    for term, name in (("delay", "delay"), ("cap", "cap alone")):
        for method in dict.fromkeys(inside["method"]):
            part = inside[(inside["term"] == term) & (inside["method"] == method)]
            if part.empty:
                continue
            by = {r["variable"]: r for r in records(part)}
            texts = []
            for variable in SYMBOLS:
                r = by.get(variable)
                stated = (
                    ""
                    if r is None or not np.isfinite(r["claimed"])
                    else f"; {number(r['claimed'])}"
                )
                texts.append("-" if r is None else interval(r, "estimate") + stated)
            first = next(iter(by.values()))
            counts = f"{first['cells']} ({first['unresolved']})"
            rows.append([name, method, *texts, counts, number(first["scatter"])])
    columns = ["term", "method", *SYMBOLS.values(), "cells (unresolved)", "scatter (nats)"]
    return claim(
        "4",
        verdict,
        evidence,
        [
            {
                "title": "Exponents of the delay's term, and what is claimed after the semicolon.",
                "columns": columns,
                "rows": rows,
            },
            _delay_terms(delayed),
        ],
    )


def _delay_terms(delayed: pd.DataFrame) -> dict[str, object]:
    """The delay terms in units of the metric without delay: median over eps and N, by tau and method."""
    middle = delayed.groupby(["method", "tau"], sort=False)["relative"].median().unstack()  # noqa: PD010
    taus = [str(c) for c in middle.columns]
    rows = [[str(name), *(number(float(v)) for v in values)] for name, values in middle.iterrows()]
    return {
        "title": "Delay term over the metric without delay: median over G, ε and N.",
        "columns": ["method", *(f"τ = {tau}" for tau in taus)],
        "rows": rows,
    }


def mean_field(tables: Tables) -> Claim:
    """Needs: collapse time has an exponent within 0.1 of -1 away from the boundary, the boundary is
    within a factor 1.5 of the closed form wherever T is at least 2000, and at the largest memory equal mean
    lag gives boundaries equal to 1 %."""
    boundary, equal, exponents = (tables[k] for k in ("boundary", "equal_lag", "exponents"))
    times = exponents[(exponents["quantity"] == "collapse time") & (exponents["scope"] == "middle")]
    exits = (times["slope"] + 1).abs() < 0.1
    long = boundary[boundary["T"] >= 2000]
    near = long["ratio"].between(1 / 1.5, 1.5)
    most = equal[equal["memory"] == equal["memory"].max()]
    least = equal[equal["memory"] == equal["memory"].min()]
    same = (most["interval_over_delay"] - 1).abs() < 0.01
    verdict = verdict_of(bool(check.all()) for check in (exits, near, same) if len(check))
    evidence = (
        f"Collapse time has exponents {span(times['slope'])} in η at "
        f"gains from 2 to 20; the boundary is {span(long['ratio'])} of "
        f"the closed form; an interval's boundary over that of the delay with equal mean lag is "
        f"{_exact(most['interval_over_delay'])} at "
        f"M = {most['memory'].iloc[0]:g} and {_exact(least['interval_over_delay'])} at "
        f"M = {least['memory'].iloc[0]:g}."
    )
    found = []
    for r in records(boundary):
        stated = STATED.get(int(r["S"])) if r["T"] == 8000 else None
        found.append(
            [
                str(r["T"]),
                str(r["S"]),
                f"{1e4 * r['lr_max']:.2f}",
                stated or "-",
                f"{1e4 * r['predicted']:.2f}",
                str(r["binding"]),
            ]
        )
    return claim(
        "7",
        verdict,
        evidence,
        [
            {
                "title": "Largest stable η × 10⁴; what method.md states; the closed form and the term that "
                "sets it.",
                "columns": ["T", "S", "simulated", "stated", "closed form", "set by"],
                "rows": found,
            },
            {
                "title": "Exponents of collapse time in η, by distance from the boundary (gain g), with the "
                "range of local slopes.",
                "columns": ["S", "gains", "exponent", "range", "points"],
                "rows": [
                    [
                        number(r["S"]),
                        {"near": "below 2", "middle": "2 to 20", "far": "above 20"}[r["scope"]],
                        number(r["slope"]),
                        f"{number(r['low'])} to {number(r['high'])}",
                        str(r["points"]),
                    ]
                    for r in records(exponents)
                    if r["quantity"] == "collapse time" and r["scope"] != "all"
                ],
            },
        ],
    )


def _exact(values: pd.Series) -> str:
    """The range of quotients near 1."""
    return f"{values.min():.3f} to {values.max():.3f}"
