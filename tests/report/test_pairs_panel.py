"""Minimal pairs on the page: what is shown is what was stored, arms on other pairs are named, and nothing is shown of nothing."""

from __future__ import annotations

from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from ostinato.analysis import results_table
from ostinato.analysis.minimal_pairs import pair_scores
from ostinato.analysis.pair_results import disagreement, pair_results
from ostinato.analysis.words import NATS
from ostinato.report.looks import looks
from ostinato.report.pairs_panel import by_field, lead, pair_table, rank_lines, section, swaps_in_words, term_table

ACCURACY = {"plain": 0.7, "early": 0.55, "twice": 0.65, "deep": 0.4}
FIELDS = {f"p{place}": ("syntax", "semantics", "syntax_semantics")[place % 3] for place in range(9)}


@pytest.fixture
def filled(store, study, fill_store):
    """Every run with two measured points."""
    return fill_store(store, study, points=2)


def pairs_table(accuracy: float, seed: int, each: int = 60) -> pa.Table:
    """Nine paradigms; the same pairs are hard for every arm, so that a better one finds those of a worse one and more."""
    paradigm = np.repeat(list(FIELDS), each)
    gap = accuracy - np.random.default_rng(3).uniform(size=len(paradigm)) + np.random.default_rng([4, seed]).normal(0, 0.01, len(paradigm))
    gap[0] = 0.0
    zero = np.zeros(len(paradigm))
    return pa.table({
        "paradigm": pa.array(paradigm).dictionary_encode(), "field": [FIELDS[name] for name in paradigm],
        "term": [f"term {int(name[1]) % 2}" for name in paradigm], "pair": pa.array(np.tile(np.arange(each), 9), pa.int32()),
        "identical": np.arange(len(paradigm)) == 1,
        "good_bos": gap - 30, "bad_bos": zero - 30, "good_skip_first": gap - 29.8, "bad_skip_first": zero - 30,
        "good_tokens": zero.astype(np.int32) + 9, "bad_tokens": zero.astype(np.int32) + 9,
    })  # fmt: skip


def measured(store, study, arms=tuple(ACCURACY), content="c0ffee"):
    for (arm, seed), folder in store.runs_of(study).items():
        if arm in arms and folder.exists() and folder.measured():
            tokens = folder.measured()[-1][1]
            settings, table = {"pairs": "/there", "content": content}, pairs_table(ACCURACY[arm], seed)
            folder.write_measure("pairs", settings, tokens, table, {"source": "/there"})
    return results_table(study, store)


def test_nothing_is_shown_of_nothing(filled, study):
    assert section(study, filled, results_table(study, filled)) is None
    assert pair_results(study, filled, []) == ([], [])


def test_every_arm_beside_the_one_it_is_compared_with(filled, study):
    results = measured(filled, study)
    pairs, others = pair_results(study, filled, results)
    assert [one.arm for one in pairs] == list(ACCURACY) and not others
    for one in pairs:
        wanted = pair_scores([pairs_table(ACCURACY[one.arm], seed) for seed in (1, 2)])
        assert one.scores["bos"] == wanted and one.scores["skip_first"].macro > one.macro and set(one.by_seed) == {1, 2}
        assert one.against == (None if one.arm == "plain" else "plain")
    deep = pairs[3].compared
    assert deep.macro == pytest.approx(pairs[3].macro - pairs[0].macro) and deep.lost == 9 and deep.words.startswith("worse by ")
    assert pairs[0].compared is None and deep.by_seed.keys() == {1, 2}


def test_the_order_of_loss_against_that_of_pairs(filled, study):
    """By loss: deep, twice, early, plain; by pairs: plain, twice, early, deep. All pairs but twice and early change places."""
    results = measured(filled, study)
    order = disagreement(pair_results(study, filled, results)[0], results, NATS)
    assert order.ranks.first == ("deep", "twice", "early", "plain") and order.ranks.second == ("plain", "twice", "early", "deep")
    assert order.ranks.tau == pytest.approx((1 - 5) / 6) and len(order.swaps) == 5 and order.unit == NATS
    assert all(swap.loss > 0 and swap.macro > 0 and swap.clear for swap in order.swaps)
    assert (order.swaps[0].lower, order.swaps[0].higher) == ("deep", "plain")
    by_name = {result.name: result.sums.nats_per_token for result in results}
    assert order.swaps[0].loss == pytest.approx(by_name["plain"] - by_name["deep"])
    said = swaps_in_words(order)
    assert said.startswith("Arms that change places") and "deep has the lower loss" in said and "noise" not in said


def test_a_swap_inside_noise_says_so(filled, study):
    """One seed of `twice` finds more pairs than `plain`, the other fewer."""
    results = measured(filled, study, ("plain", "twice"))
    folder = filled.runs_of(study)["twice", 2]
    settings = {"pairs": "/there", "content": "c0ffee"}
    folder.write_measure("pairs", settings, folder.measured()[-1][1], pairs_table(ACCURACY["plain"] + 0.01, 2), {"source": "/there"})
    order = disagreement(pair_results(study, filled, results)[0], results, NATS)
    assert len(order.swaps) == 1 and not order.swaps[0].clear and "inside noise" in swaps_in_words(order)
    assert "1 pair of arms change places, none of them beyond noise" in lead(study, pair_results(study, filled, results)[0], order)


