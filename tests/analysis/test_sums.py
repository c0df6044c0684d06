"""Sums, then one division: invariance to how the targets are cut, and nothing estimated from nothing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.analysis import Sums, mean_nats, summary, total
from ostinato.errors import StoreError


def test_no_mean_of_means():
    assert mean_nats([2, 90], [1, 9]) == 9.2
    assert mean_nats([10.0] * 10_000, [1] * 10_000) == 10.0
    assert total(Sums(10.0, 1, 4) for _ in range(10_000)) == Sums(100_000.0, 10_000, 40_000)


def test_nothing_counted_is_not_estimable():
    assert mean_nats([], []) is None and mean_nats([0.0], [0]) is None
    empty = summary(np.empty(0, np.float32), np.empty(0, np.int32))
    assert empty == Sums() and (empty.nats_per_token, empty.bits_per_byte, empty.perplexity) == (None, None, None)
    assert Sums(3.0, 2, 0).bits_per_byte is None and Sums(3.0, 2, 0).nats_per_token == 1.5


def test_rates():
    sums = summary(np.full(10, math.log(8), np.float64), np.full(10, 4))
    assert sums.nats_per_token == pytest.approx(math.log(8)) and sums.perplexity == pytest.approx(8)
    assert sums.bits_per_byte == pytest.approx(3 / 4)


def test_float32_losses_are_summed_in_float64():
    losses = np.full(2**24 + 3, 1.0, np.float32)  # a float32 sum stops growing at 2^24
    assert summary(losses, np.ones(len(losses), np.int32)).nats == len(losses)


def test_bytes_beyond_int32_are_counted():
    assert summary(np.zeros(3), np.full(3, 2**31 - 1, np.int32)).bytes == 3 * (2**31 - 1)


@given(st.lists(st.floats(0, 50, width=32), min_size=1, max_size=60), st.data())
def test_any_cut_into_batches_gives_the_same_rates(values, data):
    losses, sizes = np.array(values, np.float32), np.arange(1, len(values) + 1)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=5)))
    edges = [0, *cuts, len(values)]
    parts = total(summary(losses[a:b], sizes[a:b]) for a, b in itertools.pairwise(edges))
    whole = summary(losses, sizes)
    assert (parts.targets, parts.bytes) == (whole.targets, whole.bytes)
    assert parts.nats == pytest.approx(whole.nats, rel=1e-14, abs=1e-12)


def test_lengths_must_agree():
    with pytest.raises(StoreError, match="one loss for each target"):
        summary(np.zeros(3), np.zeros(4))
