"""The section on noise: what it says of two seeds, of one, and of a study in which nothing is compared."""

from __future__ import annotations

import xml.dom.minidom

from ostinato.analysis import results_table
from ostinato.report.noise import noise_table, section
from ostinato.report.tables import as_text, to_rich
from ostinato.store import Store


def test_two_seeds(filled, study):
    found = section(study, filled, results_table(study, filled))
    assert found.id == "noise" and "Another seed changes a gain by" in found.lead and "With 2 seeds a true gain of" in found.lead
    (figure,) = found.figures
    text = xml.dom.minidom.parseString(figure.svg).toxml()
    assert "detectable with these seeds" in text and "95% over seeds" in text and 'class="band"' in text
    table, ranking = found.tables
    assert [row.cells[0].text for row in table.rows] == [arm.name for arm in study.arms if arm.name != study.reference]
    assert "least 0.5" in table.rows[0].cells[5].text and len(ranking.rows) == len(study.arms) - 1
    assert any("no run was made again" in note for note in found.notes)
    assert "windows won" in as_text(to_rich(table)).replace("\n", " ") or "windows" in as_text(to_rich(table))


def test_one_seed_is_said(store, study, fill_store):
    fill_store(store, study, states={(arm.name, 2): "missing" for arm in study.arms})
    found = section(study, store, results_table(study, store))
    assert "The noise of seeds is not known: one seed" in found.lead
    table = found.tables[0]
    assert all(row.cells[8].text == "–" and "one seed" in row.cells[8].title for row in table.rows)
    assert 'class="band"' not in found.figures[0].svg


def test_nothing_compared(study, tmp_path):
    assert section(study, Store(tmp_path / "empty"), results_table(study, Store(tmp_path / "empty"))) is None


def test_an_empty_table_has_its_columns():
    assert len(noise_table(()).columns) == 10