def test_the_section(filled, study):
    results = measured(filled, study)
    found = section(study, filled, results)
    assert found.id == "pairs" and len(found.figures) == 2 and [table.name for table in found.tables] == ["pair-scores", "pair-terms"]
    assert found.id not in {table.name for table in found.tables}, "ids are unique in a page"
    assert found.lead.startswith("plain finds the good sentence in 71.") and "deep differs most from plain: worse by" in found.lead
    for figure in found.figures:
        text = "".join(ElementTree.fromstring(figure.svg).itertext())
        assert all(arm in text for arm in ACCURACY)
    assert "syntax semantics" in found.figures[0].svg and "chance" in found.figures[0].svg


def test_the_tables_hold_the_scores(filled, study):
    pairs, _ = pair_results(study, filled, measured(filled, study))
    table, terms = pair_table(pairs), term_table(pairs)
    labels = [column.label for column in table.columns]
    assert {len(row.cells) for row in table.rows} == {len(labels)} and [row.kind for row in table.rows] == ["reference", "", "", ""]
    row = dict(zip(labels, table.rows[1].cells, strict=True))
    early = pairs[1]
    assert row["all paradigms"].value == early.macro and row["syntax"].value == early.scores["bos"].fields["syntax"].accuracy
    assert row["first token skipped"].value == early.scores["skip_first"].macro and row["difference"].value == early.compared.macro
    assert row["paradigms won / lost / tied"].text == "0 / 9 / 0" and row["McNemar p"].text == "< 0.001"
    assert row["pairs gained / lost"].text == f"0 / {sum(test.lost for test in early.compared.items.values()):,}"
    assert "539 pairs of 9 paradigms from there; 1 pair of one and the same text left out" in table.notes[0]
    assert [cell.value for cell in terms.rows[0].cells[2:]] == [one.scores["bos"].terms["term 0"].accuracy for one in pairs]


def test_arms_on_other_pairs_are_named_and_not_shown(filled, study):
    measured(filled, study, ("plain", "twice"))
    results = measured(filled, study, ("deep",), content="other")
    found = section(study, filled, results)
    assert [row.cells[0].text for row in found.tables[0].rows] == ["plain", "twice"]
    assert found.notes[0] == "Measured on other pairs, and not shown: deep, seed 1 and deep, seed 2."


def test_runs_that_are_not_done_are_not_compared_with_those_that_are(store, study, fill_store):
    fill_store(store, study, {("twice", 1): "stopped", ("twice", 2): "stopped", ("deep", 2): "missing"})
    pairs, _ = pair_results(study, store, measured(store, study))
    by_name = {one.arm: one for one in pairs}
    assert by_name["twice"].compared is None and by_name["deep"].compared.by_seed.keys() == {1}
    row = pair_table(pairs).rows[2]
    assert row.cells[0].text == "twice" and row.cells[-1].text == "not measured as far as the other arm"


def test_a_measurement_before_the_end_does_not_stand_beside_the_loss_at_the_end(filled, study):
    for (arm, seed), folder in filled.runs_of(study).items():
        if arm in ("plain", "twice"):
            folder.write_measure("pairs", {"content": "c"}, folder.measured()[0][1], pairs_table(ACCURACY[arm], seed))
    results = results_table(study, filled)
    pairs, _ = pair_results(study, filled, results)
    assert pairs[1].compared.by_seed.keys() == {1, 2} and disagreement(pairs, results, NATS) is None
    assert len(section(study, filled, results).figures) == 1


def test_figures_of_many_arms_and_of_none():
    arms = [f"arm {place}" for place in range(14)]
    drawn = looks(arms, "arm 0", arms[3:6])
    rows = {"one <field>": {arm: 0.4 + place / 50 for place, arm in enumerate(arms)}, "all paradigms": dict.fromkeys(arms)}
    text = by_field("f", rows, drawn, "arm 0")
    ElementTree.fromstring(text)
    assert text.count("one &lt;field&gt;:") == 14 and "arm 13" in text and by_field("f", {"a": {"arm 0": None}}, drawn, "arm 0") == ""
    assert rank_lines("f", SimpleNamespace(losses={"arm 0": 1.0}), {}, drawn) == ""


def test_a_model_trained_elsewhere_stands_beside_the_arms(filled, study):
    results = measured(filled, study)
    for name, bos in (("stories", True), ("no bos", False)):
        folder = filled.model(("a" if bos else "b") * 64)
        folder.write_record({"arm": name}, {}, {})
        table = pairs_table(0.8, 5)
        for side in ("good_bos", "bad_bos") if not bos else ():
            table = table.set_column(table.column_names.index(side), side, pa.array([None] * table.num_rows, pa.float64()))
        folder.write_measure("pairs", {"content": "c0ffee"}, 0, table)
    pairs, _ = pair_results(study, filled, results)
    by_name = {one.arm: one for one in pairs}
    assert by_name["stories"].elsewhere and by_name["stories"].against == "plain" and by_name["stories"].compared.won == 9
    assert by_name["no bos"].macro is None and by_name["no bos"].compared is None
    assert by_name["no bos"].scores["skip_first"] == by_name["stories"].scores["skip_first"]
    found = section(study, filled, results)
    rows = {row.cells[0].text: row for row in found.tables[0].rows}
    assert rows["stories"].kind == rows["no bos"].kind == "floor" and rows["no bos"].cells[1].value is None
    assert rows["plain"].cells[0].title == "2 seeds"
    assert "stories" not in found.figures[0].svg and "stories" not in disagreement(pairs, results, NATS).losses
    assert len(found.tables[1].columns) == 2 + 6
