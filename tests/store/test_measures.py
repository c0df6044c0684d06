"""Measures beside a run: what is written is read, settings are told apart, a torn file is named."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ostinato.errors import StoreError
from ostinato.store import RunFolder, measures

TABLE = pa.table({"application": [0, 1], "nats": [1.5, 0.5]})


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "runs" / "0123456789abcdef")


def test_what_is_written_is_read(folder):
    folder.write_measure("lens", {"targets": 10}, 300, TABLE, {"labels": ["1", "2"]})
    found = folder.measure("lens")
    assert (found.name, found.tokens, found.settings, found.about) == ("lens", 300, {"targets": 10}, {"labels": ["1", "2"]})
    assert found.table().equals(TABLE)
    assert folder.measure("heads") is None and folder.measure("lens", 200) is None
    assert folder.measure("lens", settings={"targets": 9}) is None


def test_settings_stand_beside_each_other_and_the_newest_point_is_taken(folder):
    for tokens, targets in ((300, 10), (200, 10), (200, 20)):
        folder.write_measure("lens", {"targets": targets}, tokens, TABLE)
    assert [(one.tokens, one.settings["targets"]) for one in folder.measures("lens")][2] == (300, 10) and len(folder.measures()) == 3
    assert folder.measure("lens").tokens == 300 and folder.measure("lens", settings={"targets": 20}).tokens == 200
    folder.write_measure("lens", {"targets": 20}, 200, TABLE.slice(1))
    assert folder.measure("lens", settings={"targets": 20}).table().num_rows == 1 and len(folder.measures()) == 3


def test_bad_files_and_empty_tables(folder):
    with pytest.raises(StoreError, match="found nothing"):
        folder.write_measure("lens", {}, 300, TABLE.slice(2))
    folder.write_measure("lens", {}, 300, TABLE)
    path = folder.measure("lens").path
    whole = path.read_bytes()
    path.write_bytes(whole[:40])
    assert folder.measures() == [] and folder.measure("lens") is None
    assert [str(path) in torn for torn in folder.torn_measures()] == [True]
    path.write_bytes(whole[:4] + bytes(60) + whole[64:])  # the footer is whole, the columns are not
    with pytest.raises(StoreError, match="ostinato measure"):
        folder.measure("lens").table()


def test_a_footer_is_read_once_until_its_file_is_another(folder, monkeypatch):
    folder.write_measure("lens", {}, 300, TABLE, {"labels": ["1"]})
    read, genuine = [], measures.read_footer
    monkeypatch.setattr(measures, "read_footer", lambda path, mend: read.append(path) or genuine(path, mend))
    assert folder.measure("lens") == folder.measures()[0] and RunFolder(folder.path).measure("lens").about == {"labels": ["1"]}
    assert len(read) == 1
    folder.write_measure("lens", {}, 300, TABLE, {"labels": ["2"]})
    assert folder.measure("lens").about == {"labels": ["2"]} and len(read) == 2
    path = folder.measure("lens").path
    whole = path.read_bytes()
    path.write_bytes(whole[:40])
    assert folder.measures() == [] and len(folder.torn_measures()) == 1
    path.write_bytes(whole)
    assert folder.measure("lens").about == {"labels": ["2"]}
