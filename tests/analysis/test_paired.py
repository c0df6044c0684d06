"""Two arrays of losses on the same targets: signs, counts, words, and refusal of what cannot be paired."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from ostinato.analysis import compare, gain_in_words, over_seeds, paired, range_in_words, same_targets
from ostinato.analysis.intervals import Interval
from ostinato.errors import StoreError
from ostinato.store import LossTable, TargetTable

DOCUMENTS = np.repeat(np.arange(4), 25)


def test_positive_is_better_and_sums_are_divided_once():
    reference = np.full(100, 3.0, np.float32)
    arm = reference - np.repeat([0.1, 0.3, -0.2, 0.4], 25).astype(np.float32)
    found = paired(reference, arm, DOCUMENTS, np.full(100, 2), window=25)
    assert found.gain == pytest.approx(0.15) and found.gain_bits_per_byte == pytest.approx(0.15 / (2 * math.log(2)))
    assert (found.documents, found.documents_won, found.documents_tied) == (4, 3, 0)
    assert (found.windows, found.windows_won, found.window) == (4, 3, 25)
    assert found.interval.holds(0.15) and found.interval_bits_per_byte.holds(found.gain_bits_per_byte)
    worse = paired(arm, reference, DOCUMENTS)
    assert worse.gain == -found.gain and worse.documents_won == 1


def test_documents_may_come_in_any_order_and_of_any_number():
    rng = np.random.default_rng(0)
    reference, arm = rng.exponential(size=(2, 100)).astype(np.float32)
    document = rng.integers(0, 7, 100) * 1000 + 5
    found = paired(reference, arm, document)
    by_hand = [np.sum(reference[document == d].astype(float) - arm[document == d]) for d in np.unique(document)]
    assert found.documents == 7 and found.documents_won == sum(gain > 0 for gain in by_hand)
    order = rng.permutation(100)
    again = paired(reference[order], arm[order], document[order])
    assert again.interval.low == pytest.approx(found.interval.low) and again.gain == pytest.approx(found.gain)


def test_windows_are_blocks_of_targets_and_the_last_may_be_shorter():
    reference = np.array([1, 1, 1, 1, 1.0])
    arm = np.array([0.5, 1.2, 2, 2, 0.9])
    found = paired(reference, arm, np.zeros(5, int), window=2)
    assert (found.windows, found.windows_won) == (3, 2)


def test_windows_are_the_rows_that_were_measured_whatever_the_order_of_targets():
    row = np.array([0, 1, 0, 1, 1])  # best-fit rows take documents out of order
    found = paired(np.ones(5), np.array([0.5, 1.2, 0.9, 0.9, 0.8]), np.zeros(5, int), row=row)
    assert (found.windows, found.windows_won, found.window) == (2, 2, 3)
    assert paired(np.ones(5), np.array([0.5, 1.9, 0.9, 0.9, 0.8]), np.zeros(5, int), row=row).windows_won == 1


def test_equal_runs_are_about_zero_with_every_document_tied():
    losses = np.random.default_rng(0).exponential(size=100)
    found = paired(losses, losses, DOCUMENTS)
    assert found.gain == 0 and found.documents_tied == 4 and found.documents_won == 0 and found.words.startswith("about zero")


def test_one_document_or_none_is_not_estimable():
    one = paired(np.ones(5), np.zeros(5), np.zeros(5, int), np.ones(5))
    assert one.gain == 1 and one.interval is None and one.interval_bits_per_byte is None and range_in_words(one.interval) == "not estimable"
    none = paired(np.empty(0), np.empty(0), np.empty(0, int), np.empty(0))
    assert none.gain is None and none.words == "not estimable" and none.record()["interval"] is None


def test_lengths_must_agree():
    with pytest.raises(StoreError, match="same targets"):
        paired(np.zeros(3), np.zeros(4), np.zeros(4))
    with pytest.raises(StoreError, match="same targets"):
        paired(np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(3))


def test_other_targets_are_refused():
    one = LossTable(np.ones(3, np.float32), "a" * 64, 100, "validation")
    other = LossTable(np.ones(3, np.float32), "b" * 64, 100, "validation")
    targets = TargetTable("a" * 64, np.zeros(3, int), np.zeros(3, int), np.zeros(3, int), np.ones(3, int), "")
    with pytest.raises(StoreError, match="bbbbbbbbbbbb"):
        compare(one, other, targets)
    with pytest.raises(StoreError, match="on the same targets"):
        same_targets(other, one)
    with pytest.raises(StoreError, match="beside their targets"):
        compare(other, other, targets)
    assert compare(one, one, targets).gain == 0


@pytest.mark.parametrize(("gain", "interval", "noise", "words"), [
    (0.0496, (0.03, 0.07), 0.0, "better by 0.050 nats"),
    (-0.0311, (-0.04, -0.02), 0.0, "worse by 0.031 nats"),
    (0.004, (-0.001, 0.009), 0.0, "about zero (+0.004 nats)"),
    (-0.004, (-0.005, -0.003), 0.006, "about zero (−0.004 nats)"),
    (0.02, None, 0.0, "better by 0.020 nats"),
    (None, None, 0.0, "not estimable"),
])  # fmt: skip
def test_words(gain, interval, noise, words):
    bounds = interval and SimpleNamespace(holds=lambda value: interval[0] <= value <= interval[1])
    assert gain_in_words(gain, bounds, noise) == words


def interval(low, high):
    return Interval(low, high, (high - low) / 4, 30)


def test_seeds_one_two_three():
    one = over_seeds({1: 0.05}, interval(0.04, 0.06))
    assert one.words == "better by 0.050 nats" and one.sd is None and one.interval is None and "one seed" in one.caution
    two = over_seeds({1: 0.05, 2: 0.04}, interval(0.04, 0.05))
    assert two.words == "better by 0.045 nats" and two.caution.startswith("weak: two seeds") and two.interval.holds(0)
    assert two.sd == pytest.approx(0.01 / math.sqrt(2)) and two.mean == pytest.approx(0.045)
    noisy = over_seeds({1: 0.02, 2: 0.002}, interval(0.005, 0.017))
    assert noisy.words.startswith("about zero")
    split = over_seeds({1: 0.02, 2: -0.03}, interval(-0.01, 0.00))
    assert split.words.startswith("about zero") and "disagree in sign" in split.caution
    three = over_seeds({1: 0.05, 2: 0.045, 3: 0.055}, interval(0.04, 0.06))
    assert three.words == "better by 0.050 nats" and not three.interval.holds(0) and three.caution.startswith("3 seeds")
    loose = over_seeds({1: 0.05, 2: 0.01, 3: 0.002}, interval(0.01, 0.03))
    assert loose.words.startswith("about zero") and loose.interval.holds(0)
    none = over_seeds({})
    assert none.mean is None and none.words == "not estimable" and none.record()["interval"] is None


def test_documents_alone_can_make_a_gain_about_zero():
    assert over_seeds({1: 0.05, 2: 0.0501}, interval(-0.01, 0.11)).words.startswith("about zero")
