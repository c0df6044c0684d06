"""Gains by class: contributions add up, seeds are averaged as elsewhere, and the published table of loop2 follows from its classes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ostinato.analysis import over_clusters, paired, results_table
from ostinato.analysis.classes import ArmClasses, _with_ratios, class_gains, gains_by_class
from ostinato.analysis.members import FAMILIES, named_classes
from ostinato.data.classes import MATCHES, TokenClasses
from ostinato.errors import StoreError, StudyError

PUBLISHED = json.loads((Path(__file__).parents[1] / "golden" / "loop2_classes.json").read_text(encoding="utf-8"))


def known(match, seed=0):
    draw = np.random.default_rng(seed)
    match = np.asarray(match, np.int8)
    in_view = np.minimum(match, draw.choice([-1, 0, 1, 8], len(match))).astype(np.int8)
    return TokenClasses(match, in_view, *(draw.integers(low, high, len(match)) for low, high in ((0, 3000), (1, 500), (1, 64))))


def drawn(count=400, documents=9, seeds=(3, 1)):
    draw = np.random.default_rng(1)
    targets = SimpleNamespace(document=np.sort(draw.integers(0, documents, count)), bytes=draw.integers(1, 9, count))
    losses = {seed: tuple(draw.gamma(2, 1, count).astype(np.float32) for _ in range(2)) for seed in seeds}
    return losses, known(draw.choice((-1, *MATCHES), count)), targets


def test_gains_are_means_within_classes_over_documents():
    losses, classes, targets = drawn()
    asked = named_classes("R, k >= 8")
    whole, parts = class_gains(losses, classes, asked, targets)
    mean = [np.mean([pair[side].astype(float) for pair in losses.values()], 0) for side in (0, 1)]
    for asked_one, found in zip(asked, parts, strict=True):
        inside = [place for place in range(400) if asked_one.of(classes)[place]]
        gains = [mean[0][place] - mean[1][place] for place in inside]
        held = sorted({int(targets.document[place]) for place in inside})
        by_document = [sum(gain for gain, place in zip(gains, inside, strict=True) if targets.document[place] == one) for one in held]
        sizes = [sum(targets.document[place] == one for place in inside) for one in held]
        assert found.targets == len(inside) and found.documents == len(held) and found.share_of_targets == len(inside) / 400
        assert found.gain == pytest.approx(sum(gains) / len(gains)) and found.contribution == pytest.approx(sum(gains) / 400)
        assert found.contribution_bits == pytest.approx(sum(gains) / np.log(2) / targets.bytes.sum())
        interval = over_clusters(by_document, sizes)
        assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high))
        assert found.seeds == {seed: pytest.approx(np.mean([pair[0][place] - pair[1][place] for place in inside]), abs=1e-6)
                               for seed, pair in losses.items()}  # fmt: skip
    pairing = paired(*mean, targets.document, targets.bytes)
    assert whole.gain == pytest.approx(pairing.gain) and whole.contribution_bits == pytest.approx(pairing.gain_bits_per_byte)
    assert whole.interval == pairing.interval and whole.share_of_gain == whole.share_of_targets == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_contributions_of_a_family_add_up(family):
    losses, classes, targets = drawn()
    whole, parts = class_gains(losses, classes, named_classes(family), targets)
    for part in ("contribution", "contribution_bits", "share_of_gain", "share_of_targets", "targets"):
        assert sum(getattr(one, part) for one in parts) == pytest.approx(getattr(whole, part))


def test_a_class_without_targets_and_one_in_a_single_document():
    losses, classes, targets = drawn()
    classes.match[:] = np.where(targets.document == 2, 4, 0)
    _, (none, single) = class_gains(losses, classes, named_classes("new, k = 4"), targets)
    assert (none.targets, none.gain, none.interval, none.contribution, none.seeds) == (0, None, None, 0.0, {})
    assert single.documents == 1 and single.gain is not None and single.interval is None
    assert json.loads(json.dumps(none.record()))["gain"] is None


def test_arrays_of_other_targets_are_refused():
    losses, classes, targets = drawn()
    with pytest.raises(StoreError, match="399 and 400 losses, targets and classes"):
        class_gains({1: tuple(side[1:] for side in losses[1])}, classes, named_classes("R"), targets)


def test_the_published_table_of_loop2_follows_from_its_classes():
    """A text of 1,000 targets with the published fractions and class gains: the totals, ratios, shares and bits per byte come out."""
    kinds = {"new": -1, "tok-repeat": 0, "k = 1": 1, "k ≥ 2": 2}
    match = np.concatenate([np.full(round(1000 * PUBLISHED["fractions"][name]), kind) for name, kind in kinds.items()])
    reference = PUBLISHED["reference"]
    ends = np.arange(1001) * reference["nats"] / reference["bits_per_byte"] / np.log(2)
    targets = SimpleNamespace(document=np.arange(1000) % 20, bytes=np.diff(np.round(ends)).astype(int))
    found = {}
    for arm, gains in PUBLISHED["gains"].items():
        gain = np.select([match == kind for kind in kinds.values()], [gains[name] for name in kinds])
        losses = {44: (np.full(1000, reference["nats"]), reference["nats"] - gain)}
        whole, parts = class_gains(losses, known(match), named_classes("R, k = 1, k >= 2"), targets)
        found[arm] = {one.name: one for one in (*parts, whole)}
        for name, fraction in PUBLISHED["fractions"].items():
            assert found[arm][name].share_of_targets == pytest.approx(fraction)
        for name, published in gains.items():
            assert found[arm][name].gain == pytest.approx(published, abs=0.00011), (arm, name)  # from factors of four decimals
    for arm, ratios in PUBLISHED["ratios"].items():
        for name, published in ratios.items():
            ratio, other = found[arm][name].gain / found["l16"][name].gain, found["l16"][name].gain
            rounding = 0.005 + 1.1e-4 * (1 + ratio) / other  # of the ratio, and of the gains that it is made from here
            assert ratio == pytest.approx(published, abs=rounding), (arm, name)
    for arm, shares in PUBLISHED["shares"].items():
        for name, published in shares.items():
            assert found[arm][name].share_of_gain == pytest.approx(published, abs=0.005)
    for name, published in PUBLISHED["bits_per_byte"]["loop2"].items():
        assert found["loop2"][name].contribution_bits == pytest.approx(published, abs=6e-5)
    for name, published in PUBLISHED["gap_to_l16"].items():
        gap = found["l16"][name].contribution_bits - found["loop2"][name].contribution_bits
        assert gap == pytest.approx(published, abs=6e-5)


@pytest.fixture
def classified(bench, store, targets):
    match = np.tile([-1, 0, 1, 8, 32], 4)
    store.write_classes(targets.id, "d" * 64, known(match))
    for seed in (1, 2):
        for arm, level in (("plain", 3.0), ("twice", 2.9), ("deep", 2.8)):
            bench.run(arm, seed, level)
    store.write_targets(targets)
    return store


def test_every_arm_of_a_study(classified, study):
    found = {one.arm: one for one in gains_by_class(study, classified, "R, k >= 8", ratio_to="deep")}
    assert list(found) == ["twice", "deep", "later"]
    twice, deep, later = found.values()
    assert (twice.against, twice.tokens, twice.final, twice.ratio_to) == ("plain", 2048, True, "deep")
    assert [one.targets for one in twice.all] == [4, 4, 12, 8, 20] and twice.whole.gain == pytest.approx(0.1)
    assert [one.ratio for one in twice.all] == pytest.approx([0.5] * 5, rel=1e-5) and deep.whole.ratio == 1
    assert set(twice.classes[0].seeds) == {1, 2}
    assert later.problem == "later is not measured yet" and later.all == ()
    assert json.loads(json.dumps([one.record() for one in found.values()]))[0]["classes"][0]["name"] == "new"
    again = gains_by_class(study, classified, results=results_table(study, classified))
    assert [one.classes for one in again] == [tuple(replace(part, ratio=None) for part in one.classes[:3]) for one in found.values()]


def test_held_out_losses_are_not_read(classified, study, monkeypatch):
    from ostinato.store import RunFolder

    read, parts = RunFolder.read_losses, set()
    monkeypatch.setattr(RunFolder, "read_losses", lambda self, part, tokens: parts.add(part) or read(self, part, tokens))
    gains_by_class(study, classified)
    assert parts == {"validation"}
    assert not [event for event in classified.study_folder(study.name).events() if event["event"] == "held_out_shown"]


def test_what_is_missing_is_said_and_the_rest_goes_on(classified, bench, study, targets):
    for file in (classified.root / "classes").iterdir():
        file.unlink()
    found = gains_by_class(study, classified)
    assert "not stored; give `ostinato run` again" in found[0].problem
    classified.write_classes(targets.id, "d" * 64, known(np.zeros(20)))
    other = SimpleNamespace(**vars(targets) | {"id": "o" * 64})
    classified.write_targets(other)
    for seed in (1, 2):
        bench.run("twice", seed, 2.9, targets=other)
    twice, deep, _ = gains_by_class(study, classified)
    assert "of the arm" in twice.problem and deep.problem is None and deep.classes


def test_what_there_is_not_is_refused(classified, study):
    with pytest.raises(StudyError, match="no token class 'S'"):
        gains_by_class(study, classified, "S")
    with pytest.raises(StudyError, match="no arm 'wide'"):
        gains_by_class(study, classified, ratio_to="wide")


def test_a_gain_inside_the_noise_of_seeds_is_about_zero_and_nothing_is_divided_by_it():
    losses, classes, targets = drawn()
    whole, _ = class_gains(losses, classes, named_classes("R"), targets)
    sure = replace(whole, gain=1.0, interval=replace(whole.interval, low=0.9, high=1.1), seeds={1: 0.99, 2: 1.01})
    assert not sure.about_zero and replace(sure, seeds={1: 0.0, 2: 2.0}).about_zero and replace(sure, gain=None).about_zero
    arms = [ArmClasses("deep", "plain", whole=one, classes=()) for one in (sure, replace(sure, seeds={1: 0.0, 2: 2.0}))]
    ratios = [_with_ratios([arm], "deep")[0].whole.ratio for arm in arms]
    assert ratios == [1.0, None]
