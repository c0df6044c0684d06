"""The sections of lens, skips, depths and states: marks and cells hold the stored numbers, and nothing is shown of nothing."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from ostinato.analysis import results_table
from ostinato.analysis.measured import class_sums
from ostinato.analysis.skips import Skips
from ostinato.analysis.states import states as analysis_states
from ostinato.data.classes import TokenClasses
from ostinato.report import depths, lens, skips, states
from ostinato.report.looks import looks
from ostinato.schedule import parse
from ostinato.study.draws import drawn_passes
from ostinato.study.records import Passes

SVG = "{http://www.w3.org/2000/svg}"
MODULES = {"lens": lens, "skips": skips, "depths": depths, "states": states}
SCHEDULES = {"plain": "1..4", "twice": "1..4 1..4"}


@pytest.fixture
def measured(store, study, fill_store, make_targets):
    """The store with every measure of `plain` (where it has them) and `twice`, two seeds: numbers that can be told by hand."""
    filled = fill_store(store, study, {(arm, seed): "missing" for arm in ("early", "deep") for seed in (1, 2)}, points=1)
    targets = make_targets()
    at, match = np.arange(60), np.tile([-1, 0, 1, 8], len(targets.token) // 4 + 1)[: len(targets.token)]
    zeros = np.zeros(len(match), np.int64)
    filled.write_classes(targets.id, "d" * 64, TokenClasses(match.astype(np.int8), match.astype(np.int8), zeros, zeros, zeros))
    for (arm, _), folder in filled.runs_of(study).items():
        if arm not in SCHEDULES:
            continue
        applications = parse(SCHEDULES[arm], 4).applications()
        labels = [{"index": a.index, "layer": a.layer, "part": a.part, "pass_": a.pass_} for a in applications]
        said, tokens = {"evaluation": folder.evaluation, "applications": labels}, max(at for _, at in folder.measured())

        def write(name, columns, said=said, tokens=tokens, folder=folder):
            folder.write_measure(name, {"target_id": targets.id, "targets": 60}, tokens, pa.table(columns), said)

        hard = np.where(match[:60] == 8, 2.0, 1.0)  # targets of k >= 8 lose twice as much on the way
        falling = {f"after_{a.index}": (4 - 0.25 * a.index) * (hard if a.index < len(labels) - 1 else 1) for a in applications}
        write("lens", {"target": at, "input": np.full(60, 6.0), **{name: value * np.ones(60) for name, value in falling.items()}})
        without = {f"without_{a.index}": np.full(60, 3 + (-0.5 if a.index == 1 else 10.0 ** -(1 + a.index % 4))) for a in applications}
        passes = {f"without_pass_{p}": np.full(60, 3.0 + p) for p in (1, 2)} if arm == "twice" else {}
        write("skips", {"target": at, "whole": np.full(60, 3.0), **without, **passes})
        rows = [(2 if arm == "twice" else None, a) for a in applications]
        if arm == "twice":
            nats = {f"nats_{r}": np.full(60, value) for r, value in enumerate((3.5, 3.0, 3.1, 3.4), 1)}
            write("depths", {"target": at, **nats, **{f"kl_{r}": np.full(60, 0.2 / r**2) for r in (2, 3, 4)}},
                  {"evaluation": folder.evaluation, "trained_passes": 2, "applications": [4, 8, 12, 16]})  # fmt: skip
            rows += [(4, a) for a in parse("(1..4)x4", 4).applications()]
        late = [a.pass_ > 1 for _, a in rows]
        write("states", {
            "passes": pa.array([passes for passes, _ in rows], pa.int64()), "application": [a.index for _, a in rows],
            "layer": [a.layer for _, a in rows], "part": [a.part for _, a in rows], "pass": [a.pass_ for _, a in rows],
            "positions": [60] * len(rows), "size": [60.0] * len(rows), "update": [60 / (1 + a.index) for _, a in rows],
            "cosine": pa.array([30.0 if is_late else None for is_late in late]),
            "change": pa.array([60.0 / 2**a.pass_ if is_late else None for is_late, (_, a) in zip(late, rows, strict=True)]),
            "distance": pa.array([60.0 * (4 - a.pass_) if arm == "twice" else None for _, a in rows], pa.float64()),
            "rank": [10.0 + a.index for _, a in rows],
        }, {"evaluation": folder.evaluation, "trained_passes": rows[0][0]})  # fmt: skip
    return filled


def made(name, study, store):
    return MODULES[name].section(study, store, results_table(study, store))


def cells(table, *keys):
    """The texts of the row that begins with these."""
    (found,) = [[cell.text for cell in row.cells] for row in table.rows if tuple(cell.text for cell in row.cells[: len(keys)]) == keys]
    return found[len(keys) :]


@pytest.mark.parametrize("name", MODULES)
def test_nothing_measured_is_no_section(name, filled, study):
    assert made(name, study, filled) is None


@pytest.mark.parametrize("name", MODULES)
def test_a_section_is_whole(name, measured, study):
    one = made(name, study, measured)
    assert one.id == name and one.title and one.lead.endswith(".") and one.figures and one.tables
    ids = [re.search(r'aria-labelledby="(\S+)-t', figure.svg)[1] for figure in one.figures]
    assert len(set(ids)) == len(ids)
    for figure in one.figures:
        ElementTree.fromstring(figure.svg)
        assert figure.caption
    for table in one.tables:
        assert all(len(row.cells) == len(table.columns) for row in table.rows) and table.rows
    assert "7.654" not in str(one), "the held-out part is not read"


def test_the_lens_at_three_places(measured, study):
    one = made("lens", study, measured)
    (table,) = one.tables
    assert [column.label for column in table.columns] == ["arm", "in the middle", "all", "new", "tok-repeat", "bigram-repeat", "k ≥ 8"]
    assert cells(table, "plain")[1:] == [f"{middle} / 3.25 / 3.25" for middle in ("4.69", "3.75", "3.75", "5.62", "7.50")]
    assert cells(table, "twice")[0] == "2 (2 of 8)" and cells(table, "twice")[5] == "7.50 / 6.50 / 2.25"
    assert table.notes == ("Shares of the measured targets: new 25.0%, tok-repeat 25.0%, bigram-repeat 50.0%, k ≥ 8 25.0%.",)
    assert one.lead.startswith("After its first pass the head of twice would lose 4.06 nats a token, at the end it loses 2.25; on targets")
    assert "6.50 and 2.25, and from application 8 of 8 on (4, pass 2) within 0.5 nats of the end." in one.lead
    assert len(one.figures) == 3 and "pass 1 of twice ends" in one.figures[0].svg and "twice: 3.7500 at 2" in one.figures[1].svg


def test_the_table_after_a_layer_that_is_named(measured, study):
    found = lens.lenses(study, measured, "R")
    assert cells(lens.lens_table(found, 3), "plain")[0] == "3 (3 of 4)" and cells(lens.lens_table(found, 4), "twice")[0] == "4 (4 of 8)"


def test_bars_of_what_applications_are_worth(measured, study):
    one = made("skips", study, measured)
    (table,) = one.tables
    assert cells(table, "plain", "1 (worth most)") == ["+0.1000"] * 4 and cells(table, "plain", "2 (worth least)") == ["−0.5000"] * 4
    assert cells(table, "twice", "pass 2") == ["+2.0000"] * 4
    assert "twice +1.0000 without pass 1 and +2.0000 without pass 2" in one.lead
    drawn = [bar for figure in one.figures for bar in ElementTree.fromstring(figure.svg).iter(SVG + "rect")]
    bars = {bar.find(SVG + "title").text: bar for bar in drawn}
    assert bars["without 2: −0.5000 nats a token"].get("class").startswith("hollow")
    wide = [float(bars[f"without {said} nats a token"].get("width")) for said in ("4: +0.0001", "3: +0.0010", "1: +0.1000")]
    assert wide[2] - wide[1] == pytest.approx(2 * (wide[1] - wide[0]), rel=0.01), "logarithmic"
    assert float(bars["without pass 2: +2.0000 nats a token"].get("width")) > wide[2]


@pytest.mark.parametrize(("count", "drawn"), [(48, True), (49, False)])
def test_many_applications_are_left_to_the_table(count, drawn):
    labels = [{"index": index, "layer": index + 1, "part": "both", "pass_": 1} for index in range(count)]
    columns = {"whole": np.ones(2), **{f"without_{index}": np.full(2, 1.5) for index in range(count)}}
    one = Skips("deep", (1,), 100, labels, class_sums(columns, {"all": np.ones(2, bool)}))
    look = looks(["deep"], "deep")["deep"]
    assert bool(skips.worth_bars("f", one, look, (0.1, 1.0))) is drawn
    assert len(skips.skips_table([one]).rows) == 2


def test_losses_with_other_numbers_of_passes(measured, study):
    one = made("depths", study, measured)
    numbers, exits = one.tables
    assert cells(numbers, "twice", "2 (trained)") == ["3.0000"] * 4 + ["0.0500"] and cells(numbers, "twice", "1")[-1] == "–"
    assert cells(exits, "twice", "0.1") == ["2.00 · 3.0000"] * 4 and cells(exits, "twice", "0.03") == ["3.00 · 3.1000"] * 4
    assert cells(exits, "twice", "0.001") == ["4.00 · 3.4000"] * 4
    more = depths.depths_table(depths.depths(study, measured), {("twice", 3): 0.625})
    assert cells(more, "twice", "3")[-1] == "62.5%" and cells(more, "twice", "1")[-1] == "–"
    assert len(more.columns) == len(numbers.columns) + 1
    assert one.lead == "twice, trained with 2 passes, changes its loss by +0.4000 nats a token with 4 and by +0.5000 with one."
    assert "twice trained" in one.figures[0].svg and "twice: 3.1000 at 3" in one.figures[0].svg


def test_whether_a_further_pass_moves_the_state(measured, study):
    one = made("states", study, measured)
    (table,) = one.tables
    assert cells(table, "plain", "1") == ["0.521", "–", "–", "–", "13.0"]
    assert cells(table, "twice", "2")[1:4] == ["0.500", "0.250", "2.000"]
    assert cells(table, "twice", "4 (not trained)")[2:] == ["0.062", "0.000", "25.0"]
    assert one.lead.startswith("twice changes its state by 0.25 in pass 2, 0.12 in pass 3 and 0.06 in pass 4")
    assert "twice: +0.2500 at 2" in one.figures[1].svg and "plain" not in one.figures[1].svg


@pytest.mark.parametrize(("draw", "words", "last"), [
    ({"uniform": (1, 3)}, "drawn from 1 to 3", 3),
    ({"poisson": 1}, "drawn, 2 on average", 7),
])  # fmt: skip
def test_passes_that_are_drawn_are_trained_as_far_as_the_draw_goes(measured, study, draw, words, last):
    """`twice` as if its passes were drawn, and measured at 2."""
    arms = tuple(arm.model_copy(update={"model": arm.model.model_copy(update={"passes": Passes(**draw)})}) if arm.name == "twice" else arm
                 for arm in study.arms)  # fmt: skip
    drawn = drawn_passes(study.model_copy(update={"arms": arms}))
    found = analysis_states(study, measured)
    labels = [row.cells[1].text for row in states.states_table(found, drawn).rows if row.cells[0].text == "twice"]
    assert labels == [f"{passes}{' (not trained)' if passes > last else ''}" for passes in (1, 2, 3, 4)]
    assert f"twice ({words}) changes its state by" in states._lead(found, drawn)
    runs = depths.depths(study, measured)
    labels = [row.cells[1].text for row in depths.depths_table(runs, None, drawn).rows]
    assert labels == [f"{passes}{' (trained)' if passes <= last else ''}" for passes in (1, 2, 3, 4)]
    assert depths._lead(runs, drawn).startswith(f"twice, measured at 2 and {words}, changes its loss by")
    assert depths._trained(runs, drawn) == (("twice measured", 2.0),) and depths._trained(runs, {}) == (("twice trained", 2.0),)
