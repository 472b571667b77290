"""Joining chunks of one cohort."""

import numpy as np
import pytest

from driftlaw.rollout.protocol import Samples, join

from .policies import EVEN, PAD, UNEVEN, engine, policy, streams


def samples(version, response, logp, lengths, truncated):
    return Samples(
        version,
        np.array(response, dtype=np.int64),
        np.array(logp, dtype=np.float32),
        np.array(lengths, dtype=np.int64),
        np.array(truncated),
    )


def test_rows_are_padded_to_the_widest():
    joined = join(
        [
            samples(4, [[7, 1]], [[-0.5, -0.25]], [2], [False]),
            samples(4, [[5, 6, 8], [1, 9, 9]], [[-1, -2, -3], [-4, 0, 0]], [3, 1], [True, False]),
        ],
        pad_id=9,
    )
    assert joined.version == 4
    assert joined.response.tolist() == [[7, 1, 9], [5, 6, 8], [1, 9, 9]]
    assert joined.behaviour_logp.tolist() == [[-0.5, -0.25, 0], [-1, -2, -3], [-4, 0, 0]]
    assert joined.lengths.tolist() == [2, 3, 1]
    assert joined.truncated.tolist() == [False, True, False]
    assert joined.finish_reasons == ["stop", "length", "stop"]
    assert (joined.response.dtype, joined.behaviour_logp.dtype) == (np.int64, np.float32)


def test_versions_do_not_mix():
    parts = [samples(v, [[1]], [[-1.0]], [1], [False]) for v in (1, 2)]
    with pytest.raises(AssertionError):
        join(parts, 0)


def test_joined_chunks_are_the_chunks():
    source = engine(policy(), max_tokens=4)
    parts = [source.generate(0, p, streams(p, 2, first=i)) for i, p in enumerate((EVEN, UNEVEN))]
    joined = join(parts, PAD)
    for i, part in enumerate(parts):
        width = part.response.shape[1]
        rows = slice(8 * i, 8 * i + 8)
        assert (joined.response[rows, :width] == part.response).all()
        assert (joined.response[rows, width:] == PAD).all()
        assert (joined.behaviour_logp[rows, :width] == part.behaviour_logp).all()
