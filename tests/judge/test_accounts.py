"""The accounts of a store: each number against the plain definition on the stored losses, and nothing of what is not finished."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.analysis import over_clusters, results_table
from ostinato.judge.accounts import FLOPS, PARAMETERS, SECONDS, accounts
from ostinato.judge.contrast import gain, of_values
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.fieller import ratio_over_documents, ratio_over_seeds
from ostinato.judge.frontier import frontier
from ostinato.judge.parts import divisions
from ostinato.judge.shares import share
from ostinato.judge.value import DOCUMENTS, SEEDS, Residuals, Value
from ostinato.study.records import Model

LEVELS = {"plain": 3.0, "twice": 2.8, "fattn": 2.95, "gmlp": 2.96, "zdeep": 2.5, "nope": 3.2, "qnope-twice": 2.9, "later": 2.99}


def arms(**more):
    def model(layers=2, **keys):
        return {"model": Model(layers=("gqa",) * layers, d_model=8, heads=2, **keys)}

    return {
        "plain": model(), "twice": model(schedule="1..2 1..2"), "fattn": model(schedule="1..2 1..2:attn"),
        "gmlp": model(schedule="1..2 1..2:mlp"), "zdeep": model(layers=4), "nope": model(positions="none"),
        "qnope-twice": {**model(positions="none", schedule="1..2 1..2"), "seeds": (1, 2)}, "later": model(schedule="1..2 1"), **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def made(bench_in, tmp_path_factory):
    found = bench_in(tmp_path_factory.mktemp("accounts"), arms())
    for arm, level in LEVELS.items():
        found.run(arm, level=level, **({"state": "running", "tokens": (1024,)} if arm == "later" else {"tokens": (2048,)}))
    return found


@pytest.fixture(scope="module")
def found(made):
    return accounts(made.study, made.store, results_table(made.study, made.store))


def by_document(made, weights, seeds):
    """[K] the weighted sum of losses, averaged over seeds, and [K] targets: the plain definition."""
    whole = sum(weight * np.mean([made.losses[arm, seed, "validation", 2048].astype(np.float64) for seed in seeds], axis=0)
                for arm, weight in weights.items())  # fmt: skip
    return np.bincount(made.targets.document, whole), np.bincount(made.targets.document)


def test_parts_are_one_contrast_of_the_losses(made, found):
    (one,) = found.parts
    assert (one.division.whole, one.division.base, one.division.parts) == ("twice", "plain", ("fattn", "gmlp"))
    for value, weights in ((one.total, {"plain": 2, "fattn": -1, "gmlp": -1}), (one.whole, {"plain": 1, "twice": -1}),
                           (one.left, {"plain": -1, "fattn": 1, "gmlp": 1, "twice": -1})):  # fmt: skip
        sums, sizes = by_document(made, weights, (1, 2, 3))
        interval = over_clusters(sums, sizes)
        mine = value.interval(DOCUMENTS)
        assert (value.point, mine.low, mine.high) == pytest.approx((sums.sum() / sizes.sum(), interval.low, interval.high))
    sums = [by_document(made, weights, (1, 2, 3)) for weights in ({"plain": 2, "fattn": -1, "gmlp": -1}, {"plain": 1, "twice": -1})]
    expected = ratio_over_documents(sums[0][0], sums[1][0], sums[0][1])
    mine = one.share.sets[DOCUMENTS]
    assert (mine.low, mine.high, one.share.point) == pytest.approx((expected.low, expected.high, expected.point))
    seeds = ratio_over_seeds(one.total.by_seed(), one.whole.by_seed())
    assert (one.share.sets[SEEDS].low, one.share.sets[SEEDS].high) == pytest.approx((seeds.low, seeds.high))


def test_an_interaction_is_paired_over_all_four(made, found):
    (one,) = found.interactions
    assert (one.arms.base, one.arms.first, one.arms.second, one.arms.both) == ("plain", "twice", "nope", "qnope-twice")
    assert one.arms.changed == (("schedule",), ("positions",))
    sums, sizes = by_document(made, {"twice": 1, "nope": 1, "qnope-twice": -1, "plain": -1}, (1, 2))
    interval, mine = over_clusters(sums, sizes), one.value.interval(DOCUMENTS)
    assert (one.value.point, mine.low, mine.high) == pytest.approx((sums.sum() / sizes.sum(), interval.low, interval.high))
    assert set(one.value.by_seed()) == {1, 2}, "the seeds that all four have"
    assert one.value.by_seed()[2] == pytest.approx(np.divide(*map(np.sum, by_document(made, {"twice": 1, "nope": 1, "qnope-twice": -1,
                                                                                            "plain": -1}, (2,)))))  # fmt: skip
    assert one.on_first.top.point == pytest.approx(gain_of(made, "qnope-twice", "twice", (1, 2)))


def gain_of(made, arm, over, seeds):
    sums, sizes = by_document(made, {over: 1, arm: -1}, seeds)
    return sums.sum() / sizes.sum()


def test_shares_and_rates_of_the_store(made, found):
    assert found.whole == "zdeep"
    shares = {one.arm: one for one in found.shares}
    assert set(shares) == {"twice", "fattn", "gmlp", "nope", "qnope-twice"}
    of_deep, of_twice = (gain_of(made, arm, "plain", (1, 2, 3)) for arm in ("zdeep", "twice"))
    assert shares["twice"].share.point == pytest.approx(of_twice / of_deep)
    assert shares["twice"].flops == pytest.approx(1.0) and shares["nope"].share.point < 0
    rates = {(one.step.way, one.step.arm): one for one in found.rates}
    ledgers = {one.name: one.ledger for one in results_table(made.study, made.store)}
    deep, plain = ledgers["zdeep"], ledgers["plain"]
    added = rates["added", "zdeep"]
    assert added.per_million.point == pytest.approx(1e6 * of_deep / (deep.params_total - plain.params_total))
    assert added.per_flop.point == pytest.approx(of_deep / (deep.flops_total - plain.flops_total))
    deleted = rates["deleted", "twice"]
    assert (deleted.step.beside, deleted.per_flop) == ("zdeep", None)
    assert deleted.gain.point == pytest.approx(gain_of(made, "zdeep", "twice", (1, 2, 3)))


def test_what_is_not_finished_is_in_no_account(made, found):
    assert found.missing == ("later",)
    said = json.dumps(found.record(), allow_nan=False)
    assert said.count("later") == 1
    assert [one.axis for one in found.frontiers] == [FLOPS, PARAMETERS, SECONDS]
    assert all(len(one.places) == len(LEVELS) - 1 for one in found.frontiers)


def test_before_two_arms_are_finished_there_is_nothing(bench):
    made = bench(arms())
    assert accounts(made.study, made.store, results_table(made.study, made.store)) is None
    made.run("plain")
    assert accounts(made.study, made.store, results_table(made.study, made.store)) is None
    made.run("zdeep", seed=1)
    assert accounts(made.study, made.store, results_table(made.study, made.store)).whole == "zdeep"


def test_other_tokenizers_are_compared_in_bits_a_byte(bench, targets_of):
    made = bench({"plain": {}, "twice": {}, "other": {}})
    coarse = targets_of(np.repeat(np.arange(12), np.arange(10, 22)), "o", 6)
    made.run("plain").run("twice", level=2.8).run("other", level=5.5, targets=coarse)
    found = accounts(made.study, made.store, results_table(made.study, made.store))
    assert found.unit == "bits/byte"
    (place,) = (one for one in found.frontiers[1].places if one.arm == "other")
    nats = np.mean([made.losses["other", seed, "validation", 2048].mean() for seed in (1, 2, 3)])
    assert place.loss == pytest.approx(nats / 6 / math.log(2))


# --- the pure accounts


def known(point, error=0.01, seed=0):
    """Of twenty documents and three seeds, independent of others by `seed`."""
    draw = np.random.default_rng(seed).normal(size=20)
    return Value(point, {1: -error, 2: 0.0, 3: error}, Residuals(np.arange(20, dtype=np.uint64), error * draw / np.linalg.norm(draw)), 19.0)


def test_inside_the_noise_no_arm_is_dominated():
    contrast = of_values({"a": known(3.0, seed=1), "b": known(2.995, seed=2), "c": known(2.5, seed=3), "d": known(3.1, seed=4)})
    found = {place.arm: place for place in frontier("FLOPs", {"a": 10.0, "b": 10.05, "c": 20.0, "d": 30.0}, contrast).places}
    assert (found["a"].by, found["a"].about) == (None, ("b",)), "b costs within 1% as much, and its gain of 0.005 is noise"
    assert not found["a"].lowest and found["b"].lowest
    assert (found["d"].by, found["d"].gain.point) == ("c", pytest.approx(0.6)), "by the one that beats it by most"
    assert found["c"].by is None, "cheaper arms are worse"


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=2, max_size=8))
def test_the_frontier_is_what_nothing_beats(points):
    arms = {str(place): point for place, point in enumerate(points)}
    contrast = of_values({arm: Value(float(loss)) for arm, (_, loss) in arms.items()})
    found = frontier("x", {arm: float(cost) for arm, (cost, _) in arms.items()}, contrast)
    for place in found.places:
        beaten = any(cost <= place.cost and loss < place.loss for cost, loss in arms.values())
        assert (place.by is not None) == beaten == (not place.lowest), "exact losses have no noise"
    line = found.line
    assert all(one.cost <= other.cost and one.loss >= other.loss for one, other in itertools.pairwise(line))


def test_no_share_of_what_is_not_told_from_zero():
    whole = known(0.001)
    found = share(known(0.5), whole)
    assert found.point is None and "within noise of 0" in found.reason and not found.sets
    assert "a loss" in share(known(0.5), known(-0.5, 1e-4)).reason
    assert share(known(-0.1), known(0.5)).point == pytest.approx(-0.2)


bags = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 2), min_size=1, max_size=4)


@given(st.lists(bags, min_size=2, max_size=6))
def test_divisions_add_up_and_none_is_missed(given_bags):
    extra = {str(place): Counter(bag) for place, bag in enumerate(given_bags)}
    found = divisions(extra, "base")
    for one in found:
        assert sum((extra[part] for part in one.parts), Counter()) == extra[one.whole] and one.whole not in one.parts
    pairs = {(whole, (a, b)) for whole in extra for a in extra for b in extra if a < b and whole not in (a, b)
             and extra[a] + extra[b] == extra[whole]}  # fmt: skip
    assert len(found) == 24 or pairs == {(one.whole, one.parts) for one in found if len(one.parts) == 2}


def test_a_loss_that_is_not_there_is_refused_in_words():
    with pytest.raises(NotEstimable, match="no loss of b"):
        gain(of_values({"a": known(1.0)}), "a", "b")
