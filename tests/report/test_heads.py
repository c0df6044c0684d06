"""The map of application and head, the table of the strongest, and the section of a filled store."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from ostinato.analysis import results_table
from ostinato.analysis.heads import SCORES, heads_of
from ostinato.report.heads import head_map, head_table, section
from ostinato.report.page import table_html

APPLICATIONS = [{"index": index, "layer": 1 + index % 2, "part": "both", "pass_": 1 + index // 2} for index in range(4)]
ABOUT = {"relative_error": 2e-7, "recurrent": [], "applications": APPLICATIONS}


def rows(induction, text="repeated"):
    """induction: {(application, head): score}; everything else 0.1, of 10 queries."""
    return [{"text": text, "application": one["index"], "layer": one["layer"], "pass": one["pass_"], "head": head, "score": score,
             "sum": 10 * (induction.get((one["index"], head), 0.1) if score == "induction" else 0.1), "chance": 0.5, "count": 10}
            for one in APPLICATIONS for head in range(3) for score in SCORES]  # fmt: skip


@pytest.fixture
def with_heads(filled, study):
    folders = filled.runs_of(study)
    for seed, at in ((1, (2, 1)), (2, (3, 0))):
        folder = folders["twice", seed]
        tokens = max(at for _, at in folder.measured())
        table = pa.Table.from_pylist(rows({at: 0.81}) + rows({(0, 2): 0.36}, "windows"))
        folder.write_measure("heads", {}, tokens, table, ABOUT | {"evaluation": folder.evaluation})
    return filled


def test_the_area_of_a_square_is_the_score():
    found = heads_of("twice", 1, 100, rows({(1, 2): 1.0, (3, 0): 0.25}), ABOUT)
    svg = head_map("m", "Heads", "Scores.", found, 3)
    squares = {said: float(width) for width, said in re.findall(r'<rect class="dot f1"[^>]* width="([\d.]+)"[^>]*><title>([^<]*)', svg)}
    assert len(squares) == 4 * 3 * 3
    whole, quarter = (next(side for said, side in squares.items() if said.startswith(f"{place}: induction"))
                      for place in ("2, head 2", "2, pass 2, head 0"))  # fmt: skip
    assert whole == 22.0 and quarter == 11.0
    assert "2, pass 2, head 0: induction 0.250 (evenly spread: 0.050)" in squares
    assert svg.count('class="dot f0"') == 1 and "k ≥ 8 is resolved after application 3" in svg
    ElementTree.fromstring(svg)


def test_many_heads_and_applications_stay_in_the_figure():
    many = [{"index": index, "layer": index + 1, "part": "both", "pass_": 1} for index in range(30)]
    listed = [{"text": "repeated", "application": one["index"], "layer": one["layer"], "pass": 1, "head": head, "score": score, "sum": 1.0,
               "chance": 0.0, "count": 1} for one in many for head in range(32) for score in SCORES]  # fmt: skip
    svg = ElementTree.fromstring(head_map("m", "t", "d", heads_of("a", 1, 1, listed, ABOUT | {"applications": many})))
    _, _, width, height = map(float, svg.get("viewBox").split())
    boxes = [[float(box.get(side)) for side in ("x", "y", "width", "height")] for box in svg.iter() if box.tag.endswith("rect")]
    ends = [(x + wide, y + high) for x, y, wide, high in boxes]
    assert max(x for x, _ in ends) <= width and max(y for _, y in ends) <= height
    assert head_map("m", "t", "d", heads_of("a", 1, 1, [], ABOUT)) == ""


def test_the_table_names_the_strongest_head():
    found = [heads_of("twice", 2, 100, rows({(3, 1): 0.9}), ABOUT)]
    (row,) = head_table(found, {"twice": (3, "2, pass 2")}).rows
    assert [cell.text for cell in row.cells] == [
        "twice", "2", "0.90 (2, pass 2, head 1)", "0.10 (1, head 0)", "0.10 (1, head 0)", "–", "2, pass 2"]  # fmt: skip
    assert head_table(found, {}).rows[0].cells[-1].text == "–"


def test_a_section_where_there_are_heads(with_heads, study):
    results = results_table(study, with_heads)
    found = section(study, with_heads, results)
    assert found.id == "heads" and len(found.figures) == 1 and "twice 0.81 (1, pass 2, head 1)" in found.lead
    assert [row.cells[5].text for row in found.tables[0].rows] == ["0.36 (1, head 2)"] * 2
    assert any("2e-07" in note for note in found.notes) and any("two seeds" in note for note in found.notes)
    assert "0.81 (1, pass 2, head 1)" in table_html(found.tables[0])


def test_none_without_heads(filled, study):
    assert section(study, filled, results_table(study, filled)) is None
