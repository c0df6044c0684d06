"""Accuracies of minimal pairs and what one arm finds that another does not: by hand, against scipy, and as properties."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.analysis.minimal_pairs import McNemar, carries_half, compare_pairs, outcomes, pair_scores
from ostinato.errors import StoreError

UNEVEN = ("a", "a", "a", "a", "b", "b", "c")
FIELDS = {"a": "x", "b": "x", "c": "y"}


def table(gaps, paradigms=UNEVEN, identical=(), bos=True) -> pa.Table:
    """gaps: the log-probability of the good sentence less that of the bad one, alike in both conventions but for the sign."""
    gaps, count = np.array(gaps, np.float64), len(gaps)
    seen: dict[str, int] = {}
    pair = [seen.__setitem__(name, seen.get(name, -1) + 1) or seen[name] for name in paradigms]
    absent = pa.array([None] * count, pa.float64())
    return pa.table({
        "paradigm": pa.array(paradigms).dictionary_encode(), "field": [FIELDS.get(name, "z") for name in paradigms],
        "term": [f"t{name}" for name in paradigms], "pair": pair, "identical": [place in identical for place in range(count)],
        "good_bos": gaps - 7 if bos else absent, "bad_bos": np.full(count, -7.0) if bos else absent,
        "good_skip_first": -gaps, "bad_skip_first": np.zeros(count),
    })  # fmt: skip


def test_ties_are_half_and_identical_pairs_are_left_out():
    found = pair_scores([table([1, -1, 0, 2, 0, 3, -4], identical=[4])])
    assert {name: score.accuracy for name, score in found.paradigms.items()} == {"a": 2.5 / 4, "b": 1.0, "c": 0.0}
    assert (found.total.pairs, found.total.right, found.total.tied, found.total.identical) == (6, 3, 1, 1)
    assert found.fields["x"].accuracy == 3.5 / 5 and found.fields["y"].accuracy == 0.0, "over pairs, not over paradigms"
    assert found.macro == pytest.approx((0.625 + 1 + 0) / 3) and found.terms.keys() == {"ta", "tb", "tc"}
    other = pair_scores([table([1, -1, 0, 2, 0, 3, -4], identical=[4])], "skip_first")
    assert other.paradigms["a"].accuracy == 1.5 / 4 and other.convention == "skip_first"
    assert found.record()["paradigms"]["a"] == {"pairs": 4, "right": 2, "tied": 1, "identical": 0, "accuracy": 0.625}


def test_a_paradigm_of_identical_pairs_alone_has_no_accuracy():
    found = pair_scores([table([0, 1], ("a", "b"), identical=[0])])
    assert found.paradigms["a"].accuracy is None and found.macro == 1.0
    nothing = pair_scores([table([0], ("a",), identical=[0])])
    assert nothing.macro is None and nothing.total.accuracy is None
    alone = compare_pairs({1: (table([0], ("a",), identical=[0]),) * 2})
    assert alone.macro is None and alone.words == "not estimable" and alone.half is None and alone.interval is None


def test_seeds_are_added_before_anything_is_divided():
    one, other = table([1, 1, 1, 1, 1, 1, 1]), table([-1, -1, 1, 1, -1, 1, -1])
    found = pair_scores([one, other])
    assert found.paradigms["a"].pairs == 8 and found.paradigms["a"].accuracy == 6 / 8 and found.paradigms["c"].accuracy == 0.5


def test_two_arms_by_hand():
    reference, arm = table([1, -1, -1, -1, 1, -1, 1]), table([1, 1, 1, 0, -1, -1, 1])
    found = compare_pairs({1: (reference, arm)})
    assert found.differences == {"a": pytest.approx(2.5 / 4), "b": -0.5, "c": 0.0}
    assert (found.won, found.lost, found.tied) == (1, 1, 1) and found.macro == pytest.approx(0.125 / 3)
    assert (found.items[1].gained, found.items[1].lost) == (3, 1), "a tie is more than wrong"
    assert found.items[1].p == pytest.approx(2 * (1 + 4) / 16) and found.p == found.items[1].p
    assert found.words == "about zero (+4.2 points)" and found.half == 1
    values = np.array([0.625, -0.5, 0.0])
    half = 4.302652729911275 * values.std(ddof=1) / math.sqrt(3)
    assert (found.interval.low, found.interval.high) == pytest.approx((values.mean() - half, values.mean() + half))
    assert found.record()["items"]["1"]["gained"] == 3 and found.record()["won"] == 1


def test_seeds_that_lie_apart_are_no_news():
    paradigms = [f"p{place}" for place in range(6)]
    lost, kept = table([-1] * 6, paradigms), table([1] * 6, paradigms)
    found = compare_pairs({1: (lost, kept), 2: (lost, lost)})
    assert found.by_seed == {1: 1.0, 2: 0.0} and found.macro == 0.5 and found.words.startswith("about zero")
    assert found.p == 1.0, "one of the seeds shows nothing"
    assert compare_pairs({1: (lost, kept), 2: (lost, kept)}).words == "better by 100.0 points"
    assert compare_pairs({1: (kept, lost)}).words == "worse by 100.0 points" and compare_pairs({1: (kept, lost)}).half == 3


def test_other_pairs_and_another_convention_are_refused():
    with pytest.raises(StoreError, match="different minimal pairs"):
        compare_pairs({1: (table([1, 1], ("a", "b")), table([1, 1], ("a", "a")))})
    with pytest.raises(StoreError, match="different minimal pairs"):
        pair_scores([table([1, 1], ("a", "b")), table([1], ("a",))])
    with pytest.raises(StoreError, match="in the convention bos"):
        outcomes(table([1, 1], ("a", "b"), bos=False))
    assert outcomes(table([1, -1], ("a", "b"), bos=False), "skip_first").tolist() == [0, 1]


@settings(max_examples=30)
@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_exact_binomial_test(gained, lost):
    from scipy.stats import binomtest

    wanted = binomtest(gained, gained + lost, 0.5).pvalue if gained + lost else 1.0
    assert McNemar(gained, lost).p == pytest.approx(wanted, rel=1e-9)


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=7))
def test_how_many_carry_half_is_the_fewest(values):
    whole = sum(values)
    if not whole:
        assert carries_half(values) is None
        return
    sign = 1 if whole > 0 else -1
    wanted = next(count for count in range(1, len(values) + 1)
                  if any(2 * sign * sum(chosen) >= abs(whole) for chosen in itertools.combinations(values, count)))  # fmt: skip
    assert carries_half(values) == wanted


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2), st.integers(-2, 2), st.booleans()), min_size=1, max_size=40))
def test_the_difference_of_two_arms_is_that_of_their_scores(rows):
    paradigms = [f"p{kind}" for kind, *_ in rows]
    same = [place for place, row in enumerate(rows) if row[3]]
    reference, arm = (table([row[side] for row in rows], paradigms, same) for side in (1, 2))
    found, scores = compare_pairs({5: (reference, arm)}), [pair_scores([one]) for one in (reference, arm)]
    for name, difference in found.differences.items():
        assert difference == pytest.approx(scores[1].paradigms[name].accuracy - scores[0].paradigms[name].accuracy)
    assert found.won + found.lost + found.tied == len(found.differences) <= len(scores[0].paradigms)
    if found.macro is not None:
        assert found.macro == pytest.approx(scores[1].macro - scores[0].macro)
    back = compare_pairs({5: (arm, reference)})
    assert back.differences == {name: pytest.approx(-value) for name, value in found.differences.items()} and back.p == found.p
