"""The answer in words says what the records say, with its caution."""

from __future__ import annotations

import numpy as np
import pytest

from ostinato.analysis import Interval, over_seeds, results_table
from ostinato.report.controls import controls
from ostinato.report.sentences import answer, compared_words, evidence


def folders_of(store, study):
    version = store.study_folder(study.name).version(study)
    return {key: store.run(run, version.evaluation(key[0])) for key, run in version.runs.items()}


def said(store, study):
    results = results_table(study, store)
    folders = folders_of(store, study)
    return answer(study, results, controls(results, folders, store))


INTERVAL = Interval(0.045, 0.055, 0.002, 30)


@pytest.mark.parametrize(
    ("gains", "interval", "words"),
    [
        ({1: 0.049, 2: 0.051}, INTERVAL,
         "twice is better than plain by 0.050 nats a token (95% over documents +0.045 to +0.055; both seeds agree in sign)"),
        ({1: -0.049}, Interval(-0.06, -0.04, 0.1, 3),
         "twice is worse than plain by 0.049 nats a token (95% over documents −0.060 to −0.040; one seed)"),
        ({1: 0.001}, Interval(-0.01, 0.012, 0.1, 3),
         "twice and plain are about equal: the difference, +0.001 nats a token, is inside the noise over documents "
         "(95% over documents −0.010 to +0.012; one seed)"),
        ({1: 0.05}, None, "twice is better than plain by 0.050 nats a token (no interval: fewer than two documents; one seed)"),
    ],
)  # fmt: skip
def test_comparison(gains, interval, words):
    assert compared_words("twice", "plain", over_seeds(gains, interval), interval) == words


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ((0.05, -0.01), "the two seeds disagree in sign"),
        ((0.05, 0.04, 0.06), "all 3 seeds agree in sign"),
        ((0.05, 0.04, -0.01), "2 of 3 seeds agree in sign"),
    ],
)
def test_seeds_in_words(gains, words):
    assert words in evidence(over_seeds(dict(enumerate(gains)), INTERVAL), INTERVAL)


def test_answer_of_a_finished_study(filled, study):
    told = said(filled, study)
    assert told.lead.startswith("All 3 arms compared with plain are better. Best: deep is better than plain by 0.0")
    assert any(line.startswith("twice is better than plain") for line in told.details)
    assert any(line.startswith("At equal training FLOPs, early is worse than deep by") for line in told.details), "the question's own pair"
    assert any(line.startswith("During training, overtaking plain for good: early at about") for line in told.details)
    assert told.cautions[0].startswith("Two seeds are weak evidence")
    assert told.cautions[1] == "Every arm is below every floor (the simple models in the table)."


@pytest.mark.parametrize(("count", "warned"), [(9, True), (10, False)])
def test_few_documents_are_a_caution(store, study, fill_store, make_targets, count, warned):
    fill_store(store, study, targets=make_targets(documents=count))
    assert any(line.startswith(f"An interval over {count} documents says little") for line in said(store, study).cautions) == warned


def test_answer_counts_better_worse_and_equal(store, study, fill_store):
    fill_store(store, study, gains={"early": -0.05, "twice": 0.0, "deep": 0.08})
    told = said(store, study)
    assert told.lead.startswith("Of 3 arms compared with plain, 1 is better, 1 is about equal and 1 is worse. Best: deep is better")
    fill_store(store, study, gains={"early": -0.05, "twice": -0.06, "deep": -0.08})
    assert said(store, study).lead.startswith("All 3 arms compared with plain are worse. Least so: early is worse")


def test_floors_in_words(store, study, fill_store):
    fill_store(store, study)
    targets = filled_target(store, study)
    store.write_floors(targets, "d" * 64, {"unigram": 5.3, "bigram": 3.55})
    results = results_table(study, store)
    above = [result.name for result in results if result.sums.nats_per_token >= 3.55]
    assert 0 < len(above) < 4
    assert any("not below every floor" in line and all(name in line for name in above) for line in answer(study, results).cautions)
    store.write_floors(targets, "d" * 64, {"unigram": 1.0})
    assert any(line.startswith("No arm is below every floor") for line in answer(study, results_table(study, store)).cautions)


def filled_target(store, study):
    return results_table(study, store)[0].runs[0].target_id


def test_controls_pair_arms_of_equal_cost_with_the_untied_one(filled, study):
    results, folders = results_table(study, filled), folders_of(filled, study)
    pairs = {(pair.arm, pair.control): pair for pair in controls(results, folders, filled)}
    assert set(pairs) == {("early", "deep"), ("twice", "deep")}
    pair = pairs["twice", "deep"]
    assert pair.axes == ("training FLOPs",)
    one, other = (
        [folders[name, seed].read_losses("validation", pair.tokens).losses.astype(float) for seed in (1, 2)] for name in ("deep", "twice")
    )
    assert pair.seeds.mean == pytest.approx(np.mean(one) - np.mean(other), abs=1e-12)
    assert pair.seeds.gains[2] == pytest.approx(one[1].mean() - other[1].mean(), abs=1e-12)


def test_controls_need_the_end_of_training_and_a_shared_seed(store, study, fill_store):
    fill_store(store, study, {("deep", 1): "stopped", ("deep", 2): "stopped", ("early", 1): "missing", ("twice", 2): "missing"})
    assert controls(results_table(study, store), folders_of(store, study), store) == []


def test_another_budget_is_no_part_of_the_gain_over_training(store, make_study, fill_store):
    study = make_study("""\
model: {layers: 2, d_model: 32, heads: 2}
recipe: {tokens: 20k, batch: 1024, context: 128}
arms: {plain: {}, twice: {schedule: 1..2 1..2}, longer: {recipe: {tokens: 40k}}}
reference: plain
seeds: [1]
""")
    fill_store(store, study, gains={"longer": 0.2})
    assert {one.name for one in results_table(study, store) if one.course} == {"twice"}
    told = answer(study, results_table(study, store))
    assert "Best: twice is better than plain by" in told.lead and "training tokens" not in told.lead, "the best on an equal budget"
    assert told.details[0].startswith("longer is better than plain by") and told.details[0].endswith("on 2.05× its training tokens.")


def test_controls_do_not_mix_positions(store, make_study, fill_store):
    study = make_study("""\
model: {layers: 2, d_model: 32, heads: 2}
recipe: {tokens: 10k, batch: 1024, context: 128}
arms:
  rope: {}
  rope-twice: {schedule: 1..2 1..2}
  rope-deep: {layers: 4}
  nope: {positions: none}
  nope-twice: {positions: none, schedule: 1..2 1..2}
reference: rope
seeds: [1]
""")
    fill_store(store, study)
    pairs = {(pair.arm, pair.control): pair.axes for pair in controls(results_table(study, store), folders_of(store, study), store)}
    assert pairs == {("rope-twice", "rope-deep"): ("training FLOPs",), ("nope-twice", "nope"): ("parameters",)}
