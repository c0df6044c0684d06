"""Fieller's set against the test that it inverts, ratio by ratio, and its unbounded forms in words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.analysis.intervals import over_clusters, over_values
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.fieller import fieller, ratio_over_documents, ratio_over_seeds

GRID = np.concatenate([-np.logspace(2, -2, 40), [0.0], np.logspace(-2, 2, 40)])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(-2, 2), st.floats(-2, 2), st.sampled_from([3, 8, 40]))
def test_a_ratio_is_in_the_set_when_top_less_ratio_times_bottom_is_not_told_from_zero(seed, top, bottom, documents):
    random = np.random.default_rng(seed)
    sizes = np.exp(random.normal(0, 0.8, documents)) * 100
    first = sizes * random.normal(top, 1, documents)
    second = sizes * random.normal(bottom, 1, documents) + 0.3 * first
    found = ratio_over_documents(first, second, sizes)
    for ratio in GRID:
        interval = over_clusters(first - ratio * second, sizes)
        if min(abs(interval.low), abs(interval.high)) > 1e-6 * interval.error:  # else rounding decides
            assert found.holds(ratio) == interval.holds(0.0), (ratio, found)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(-2, 2), st.integers(2, 6))
def test_over_seeds_it_inverts_the_t_test_paired_by_seed(seed, bottom, seeds):
    random = np.random.default_rng(seed)
    first, second = random.normal(1, 0.5, seeds), random.normal(bottom, 0.5, seeds)
    found = ratio_over_seeds(dict(enumerate(first)) | {99: 5.0}, dict(enumerate(second)))
    assert found.freedom == seeds - 1
    for ratio in GRID:
        interval = over_values(first - ratio * second)
        if min(abs(interval.low), abs(interval.high)) > 1e-6 * interval.error:
            assert found.holds(ratio) == interval.holds(0.0), (ratio, found)


def test_the_forms_of_the_set():
    known = fieller(1.0, 2.0, np.diag([0.01, 0.01]), math.inf)
    assert known.kind == "interval" and known.bounded and known.low < 0.5 < known.high and " to " in known.words
    outside = fieller(3.0, 0.1, np.diag([0.1, 0.1]), math.inf)
    assert outside.kind == "complement" and outside.low < 0 < outside.high and not outside.holds(0.0) and outside.holds(30.0)
    assert "not told from 0" in outside.words and not outside.bounded
    anything = fieller(0.1, 0.1, np.diag([1.0, 1.0]), math.inf)
    assert anything.kind == "everything" and anything.holds(1e9) and "any ratio" in anything.words
    assert anything.record()["low"] is None and anything.record()["freedom"] is None
    half = fieller(1.0, 1.0, np.array([[0.0, 0.0], [0.0, 1.0]]), 3)
    assert fieller(1.0, 1.0, np.zeros((2, 2)), 3).words == "+1.000 to +1.000"
    assert half.kind == "complement"


def test_a_half_line_where_the_bottom_is_just_at_its_noise():
    from scipy.special import ndtri

    bottom = float(ndtri(0.975))
    found = fieller(4.0, bottom, np.diag([1.0, 1.0]), math.inf)
    assert found.kind == "interval" and found.high == math.inf and found.low == pytest.approx((16 - bottom**2) / (8 * bottom))
    assert found.words.endswith("or more")
    assert fieller(-4.0, bottom, np.diag([1.0, 1.0]), math.inf).words.endswith("or less")


def test_the_example_of_finney():
    """A published ratio: Finney, Statistical Method in Biological Assay: g = t^2 V_bb / B^2 gives the same ends as the quadratic."""
    top, bottom, v_tt, v_tb, v_bb, freedom = 12.0, 8.0, 1.2, 0.3, 0.9, 12
    from scipy.special import stdtrit

    t = float(stdtrit(freedom, 0.975))
    ratio, g = top / bottom, t**2 * v_bb / bottom**2
    half = t / bottom * math.sqrt(v_tt - 2 * ratio * v_tb + ratio**2 * v_bb - g * (v_tt - v_tb**2 / v_bb))
    found = fieller(top, bottom, np.array([[v_tt, v_tb], [v_tb, v_bb]]), freedom)
    middle = ratio - g * v_tb / v_bb
    assert (found.low, found.high) == pytest.approx(((middle - half) / (1 - g), (middle + half) / (1 - g)))


def test_what_cannot_be_estimated_is_refused():
    with pytest.raises(NotEstimable, match="exactly 0"):
        fieller(1.0, 0.0, np.eye(2), 5)
    with pytest.raises(NotEstimable, match="1 document"):
        ratio_over_documents([1.0], [1.0], [10.0])
    with pytest.raises(NotEstimable, match="two seeds"):
        ratio_over_seeds({1: 0.1}, {1: 0.1, 2: 0.2})
