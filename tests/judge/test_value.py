"""Numbers with their noise: arithmetic against derivatives taken numerically, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ostinato.analysis.intervals import over_clusters, over_values
from ostinato.judge.value import (
    DOCUMENTS,
    SEEDS,
    STATED,
    NotEstimable,
    Residuals,
    Value,
    document_keys,
    largest,
    least,
    over_units,
    paradigm_keys,
)

KEYS = np.arange(12, dtype=np.uint64)


def draw(seed, number=12, level=1.0):
    random = np.random.default_rng(seed)
    return random.normal(level, 1.0, number) * 3, random.integers(1, 50, number)


def gain(seed=0, seeds=None, level=1.0):
    sums, sizes = draw(seed, level=level)
    return over_units(KEYS, sums, sizes, seeds or {}, "nats/token", "document")


@given(st.integers(0, 10_000), st.integers(2, 60))
def test_one_gain_has_the_interval_over_clusters(seed, number):
    sums, sizes = draw(seed, number)
    found = over_units(np.arange(number, dtype=np.uint64)[::-1], sums, sizes, {}, "", "document")
    interval, wanted = found.interval(DOCUMENTS), over_clusters(sums, sizes)
    assert interval.low == pytest.approx(wanted.low, rel=1e-12) and interval.high == pytest.approx(wanted.high, rel=1e-12)
    assert found.point == pytest.approx(sums.sum() / sizes.sum(), rel=1e-14) and found.freedom == wanted.freedom


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_seeds_have_students_interval(values):
    mean = sum(values) / len(values)
    found = Value(mean, {seed: value - mean for seed, value in enumerate(values)})
    assert (found.interval(SEEDS).low, found.interval(SEEDS).high) == pytest.approx((over_values(values).low, over_values(values).high))


FORMS = [
    lambda a, b, c: a + b - 2 * c,
    lambda a, b, c: (a + b) / c,
    lambda a, b, c: a * b / (1 + c * c),
    lambda a, b, c: abs(-a) - 3 / b,
    lambda a, b, c: (a - 0.5 * b) * (b - c) + 0.25,
]


@pytest.mark.parametrize("form", FORMS)
def test_arithmetic_is_first_order(form):
    """The residual of a document is the derivative by its weight, taken numerically from the sums themselves."""
    sizes = draw(7)[1]
    sums = [np.abs(draw(seed)[0]) + 2 * sizes for seed in range(3)]
    found = form(*(over_units(KEYS, each, sizes, {}, "", "document") for each in sums))
    share = sizes / sizes.sum()
    shrinkage = 1 - 2 * share + share @ share

    def weighted(weight):
        return form(*((weight @ each) / (weight @ sizes) for each in sums))

    assert found.point == pytest.approx(weighted(np.ones(12)), rel=1e-13)
    for place in range(12):
        step = np.zeros(12)
        step[place] = 1e-5
        slope = (weighted(1 + step) - weighted(1 - step)) / 2e-5
        assert found.documents.values[place] * math.sqrt(shrinkage[place]) == pytest.approx(slope, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_seeds_are_first_order_too(form):
    deviations = np.random.default_rng(3).normal(0, 1e-6, (3, 4))
    deviations -= deviations.mean(1, keepdims=True)
    points = (2.0, 3.0, 1.5)
    found = form(*(Value(point, dict(enumerate(each))) for point, each in zip(points, deviations, strict=True)))
    exact = np.array([form(*(point + each[seed] for point, each in zip(points, deviations, strict=True))) for seed in range(4)])
    assert [found.seeds[seed] for seed in range(4)] == pytest.approx(exact - exact.mean(), abs=1e-10)


def test_what_two_numbers_share_cancels():
    one = gain(1, {1: 1.0, 2: 1.1})
    nothing = one - one
    assert nothing.point == 0 and not nothing.documents.values.any() and set(nothing.seeds.values()) == {0.0} and nothing.doubt
    assert (one / one).documents.error == pytest.approx(0, abs=1e-15)


def test_paradigms_and_documents_never_meet():
    digest = np.random.default_rng(0).integers(0, 2**64, 500, dtype=np.uint64)
    documents, paradigms = document_keys(digest, np.zeros(500, int)), paradigm_keys(f"paradigm_{number}" for number in range(500))
    assert not set(documents.tolist()) & set(paradigms.tolist()) and len(set(paradigms.tolist())) == 500
    assert not set(document_keys(digest, np.ones(500, int)).tolist()) & set(documents.tolist())
    loss = over_units(documents[:12], *draw(1), {}, "", "document")
    share = over_units(paradigms[:9], draw(2, 9)[0], np.ones(9), {}, "", "paradigm")
    assert (loss - 2 * share).documents.error ** 2 == pytest.approx(loss.documents.error**2 + 4 * share.documents.error**2)


def test_documents_that_one_side_lacks_add_nothing_there():
    one, other = Residuals(np.array([1, 3], np.uint64), np.array([0.5, 1.0])), Residuals(np.array([2, 3], np.uint64), np.array([2.0, 4.0]))
    both = one.plus(other)
    assert both.keys.tolist() == [1, 2, 3] and both.values.tolist() == [0.5, 2.0, 5.0]


def test_seeds_are_paired():
    one, other = Value(1.0, {1: -0.1, 2: 0.0, 3: 0.1}), Value(2.0, {2: 0.2, 3: -0.2})
    assert (one + other).seeds == pytest.approx({2: 0.15, 3: -0.15})
    apart = one - Value(2.0, {7: 0.1, 8: -0.1})
    assert not apart.seeds and "no seed in common" in apart.doubt and apart.p is None and not apart.exact
    assert (one * 2).seeds == pytest.approx({1: -0.2, 2: 0.0, 3: 0.2})


def test_what_is_clear():
    wide, narrow = {1: -0.2, 2: 0.0, 3: 0.2}, {1: -0.01, 2: 0.0, 3: 0.01}
    sure = Residuals(KEYS, np.full(12, 0.01))
    assert Value(1.0, narrow, sure, 11).doubt == ""
    assert Value(0.3, wide, sure, 11).doubt == "the 95% interval over seeds (3 seeds) holds 0"
    assert Value(0.01, narrow, Residuals(KEYS, np.full(12, 0.1)), 11).doubt.startswith("the 95% interval over documents holds 0; the 95%")
    assert Value(1.0, {1: 0.0}, sure, 11).doubt == "one seed: the noise of seeds is not known" and Value(1.0, {1: 0.0}).p is None
    assert Value(5.0).exact and Value(5.0).doubt == "" and Value(5.0).p == 0.0
    stated = Residuals(np.array([1], np.uint64), np.array([0.1]))
    assert Value(1.0, {1: 0.0}, noise=stated).doubt == "" and Value(0.1, noise=stated).doubt == "the 95% interval over stated noise holds 0"
    assert Value(1.0, unknown="one document").doubt == "one document"


def test_p_is_the_largest():
    found = Value(0.3, {1: -0.05, 2: 0.0, 3: 0.05}, Residuals(KEYS, np.full(12, 0.01)), 11)
    over_seeds = stats.ttest_1samp([0.25, 0.3, 0.35], 0).pvalue
    over_documents = 2 * stats.t.sf(0.3 / math.sqrt(12 * 1e-4), 11)
    assert found.p == pytest.approx(max(over_seeds, over_documents)) and found.errors.keys() == {DOCUMENTS, SEEDS}
    assert Value(1.0, {1: 0.0, 2: 0.0}).p == 0.0 and Value(0.0, {1: 0.0, 2: 0.0}).p == 1.0 and STATED not in found.errors


@given(st.floats(-1, 1), st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=5))
def test_clear_is_a_p_below_five_in_a_hundred(point, values):
    mean = sum(values) / len(values)
    found = Value(point, {seed: value - mean for seed, value in enumerate(values)}, Residuals(KEYS, np.full(12, 0.02)), 11)
    assert abs(found.p - 0.05) < 1e-9 or (found.doubt == "") == (found.p < 0.05)


def test_ratios_that_mean_nothing_are_refused():
    up, down, zero = gain(0, {1: 1.0, 2: 1.01}), -gain(1, {1: 1.0, 2: 1.01}), gain(2, level=0.0)
    for above, below, words in ((up, down, "opposite sign"), (up, zero, "within noise of 0"), (up, Value(0.0), "division by 0")):
        with pytest.raises(NotEstimable, match=words):
            above / below
    assert (down / Value(100.0)).point < 0 and (1 / down).point < 0  # a fixed number has no sign to disagree with
    with pytest.raises(NotEstimable, match="within noise of 0"):
        up / Value(0.1, {1: 0.06, 2: -0.06})
    assert up / Value(0.1, {1: 0.03, 2: -0.03})  # two seeds: beyond twice their deviation, as the table of results has it


def test_units():
    nats, bits = gain(0), Value(1.0, unit="bits/byte")
    assert (nats + 1).unit == (2 * nats).unit == (-nats).unit == abs(nats).unit == "nats/token" and (nats / nats).unit == ""
    assert (nats / Value(10.0, unit="parameters")).unit == "nats/token / parameters"
    for wrong in (lambda: nats + bits, lambda: nats - bits, lambda: least([nats, bits])):
        with pytest.raises(NotEstimable, match="nats/token and bits/byte"):
            wrong()


def test_least_and_largest_keep_their_own_noise():
    low, high = Value(1.0, {1: -0.1, 2: 0.1}, unit="x"), Value(2.0, {1: -0.3, 2: 0.3}, unit="x")
    assert least([high, low]).seeds == low.seeds and largest([high, low, Value(0.0)]).seeds == high.seeds
    assert largest([Value(3.0), low]).unit == "x"


def test_too_few_units():
    one = over_units(KEYS[:1], np.array([2.0]), np.array([4]), {1: 0.5, 2: 0.5}, "", "document")
    assert one.point == 0.5 and one.interval(DOCUMENTS) is None and "one document" in one.doubt and one.p is None
    with pytest.raises(NotEstimable, match="no document"):
        over_units(KEYS[:0], np.array([]), np.array([]), {}, "", "document")
    assert "size 0" in over_units(KEYS[:3], np.ones(3), np.array([2, 0, 1]), {}, "", "document").doubt
    with pytest.raises(NotEstimable, match="beyond all bounds"):
        Value(1e200) * 1e200
