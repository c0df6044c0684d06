"""The measures of a study by name: the numbers of the analysis rooms to 1e-12, and in words what is not estimable."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from ostinato.analysis import class_gains, compare_tables, named_classes, results_table
from ostinato.analysis.intervals import over_values
from ostinato.claims import parse_condition, parse_expression
from ostinato.judge.conclude import quantities
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.evaluate import decide
from ostinato.judge.measurements import StudyMeasurements
from ostinato.judge.value import DOCUMENTS

ARMS = {"plain": {}, "twice": {}, "deep": {}}


@pytest.fixture(scope="module")
def ended(bench):
    """Read by most tests here; what some of them add to it, no other looks at."""
    return bench(ARMS).run("plain", level=3.0).run("twice", level=2.9).run("deep", level=2.95).classes()


def value(made, text, **given):
    return StudyMeasurements(made.study, made.store, **given).value(parse_expression(text))


def refused(made, text, **given):
    with pytest.raises(NotEstimable) as error:
        value(made, text, **given)
    return error.value.reason


def same(found, point, interval, seeds):
    assert found.point == pytest.approx(point, rel=1e-12)
    assert found.by_seed() == pytest.approx(seeds, rel=1e-12)
    mine = found.interval(DOCUMENTS)
    assert (mine.low, mine.high) == pytest.approx((interval.low, interval.high), rel=1e-12)
    assert mine.freedom == pytest.approx(interval.freedom, rel=1e-12)


def test_a_gain_is_that_of_the_table(ended):
    for result in results_table(ended.study, ended.store)[1:]:
        same(value(ended, f"gain({result.name})"), result.pairing.gain, result.pairing.interval, result.seeds.gains)
        assert value(ended, f"gain({result.name})").unit == "nats/token"
        bits = value(ended, f"gain({result.name}, unit=bits)")
        factor = math.log(2) * 3
        same(bits, result.pairing.gain_bits_per_byte, result.pairing.interval_bits_per_byte,
             {seed: gain / factor for seed, gain in result.seeds.gains.items()})  # fmt: skip


def test_a_gain_over_another_arm(ended):
    tables = {seed: tuple(ended.folder(arm, seed).read_losses("validation", 2048) for arm in ("deep", "twice")) for seed in (1, 2, 3)}
    pairing, seeds = compare_tables(tables, ended.store)
    same(value(ended, "gain(twice, over=deep)"), pairing.gain, pairing.interval, seeds.gains)
    difference = StudyMeasurements(ended.study, ended.store)
    twice, deep = (difference.value(parse_expression(f"gain({arm})")) for arm in ("twice", "deep"))
    same(twice - deep, pairing.gain, pairing.interval, seeds.gains)  # what both owe to the reference cancels
    assert value(ended, "gain(plain, over=twice)").point == pytest.approx(-twice.point)


@pytest.mark.parametrize("name", ["new", "tok-repeat", "k >= 8", "count < 10"])
def test_a_gain_within_a_class(ended, name):
    losses = {seed: tuple(ended.losses[arm, seed, "validation", 2048] for arm in ("plain", "twice")) for seed in (1, 2, 3)}
    targets, known = ended.store.targets(ended.targets.id), ended.store.classes(ended.targets.id, "d" * 64)
    _, (wanted,) = class_gains(losses, known, named_classes([name]), targets)
    found = value(ended, f'gain(twice, class="{name}")')
    if name == "count < 10":  # all in one document
        assert found.point == pytest.approx(wanted.gain, rel=1e-12) and "one document" in found.doubt
    else:
        same(found, wanted.gain, wanted.interval, wanted.seeds)


def test_options(ended):
    only = value(ended, "gain(twice, seed=2)")
    pair = [ended.losses[arm, 2, "validation", 2048].astype(float) for arm in ("plain", "twice")]
    assert only.point == pytest.approx((pair[0] - pair[1]).mean(), rel=1e-12) and only.doubt.startswith("one seed")
    early = value(ended, "gain(twice, tokens=1000)")  # at the whole step nearest to it, as it is measured
    pairs = [[ended.losses[arm, seed, "validation", 1024].astype(float) for arm in ("plain", "twice")] for seed in (1, 2, 3)]
    assert early.point == pytest.approx(np.mean([one - other for one, other in pairs]), rel=1e-12)
    held = value(ended, "gain(twice, part=held_out)", held_out=True)
    assert held.point == pytest.approx(value(ended, "gain(twice)").point, rel=1e-5)
    assert "not shown before" in refused(ended, "gain(twice, part=held_out)")
    assert ended.store.study_folder("tiny").held_out_shown() is None


def test_losses(ended):
    losses = np.stack([ended.losses["twice", seed, "validation", 2048].astype(float) for seed in (1, 2, 3)])
    nats, bits, ppl = (value(ended, text) for text in ("loss(twice)", "loss(twice, unit=bits)", "ppl(twice)"))
    assert nats.point == pytest.approx(losses.mean(), rel=1e-12) and nats.by_seed() == pytest.approx(dict(enumerate(losses.mean(1), 1)))
    assert bits.point == pytest.approx(losses.mean() / (3 * math.log(2)), rel=1e-12) and bits.unit == "bits/byte"
    assert ppl.point == pytest.approx(math.exp(losses.mean()), rel=1e-12)
    assert ppl.documents.error == pytest.approx(ppl.point * nats.documents.error)
    gain = value(ended, "gain(twice)")
    apart = StudyMeasurements(ended.study, ended.store)
    minus = apart.value(parse_expression("loss(plain)")) - apart.value(parse_expression("loss(twice)"))
    same(minus, gain.point, gain.interval(DOCUMENTS), gain.by_seed())


def test_windows_won(ended):
    found, won = value(ended, "won(twice)"), {}
    for seed in (1, 2, 3):
        plain, twice = (ended.losses[arm, seed, "validation", 2048].astype(float) for arm in ("plain", "twice"))
        won[seed] = np.array([each.sum() > 0 for each in np.split(plain - twice, range(256, len(plain), 256))], float)
    shares = {seed: each.mean() for seed, each in won.items()}
    assert found.point == pytest.approx(np.mean(list(shares.values()))) and found.by_seed() == pytest.approx(shares)
    assert value(ended, "won(twice, seed=2)").point == shares[2]


def test_windows_won_by_seed_are_shares_between_0_and_1(bench):
    """Seeds 1 and 2 lose every window by little, seed 3 wins them all by much: a third is won, though the mean loss is lower."""
    made = bench({"plain": {}, "twice": {}}).run("plain", level=3.0, spread=0.0)
    for seed, level in ((1, 3.1), (2, 3.1), (3, 2.0)):
        made.run("twice", seed, level=level, spread=0.0)
    found = value(made, "won(twice)")
    assert found.point == pytest.approx(1 / 3) and found.by_seed() == pytest.approx({1: 0.0, 2: 0.0, 3: 1.0}, abs=1e-12)
    assert found.documents.error == pytest.approx(0.0, abs=1e-12)  # each document wins a third


def test_costs(ended):
    plain = results_table(ended.study, ended.store)[0]
    wanted = {"params": plain.ledger.params_total, "flops": plain.ledger.flops_total, "flops_per_token": plain.ledger.flops_per_token,
              "tokens": 2048}  # fmt: skip
    for name, amount in wanted.items():
        assert value(ended, f"{name}(plain)").point == amount and value(ended, f"{name}(plain)").exact
    seconds = value(ended, "seconds(plain)")
    assert seconds.point == 6.0 and seconds.by_seed() == pytest.approx({1: 4.0, 2: 6.0, 3: 8.0})
    assert "not measured" in refused(ended, "peak_bytes(plain)") and "not known" in refused(ended, "first_pass_ends(plain)")
    ended.folder("plain", 1).write_peak(500, "cpu")
    assert value(ended, "peak_bytes(plain)").point == 500


def test_only_seeds_in_common_are_paired(bench):
    made = bench({"plain": {"seeds": (1, 2)}, "twice": {"seeds": (2, 3)}, "deep": {"seeds": (3,)}}).run("plain").run("twice").run("deep")
    assert list(value(made, "gain(twice)").seeds) == [2]
    assert refused(made, "gain(deep)") == "no seed is in both arms: plain has 1, 2 and deep has 3"
    assert list(value(made, "loss(twice)").seeds) == [2, 3]


def test_a_comparison_is_over_the_seeds_that_all_its_terms_have(bench):
    made = bench(ARMS).run("plain", level=3.0).run("twice", level=2.9).run("deep", 1, level=2.95).run("deep", 2, level=2.93)
    measured = StudyMeasurements(made.study, made.store)
    mean = {(arm, seed): losses.astype(float).mean() for (arm, seed, part, at), losses in made.losses.items()
            if (part, at) == ("validation", 2048)}  # fmt: skip
    wanted = {seed: mean["deep", seed] - mean["twice", seed] for seed in (1, 2)}
    texts = ("loss(deep) - loss(twice) > 0.02", "gain(twice) - gain(deep) > 0.02", "loss(deep) > loss(twice) + 0.02",
             "gain(deep) < gain(twice) - 0.02")  # fmt: skip
    truths = [decide(parse_condition(text), measured, None) for text in texts]
    for truth in truths:
        (clause,) = truth.clauses
        assert clause.margin == pytest.approx(np.mean(list(wanted.values())) - 0.02, abs=1e-12)
        assert clause.seeds == pytest.approx({seed: each - 0.02 for seed, each in wanted.items()}, abs=1e-12)
        assert clause.interval_documents == pytest.approx(truths[0].clauses[0].interval_documents, abs=1e-12)
        assert (truth.holds, truth.clear, truth.p) == (truths[0].holds, truths[0].clear, pytest.approx(truths[0].p))
        assert clause.reason.endswith("over seeds 1, 2, which all its terms have (left out: 3)")
    ratio = decide(parse_condition("gain(deep) / gain(twice) > 0.2"), measured, None).clauses[0]
    gains = {arm: {seed: mean["plain", seed] - mean[arm, seed] for seed in (1, 2)} for arm in ("deep", "twice")}
    assert ratio.left == pytest.approx(sum(gains["deep"].values()) / sum(gains["twice"].values()), rel=1e-9)
    assert ratio.seeds == pytest.approx({seed: gains["deep"][seed] / gains["twice"][seed] - 0.2 for seed in (1, 2)}, rel=1e-9)
    (difference,) = quantities({"by": "loss(deep) - loss(twice)"}, measured)
    assert difference.value == pytest.approx(np.mean(list(wanted.values())), abs=1e-12)
    cost = decide(parse_condition("gain(twice) / params(deep) < 1"), measured, None).clauses[0]  # a cost has no seeds
    alone = decide(parse_condition("gain(twice) - loss(deep, seed=1) < 1"), measured, None).clauses[0]  # nor is what is of one by its word
    gain = value(made, "gain(twice)").point
    assert not cost.reason and cost.left == pytest.approx(gain / value(made, "params(deep)").point)
    assert alone.left == pytest.approx(gain - mean["deep", 1]) and "left out" not in alone.reason


def test_terms_without_a_seed_in_common_are_not_compared(bench):
    made = bench(ARMS).run("plain").run("twice", 1).run("deep", 2).run("deep", 3)
    found = decide(parse_condition("gain(twice) > gain(deep)"), StudyMeasurements(made.study, made.store), None)
    assert found.holds is None and found.reason == "no seed is in all of its terms: gain(twice) has 1; gain(deep) has 2, 3"


def test_what_is_not_there_yet(bench):
    made = bench({**ARMS, "later": {"contingent": "if deep wins"}, "half": {}})
    made.run("plain").run("twice", 1).run("twice", 2, tokens=(1024,), state="failed", error="loss is not finite")
    made.run("half", tokens=(1024,), state="stopped")
    assert list(value(made, "gain(twice)").seeds) == [1]
    assert refused(made, "gain(deep)") == "deep: seed 1 is not begun, seed 2 is not begun, seed 3 is not begun"
    assert "contingent" in refused(made, "gain(later)") and "no arm 'deeep'" in refused(made, "gain(deeep)")
    assert refused(made, "gain(twice, seed=2)") == "twice: seed 2 failed (loss is not finite) at 1,024 of 2,048 tokens"
    assert "stopped before its end at 1,024 of 2,048 tokens" in refused(made, "gain(half)")
    assert "at its end" in refused(made, "seconds(half)") or "before its end" in refused(made, "seconds(half)")
    assert value(made, "gain(half, tokens=1024)").point and "no seed 9" in refused(made, "gain(twice, seed=9)")
    assert "is not measured at 2,048 tokens" in refused(made, "gain(half, tokens=2048)")
    assert "the reference" in refused(made, "gain(plain)") and "classes of its targets" in refused(made, "gain(twice, class=new)")


def test_a_torn_file_is_one_number_less(bench):
    made = bench(ARMS).run("plain").run("twice").run("deep")
    measured = StudyMeasurements(made.study, made.store)
    made.folder("twice", 1).losses_path("validation", 2048).write_bytes(b"torn")
    with pytest.raises(NotEstimable, match="cannot be read"):
        measured.value(parse_expression("gain(twice)"))
    assert measured.value(parse_expression("gain(deep)")).point


def test_another_tokenizer_is_compared_by_document(bench, targets_of):
    made = bench({"plain": {}, "other": {}}).run("plain", level=3.0)
    fewer = targets_of(np.repeat(np.arange(12), np.arange(10, 22)), "o", 6)
    made.run("other", level=5.5, targets=fewer)
    (_, result) = results_table(made.study, made.store)
    assert result.pairing.unit == "bits/byte"
    same(value(made, "gain(other, unit=bits)"), result.pairing.gain, result.pairing.interval, result.seeds.gains)
    assert "nats are of tokens" in refused(made, "gain(other)")
    assert "classes are of tokens" in refused(made, "gain(other, unit=bits, class=new)")
    assert "share no windows" in refused(made, "won(other)")
    nats = value(made, "loss(other)") * 1.0
    assert nats.unit == "nats/token"
    mixed = StudyMeasurements(made.study, made.store)
    losses = [mixed.value(parse_expression(f"loss({arm}, unit=bits)")) for arm in ("plain", "other")]
    same(losses[0] - losses[1], result.pairing.gain, result.pairing.interval, result.seeds.gains)  # documents meet by their text


def test_other_targets_are_not_paired(bench, targets_of):
    made = bench(ARMS).run("plain").run("twice", targets=targets_of(np.repeat(np.arange(12), 9), "u"))
    assert "not of the same targets" in refused(made, "gain(twice)")


def test_crossings(bench):
    made = bench({"plain": {}, "twice": {}, "deep": {}}).run("plain", level=3.0, spread=0.0)
    for seed in (1, 2, 3):
        made.run("twice", seed, level=3.1, tokens=(1024,)).run("twice", seed, level=2.9, tokens=(2048,))
    made.run("deep", level=2.9)
    (_, twice, _), found = results_table(made.study, made.store), value(made, "crossing(twice)")
    assert found.point == pytest.approx(twice.crossing.tokens) and found.by_seed() == pytest.approx(dict(twice.crossing.by_seed), rel=1e-3)
    gains = [np.mean([made.losses["plain", seed, "validation", at].astype(float) - made.losses["twice", seed, "validation", at]
                      for seed in (1, 2, 3)], 0) for at in (1024, 2048)]  # fmt: skip

    def crosses(weight):
        before, after = (np.sum(weight[made.targets.document] * each) for each in gains)
        return 1024 + 1024 * before / (before - after)

    sizes = np.bincount(made.targets.document) / len(made.targets.document)
    for place in range(12):
        step = 1e-5 * (np.arange(12) == place)
        slope = (crosses(1 + step) - crosses(1 - step)) / 2e-5
        shrinkage = 1 - 2 * sizes[place] + sizes @ sizes
        assert found.documents.values[place] * math.sqrt(shrinkage) == pytest.approx(slope, rel=1e-4, abs=1e-6)
    assert found.unit == "tokens" and found.point == pytest.approx(crosses(np.ones(12)))
    assert "never changes its sign" in refused(made, "crossing(deep)")


def test_a_crossing_that_a_seed_never_makes_is_no_clearer_beside_other_terms(bench):
    made = bench(ARMS).run("plain", level=3.0, spread=0.0).run("deep", level=2.9)
    for seed, before in ((1, 3.3), (2, 3.31), (3, 2.95)):  # seed 3 is ahead from the start
        made.run("twice", seed, level=before, tokens=(1024,)).run("twice", seed, level=2.9, tokens=(2048,))
    measured = StudyMeasurements(made.study, made.store)
    found = decide(parse_condition("crossing(twice) > 1000 * loss(deep) / loss(twice)"), measured, None)
    assert found.holds and not found.clear and "the gain of seed 3 never changes its sign" in found.reason
    assert list(found.clauses[0].seeds) == [1, 2]


def test_lens_and_depth(ended):
    target, random = np.arange(0, 200, 3), np.random.default_rng(0)
    nats = {seed: random.normal(3, 0.2, (4, len(target))).astype(np.float32) for seed in (1, 2, 3)}
    for seed, rows in nats.items():
        folder = ended.folder("twice", seed)
        about = {"evaluation": folder.evaluation, "applications": [], "trained_passes": 2}
        for name, columns in (("lens", ["input", "after_0", "after_1", "after_2"]), ("depths", ["nats_1", "nats_2", "kl_2", "nats_3"])):
            table = pa.table({"target": target, **dict(zip(columns, rows, strict=True))})
            folder.write_measure(name, {"target_id": ended.targets.id, "targets": 99}, 2048, table, about)
    within = target % 4 == 0
    for text, row, chosen in (("lens(twice, application=1)", 2, slice(None)), ("lens(twice, application=0, class=new)", 1, within),
                              ("depth(twice, passes=2)", 1, slice(None)), ("depth(twice, passes=1, class=new)", 0, within)):  # fmt: skip
        found = value(ended, text)
        by_seed = {seed: float(rows[row][chosen].astype(float).mean()) for seed, rows in nats.items()}
        assert found.point == pytest.approx(np.mean(list(by_seed.values())), rel=1e-12) and found.by_seed() == pytest.approx(by_seed)
        assert len(found.documents) == len(set(ended.targets.document[target[chosen]].tolist()))
    assert "no after_7" in refused(ended, "lens(twice, application=7)") and "not measured" in refused(ended, "depth(deep, passes=1)")


def scored(gaps, paradigms):
    return pa.table({"paradigm": pa.array(paradigms).dictionary_encode(), "field": ["x" if name in "ab" else "y" for name in paradigms],
                     "term": [f"t{name}" for name in paradigms], "pair": np.arange(len(gaps)), "identical": [False] * len(gaps),
                     "good_bos": gaps, "bad_bos": np.zeros(len(gaps)), "good_skip_first": -np.asarray(gaps),
                     "bad_skip_first": np.zeros(len(gaps))})  # fmt: skip


def test_minimal_pairs(ended):
    paradigms, random = list("aaabbbcccccdd"), np.random.default_rng(1)
    gaps = {(arm, seed): random.normal(0.5, 1, 13) for arm in ("plain", "twice") for seed in (1, 2, 3)}
    for (arm, seed), each in gaps.items():
        ended.folder(arm, seed).write_measure("pairs", {"content": "c"}, 2048, scored(each, paradigms), {"source": "s", "pairs": None})

    def accuracy(arm, seed, names, sign=1):
        right = sign * gaps[arm, seed] > 0
        return float(np.mean([right[np.array(paradigms) == name].mean() for name in names]))

    for text, names, sign in (("pairs(twice)", "abcd", 1), ("pairs(twice, field=x)", "ab", 1), ("pairs(twice, term=tc)", "c", 1),
                              ("pairs(twice, convention=skip_first)", "abcd", -1)):  # fmt: skip
        found = value(ended, text)
        assert found.by_seed() == pytest.approx({seed: accuracy("twice", seed, names, sign) for seed in (1, 2, 3)})
    each = [np.mean([accuracy("twice", seed, name) - accuracy("plain", seed, name) for seed in (1, 2, 3)]) for name in "abcd"]
    wanted, measured = over_values(each), StudyMeasurements(ended.study, ended.store)
    difference = measured.value(parse_expression("pairs(twice)")) - measured.value(parse_expression("pairs(plain)"))
    mine = difference.interval(DOCUMENTS)
    assert (mine.low, mine.high, mine.freedom) == pytest.approx((wanted.low, wanted.high, wanted.freedom))
    one = value(ended, "pairs(twice, paradigm=c)")
    assert one.by_seed() == pytest.approx({seed: accuracy("twice", seed, "c") for seed in (1, 2, 3)}) and len(one.documents) == 5
    assert "one paradigm" in value(ended, "pairs(twice, term=tc)").doubt and "field z" in refused(ended, "pairs(twice, field=z)")
    product = value(ended, "gain(twice)").documents.plus(difference.documents)
    assert len(product) == 12 + 4  # documents and paradigms are never taken for one another
