"""Drawing a token by inverting the cumulative distribution: exact shares, exact log mu."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from driftlaw.rollout.protocol import NonFinitePolicy
from driftlaw.rollout.torch_engine import draw

P = [0.1, 0.4, 0.2, 0.3]


def shares(probabilities, count, temperature=1.0, top_p=1.0):
    """(times each token is drawn on the grid (i + 1/2)/count, {token: log mu})."""
    u = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    logits = torch.tensor(probabilities).log().expand(count, -1)
    token, logp = draw(logits, u, temperature, top_p)
    counts = torch.bincount(token, minlength=len(probabilities)).tolist()
    return counts, dict(zip(token.tolist(), logp.tolist(), strict=True))


@pytest.mark.parametrize(
    ("temperature", "top_p", "expected"),
    [
        (1.0, 1.0, [1, 4, 2, 3]),
        # Temperature 1/2 squares: .01 .16 .04 .09 over .30.
        (0.5, 1.0, [1, 16, 4, 9]),
        # Nucleus: .4 + .3 = .7 reaches .65 and, of .9, .4 + .3 + .2; renormalised.
        (1.0, 0.65, [0, 4, 0, 3]),
        (1.0, 0.85, [0, 4, 2, 3]),
        (1.0, 0.95, [1, 4, 2, 3]),
        (1.0, 0.01, [0, 1, 0, 0]),
        # Temperature first, nucleus second: 16/30 + 9/30 = .83 reaches .6.
        (0.5, 0.6, [0, 16, 0, 9]),
    ],
)
def test_share_of_each_token(temperature, top_p, expected):
    total = sum(expected)
    counts, logp = shares(P, 1000 * total, temperature, top_p)
    assert counts == [1000 * k for k in expected]
    assert logp == pytest.approx(
        {k: math.log(n / total) for k, n in enumerate(expected) if n}, abs=1e-6
    )


def test_tokens_are_in_the_order_of_their_ids():
    """The uniform picks the place on a ruler of 0.1 | 0.4 | 0.2 | 0.3."""
    u = torch.tensor([0.0, 0.09, 0.11, 0.49, 0.51, 0.69, 0.71, 1 - 2.0**-53], dtype=torch.float64)
    token, _ = draw(torch.tensor(P).log().expand(8, -1), u, 1.0, 1.0)
    assert token.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_rows_use_their_own_uniform_and_distribution():
    logits = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).log()
    token, logp = draw(logits, torch.tensor([0.5, 0.5], dtype=torch.float64), 1.0, 1.0)
    assert token.tolist() == [0, 1]
    assert logp.tolist() == pytest.approx([math.log(0.9)] * 2)


@pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_a_token_without_mass_is_never_drawn(u, top_p):
    """Also at the ends of the ruler, where the tokens beside it have none."""
    logits = torch.tensor([[-1e4, 1.0, -1e4, 1.0, -1e4]])
    token, logp = draw(logits, torch.tensor([u], dtype=torch.float64), 1.0, top_p)
    assert token.tolist() == [1 if u < 0.5 else 3]
    assert logp.tolist() == pytest.approx([math.log(0.5)])


def test_ties_at_the_edge_of_the_nucleus_go_to_the_lower_id():
    counts, _ = shares([0.25, 0.25, 0.25, 0.25], 1000, top_p=0.45)
    assert counts == [500, 500, 0, 0]


@settings(max_examples=200, deadline=None)
@given(
    logits=st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=12),
    u=st.floats(0, 1, exclude_max=True),
    temperature=st.floats(0.25, 4),
    top_p=st.floats(0.01, 1),
)
def test_against_a_plain_inversion(logits, u, temperature, top_p):
    token, logp = draw(
        torch.tensor([logits]), torch.tensor([u], dtype=torch.float64), temperature, top_p
    )
    scaled = np.array(logits, dtype=np.float64) / temperature
    p = np.exp(scaled - scaled.max())
    p /= p.sum()
    order = sorted(range(len(p)), key=lambda k: -p[k])
    before = np.cumsum(p[order]) - p[order]
    # The edge of the nucleus, a tie or a uniform on a boundary may round either way.
    edges = [b for b in before if b > 0]
    assume(not any(abs(b - top_p) < 1e-5 for b in edges))
    kept = [k for k, b in zip(order, before, strict=True) if top_p >= 1 or b < top_p]
    assume(not any(abs(p[k] - p[kept[-1]]) < 1e-6 * p[k] for k in order if k not in kept))
    q = np.zeros_like(p)
    q[kept] = p[kept] / p[kept].sum()
    cdf = np.cumsum(q)
    assume(len(kept) == 1 or np.abs(cdf - u).min() > 1e-5)
    assert token.item() == int(np.searchsorted(cdf, u, side="right"))
    assert logp.item() == pytest.approx(math.log(q[token.item()]), abs=2e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite(bad):
    logits = torch.tensor([[0.0, 1.0], [0.0, bad]])
    with pytest.raises(NonFinitePolicy):
        draw(logits, torch.tensor([0.5, 0.5]).double(), 1.0, 1.0)
