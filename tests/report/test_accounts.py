"""The section of accounts: pictures hold the marks that the numbers ask for, tables the numbers, and nothing is shown of nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from ostinato.analysis import results_table
from ostinato.judge.accounts import FLOPS, SECONDS, Accounts, accounts
from ostinato.judge.contrast import of_values
from ostinato.judge.frontier import frontier
from ostinato.judge.interactions import Quadruple, interaction
from ostinato.judge.parts import Division, parts_of_gain
from ostinato.judge.value import Residuals, Value
from ostinato.report import accounts as section
from ostinato.report.account_figures import frontier_figure, parts_figure, rate_text, rates_figure
from ostinato.report.looks import looks

SVG = "{http://www.w3.org/2000/svg}"


def known(point, error=1e-3, seed=0):
    draw = np.random.default_rng(seed).normal(size=20)
    return Value(point, {1: -error / 9, 2: 0.0, 3: error / 9},
                 Residuals(np.arange(20, dtype=np.uint64), error * draw / np.linalg.norm(draw)), 19.0, unit="nats/token")  # fmt: skip


LOSSES = {"base": 3.0, "twice": 2.8, "attn": 2.95, "mlp": 2.96, "table": 2.9, "twice_table": 2.75}
CONTRAST = of_values({arm: known(loss, seed=place) for place, (arm, loss) in enumerate(LOSSES.items())})
COSTS = {"base": 1e17, "twice": 2e17, "attn": 1.5e17, "mlp": 1.52e17, "table": 1e17, "twice_table": 2e17}
LOOKS = looks(list(LOSSES), "base")


def texts(svg):
    return [node.text for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def marks(svg):
    """{title: classes} of every mark that has one."""
    found = {}
    for node in ElementTree.fromstring(svg).iter():
        title = node.find(f"{SVG}title")
        if title is not None and node.tag != f"{SVG}svg":
            found[title.text] = node.get("class")
    return found


def test_a_dominated_arm_is_hollow_and_every_name_is_free():
    one = frontier(FLOPS, COSTS, CONTRAST)
    svg = frontier_figure("f", one, LOOKS, "nats a token")
    found = {title.split(":")[0]: kind for title, kind in marks(svg).items()}
    assert {arm for arm, kind in found.items() if kind.startswith("hollow")} == {place.arm for place in one.dominated}
    assert {arm for arm, kind in found.items() if kind.startswith("dot")} == {"table", "twice_table"}
    assert set(LOSSES) <= set(texts(svg))
    assert any("dominated by table (+0.1000)" in title for title in marks(svg))


def boxes(svg):
    """[(left, top, right, bottom)] of the names, by the widths that the figure reckons with."""
    found = []
    for node in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        if "num" in node.get("class") or "axis-name" in node.get("class"):
            continue
        x, y, wide = float(node.get("x")), float(node.get("y")), 6.9 * len(node.text)
        left = x - {"start": 0, "middle": wide / 2, "end": wide}[node.get("text-anchor")]
        found.append((left, y - 10, left + wide, y + 3))
    return found


def test_no_name_covers_another_in_a_crowd():
    arms = [f"arm_{place}" for place in range(24)]
    draw = np.random.default_rng(3)
    losses = {arm: known(3 + 0.02 * draw.normal(), seed=place) for place, arm in enumerate(arms)}
    one = frontier(SECONDS, {arm: 4000 * (1 + 0.2 * draw.random()) for arm in arms}, of_values(losses))
    svg = frontier_figure("f", one, looks(arms, "arm_0"), "nats a token")
    found = boxes(svg)
    assert len(found) > 8
    for place, (l1, t1, r1, b1) in enumerate(found):
        assert not any(l1 < r2 - 0.1 and l2 < r1 - 0.1 and t1 < b2 - 0.1 and t2 < b1 - 0.1 for l2, t2, r2, b2 in found[place + 1 :])
    assert "minutes of training" in texts(svg), "an hour and more, on a short axis"


def test_parts_lie_end_to_end():
    one = parts_of_gain(CONTRAST, Division("twice", "base", ("attn", "mlp")))
    svg = parts_figure("p", [one], LOOKS, "nats a token")
    bars = [(float(node.get("x")), float(node.get("width"))) for node in ElementTree.fromstring(svg).iter(f"{SVG}rect")]
    (whole, attn, mlp, left) = bars
    assert attn[0] == pytest.approx(whole[0], abs=0.02) and mlp[0] == pytest.approx(sum(attn), abs=0.02)
    assert left[0] == pytest.approx(sum(mlp), abs=0.02) and sum(left) == pytest.approx(sum(whole), abs=0.02)
    assert [text for text in texts(svg) if text[0] == "+" and len(text) == 7] == ["+0.2000", "+0.0500", "+0.0400", "+0.1100"]


def test_of_a_store_the_section_holds_its_numbers(filled, study):
    results = results_table(study, filled)
    found = accounts(study, filled, results)
    made = section.section(study, filled, results)
    assert found.whole == "deep" and made.id == "accounts"
    rows = {row.cells[0].text: row.cells for row in made.tables[0].rows}
    twice = next(one for one in found.shares if one.arm == "twice")
    assert rows["twice"][1].text == f"+{twice.share.top.point:.4f}"
    assert rows["twice"][2].text == f"{100 * twice.share.point:.0f}%" and re.fullmatch(r"\d+% to \d+%", rows["twice"][3].text)
    assert rows["twice"][5].text == "1×" and "Of the gain of deep over plain" in made.lead
    svgs = [figure.svg for figure in made.figures]
    assert len(svgs) == 4, "three frontiers and the rates; no arm is part of another"
    assert len({re.search(r'aria-labelledby="(\S+)-t', svg)[1] for svg in svgs}) == 4
    rates = {row.cells[0].text: row.cells for row in made.more[0].rows}
    step = next(one for one in found.rates if one.step.way == "deleted" and one.step.arm == "twice")
    assert rates["deep → twice"][1].text == "deleted" and rates["deep → twice"][4].text == rate_text(step.per_million.point)
    assert rates["plain → twice"][1].text == "as many" and rates["plain → twice"][-1].text == f"{100 * twice.share.point:.0f}%"
    assert f"deep → twice, deleted: {rate_text(step.per_million.point)}" in rates_figure("r", found.rates, "nats a token")


def test_nothing_finished_is_no_section(store, study, fill_store):
    filled = fill_store(store, study, {(arm.name, seed): "running" for arm in study.arms for seed in (1, 2)})
    assert section.section(study, filled, results_table(study, filled)) is None


def test_interactions_in_words():
    quadruple = Quadruple("base", "twice", "table", "twice_table", (("schedule",), ("bigram table",)))
    one = interaction(CONTRAST, quadruple)
    found = Accounts("base", "nats/token", None, (), (), (), (), (one,))
    (row,) = section.interactions_table(found).rows
    said = [cell.text for cell in row.cells]
    assert said[:3] == ["twice_table", "twice: schedule", "table: bigram table"]
    assert said[3:7] == ["+0.2000", "+0.1000", "+0.2500", "−0.0500"] and said[9] == "50%" and said[-1] == "less than the sum"
    many = replace(found, interactions=(one,) * 13)
    table = section.interactions_table(many)
    assert len(table.rows) == 12 and table.notes == ("The 12 largest of 13.",)


def test_a_whole_within_noise_has_no_shares_and_says_so(filled, study):
    found = accounts(study, filled, results_table(study, filled))
    none = replace(found.shares[0].share, point=None, sets={}, reason="the whole, +0.001, is within noise of 0")
    refused = replace(found, shares=(replace(found.shares[0], share=none),))
    assert not section.shares_table(refused).rows
    assert any("not estimable: the whole, +0.001, is within noise of 0" in note for note in section._notes(refused))
