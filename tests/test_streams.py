"""Random streams: named, disjoint, and independent of who draws with whom."""

import hashlib
import itertools
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from driftlaw import streams
from driftlaw.streams import generator, uniforms

names = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5).map(tuple)


def test_purposes_are_distinct():
    purposes = [
        streams.PROMPT_ORDER,
        streams.ROLLOUT,
        streams.EVALUATION,
        streams.BASE_BATCH,
        streams.BASE_NOISE,
    ]
    assert len(set(purposes)) == 5
    drawn = uniforms([(7, purpose, 3, 2, 1) for purpose in purposes], 8)
    assert len(np.unique(drawn)) == drawn.size


def test_neighbouring_names_share_no_number():
    """Any two of 6 x 5 x 6 x 6 names, also of names that begin alike and differ in length."""
    all_names = list(itertools.product(range(6), range(5), range(6), range(6)))
    all_names += [name[:k] for name in all_names[:40] for k in (1, 2, 3)] + [(0, 0, 0, 0, 0)]
    distinct = sorted(set(all_names))
    drawn = uniforms(distinct, 4)
    assert len(np.unique(drawn)) == drawn.size


def test_uniformity_within_and_across_streams():
    drawn = uniforms([(1, streams.ROLLOUT, 0, p, j) for p in range(100) for j in range(10)], 4)
    for column in drawn.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-3
    correlation = np.corrcoef(drawn.T) - np.eye(4)
    assert np.abs(correlation).max() < 4 / np.sqrt(1000)
    assert drawn.min() >= 0 and drawn.max() < 1


@settings(max_examples=100, deadline=None)
@given(name=names, short=st.integers(0, 20), more=st.integers(0, 20))
def test_a_shorter_row_is_a_prefix(name, short, more):
    long = uniforms([name], short + more)
    assert uniforms([name], short).tobytes() == long[:, :short].tobytes()


@settings(max_examples=50, deadline=None)
@given(batch=st.lists(names, min_size=1, max_size=6), data=st.data())
def test_a_row_does_not_depend_on_its_batch(batch, data):
    row = data.draw(st.integers(0, len(batch) - 1))
    alone = uniforms([batch[row]], 5)[0]
    assert uniforms(batch, 5)[row].tobytes() == alone.tobytes()
    assert generator(batch[row]).random(5).tobytes() == alone.tobytes()


def test_numbers_are_fixed_for_ever():
    """Results name their seeds: another NumPy or another machine must give the same numbers."""
    # Philox-4x64-10 under the 128-bit key blake2b(name): written out independently.
    key = int.from_bytes(
        hashlib.blake2b(struct.pack("<3Q", 4, 1, 9), digest_size=16).digest(), "little"
    )
    mask = 2**64 - 1
    k0, k1 = key & mask, key >> 64
    c = [1, 0, 0, 0]  # NumPy counts up before the first block
    for _ in range(10):
        a, b = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(b >> 64) ^ c[1] ^ k0, b & mask, (a >> 64) ^ c[3] ^ k1, a & mask]
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
    expected = [(word >> 11) * 2.0**-53 for word in c]
    assert uniforms([(4, 1, 9)], 4)[0].tolist() == expected


@pytest.mark.parametrize("name", [(-1, 0), (0, 2**64), (0.5, 1)])
def test_names_are_whole_numbers_of_64_bits(name):
    with pytest.raises(struct.error):
        generator(name)
