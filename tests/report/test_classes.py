"""Gains by class on the page: bars end where their gains are, classes lead to the whole, and what is missing is said."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from ostinato.analysis import over_values, results_table
from ostinato.analysis.classes import ArmClasses, ClassGain, gains_by_class
from ostinato.data.classes import MATCHES, TokenClasses
from ostinato.report import numbers
from ostinato.report.class_figures import gain_bars, share_bars
from ostinato.report.classes import class_table, section
from ostinato.report.looks import looks
from ostinato.report.sections import sections
from ostinato.report.tables import as_text, to_rich

SVG = "{http://www.w3.org/2000/svg}"
LOOKS = looks(["plain", "twice", "deep"], "plain")


def gain(name, value, share=0.5, ratio=None, interval=None):
    return ClassGain(name, "R", 10, 4, value, interval, value * share, None, share, share, {}, ratio)


def arm(name, parts, whole, ratio_to=None):
    return ArmClasses(name, "plain", 100, True, gain("all", whole, 1.0), tuple(parts), ratio_to)


def boxes(drawn):
    """{title: (x, width)} of the bars."""
    found = {}
    for box in ElementTree.fromstring(drawn).iter(SVG + "rect"):
        found[box.find(SVG + "title").text] = (float(box.get("x")), float(box.get("width")))
    return found


@pytest.fixture
def classified(filled, make_targets):
    targets, draw = make_targets(), np.random.default_rng(0)
    count = len(targets.token)
    match = draw.choice((-1, *MATCHES), count).astype(np.int8)
    known = TokenClasses(match, np.minimum(match, draw.choice((0, 4), count)).astype(np.int8), draw.integers(0, 5000, count),
                         targets.position, np.minimum(targets.position, 128))  # fmt: skip
    filled.write_classes(targets.id, "d" * 64, known)
    return filled


def test_bars_begin_at_zero_and_end_at_the_gain():
    found = [arm("twice", [gain("new", 0.04), gain("k = 1", -0.02)], 0.01), arm("deep", [gain("new", 0.08), gain("k = 1", 0.02)], 0.05)]
    bars = boxes(gain_bars("f", found, LOOKS))
    zero, length = bars["twice, new: +0.0400"]
    assert bars["deep, new: +0.0800"] == (zero, pytest.approx(2 * length, abs=0.02))
    left, width = bars["twice, k = 1: −0.0200"]
    assert left + width == pytest.approx(zero, abs=0.02) and width == pytest.approx(length / 2, abs=0.02)
    assert set(bars) >= {"twice, all: +0.0100", "deep, all: +0.0500"} and gain_bars("f", [], LOOKS) == ""


def test_an_interval_is_a_line_with_two_ends():
    interval = over_values(np.array([0.03, 0.05]))
    drawn = ElementTree.fromstring(gain_bars("f", [arm("twice", [gain("new", 0.04, interval=interval)], 0.04)], LOOKS))
    assert len([line for line in drawn.iter(SVG + "line") if line.get("class") == "zero"]) == 1 + 3  # zero itself, the line, its ends
    assert any("[−0.0871 to +0.1671]" in title.text for title in drawn.iter(SVG + "title"))


def test_the_bars_of_an_arm_lead_to_its_whole_gain():
    parts = [gain("new", 0.06, 0.5), gain("tok-repeat", -0.04, 0.25), gain("bigram-repeat", 0.08, 0.25)]
    bars = list(boxes(share_bars("f", [arm("twice", parts, 0.04)], LOOKS)).items())
    (zero, first), (back, second), (third, last) = (box for _, box in bars)
    assert back == pytest.approx(zero + first - second, abs=0.02) and third == pytest.approx(back, abs=0.02)
    assert first / second == pytest.approx(3, rel=0.01) and last / second == pytest.approx(2, rel=0.01)
    assert bars[0][0] == "twice, new: +0.0300 of +0.0400" and share_bars("f", [], LOOKS) == ""


def test_shares_in_words():
    shares = (0.5, 1, 0, 0.0042, -0.0001, -1.333, None)
    assert [numbers.percent(share) for share in shares] == ["50%", "100%", "0%", "0.4%", "0.0%", "−133%", "–"]
    assert [numbers.percent(share, 1) for share in (0.5, -0.0001, None)] == ["50.0%", "0.0%", "–"]


def test_a_table_has_gains_ratios_and_shares():
    interval = over_values(np.array([0.039, 0.041]))
    found = [arm("twice", [gain("new", 0.04, ratio=0.5, interval=interval), gain("tok-repeat", -0.02, ratio=-0.25)], 0.01, "deep"),
             arm("deep", [gain("new", 0.08, ratio=1.0), gain("tok-repeat", 0.08, ratio=1.0)], 0.08, "deep")]  # fmt: skip
    table = class_table(found, about="repeats")
    text = as_text(to_rich(table, 200))
    assert "+0.0400 [0.50]" in text and "−0.0200 [−0.25]" in text and "50%" in text
    cell = table.rows[0].cells[2]
    assert cell.tone == "better" and cell.value == 0.04 and "+0.0273 to +0.0527; adds +0.02000 nats" in cell.title
    assert [row.kind for row in table.rows] == ["", "", "reference"] and "of its gain" not in as_text(to_rich(table, 60))
    assert class_table([arm("twice", [gain("new", 0.04)], 0.04)]) is None, "one class that has all targets"
    assert class_table([ArmClasses("twice", "plain", problem="missing")]) is None


def test_the_section_of_a_study(classified, study):
    results = results_table(study, classified)
    made = section(study, classified, results)
    assert made.id == "classes" and all("<svg" in figure.svg for figure in made.figures)
    folded = ["classes-k-in-view", "classes-view", "classes-count", "classes-position", "classes-shown"]
    assert [table.name for table in made.tables] == ["classes-R", "classes-k"] and [table.name for table in made.more] == folded
    first = {one.name: one for one in gains_by_class(study, classified, "R")[0].all}
    row = made.tables[0].rows[0]
    assert row.cells[0].text == "new" and row.cells[2].value == first["new"].gain
    deep = gains_by_class(study, classified, "R")[2].classes[0]
    assert f"Of what deep gains over plain, {numbers.percent(deep.share_of_gain)} is on tokens new to the document" in made.lead
    assert any("divided by that of deep" in note for note in made.notes) and made.tables[0].columns[-2].label == "deep"
    assert made.tables[0].rows[0].cells[-2].text.endswith("[1.00]")
    assert "classes" in [one.id for one in sections(study, classified, results)]


def test_without_classes_there_is_no_section(filled, study):
    assert section(study, filled, results_table(study, filled)) is None


def test_nothing_measured_and_a_gain_of_nothing(store, study, fill_store, make_targets):
    store.create().study_folder(study.name).write(study, {})
    assert section(study, store, results_table(study, store)) is None
    fill_store(store, study, gains={"twice": 0.0, "early": 0.0, "deep": -0.07}, states={("early", 1): "missing", ("early", 2): "missing"})
    targets = make_targets()
    ones = np.ones(len(targets.token), np.int64)
    match = np.where(targets.token % 2, -1, 1).astype(np.int8)
    store.write_classes(targets.id, "d" * 64, TokenClasses(match, match, ones, ones, ones))
    made = section(study, store, results_table(study, store))
    assert "Of what deep loses to plain" in made.lead and "twice gains about nothing over plain" in made.lead
    assert any(note.startswith("Not measured yet: early") for note in made.notes)
    twice = made.tables[0].columns.index(next(column for column in made.tables[0].columns if column.label == "twice"))
    assert made.tables[0].rows[0].cells[twice + 1].tone == "muted"
    assert "classes-count" not in [table.name for table in made.tables], "all counts are 1: one band has every target"
