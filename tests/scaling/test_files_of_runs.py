"""Files of runs: which line a row stands on, rows that do not fit under the names, and quotes that take in others."""

from __future__ import annotations

import pytest

from ostinato.errors import FitError
from ostinato.scaling.files_of_runs import read_file

NAMES = "N_once,N_rec,r,D,loss"
ROW = "1000000,2000000,2,1000000000,2.5"


@pytest.fixture
def file(tmp_path):
    """file(*lines, name=…) -> path."""

    def make(*lines, name="runs.csv"):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return tmp_path / name

    return make


def test_a_row_stands_on_the_line_that_it_begins_on(file):
    found = read_file(file("", NAMES + ",note", "", ROW + ",", "", "", ROW + ',"two\nlines, of 2.5 words"', ROW + ",last"))
    assert found.places == ["line 4", "line 7", "line 9"] and not found.notes
    assert found.columns["note"] == ["", "two\nlines, of 2.5 words", "last"]


def test_cells_without_a_name_leave_the_row_out(file):
    found = read_file(file(NAMES, ROW, ROW, "1,000000,2000000,2,1000000000,2.5", ROW + ",", "5,6"))
    assert found.notes == ["line 4 is left out: 6 cells under 5 names", "line 5 is left out: 6 cells under 5 names"]
    assert found.places == ["line 2", "line 3", "line 6"] and found.columns["loss"] == ["2.5", "2.5", ""]
    none = read_file(file(NAMES, *[ROW + ",000"] * 3))
    assert not none.places and len(none.notes) == 3


def test_a_delimiter_at_the_end_of_every_row_is_no_cell(file):
    found = read_file(file(NAMES, *[ROW + ","] * 3, ROW + ",7", ROW + ",,"))
    assert found.places == ["line 2", "line 3", "line 4"]
    assert found.notes == ["line 5 is left out: 6 cells under 5 names", "line 6 is left out: 7 cells under 5 names"]


@pytest.mark.parametrize("lines, words", [
    ([ROW + ',"oops', ROW + ",", ROW + ","], "line 3: a quote that opens there never closes"),
    ([ROW + ',"oops', ROW + ",", ROW + ',"'], "line 3: a quote that opens there closes on line 5, with rows between"),
    (['"' + ROW + ",", ROW + ',"'], "line 3: a quote that opens there closes on line 4, with rows between"),
    ([ROW + ',"oops"and more'], "line 3: .* expected after"),
])  # fmt: skip
def test_a_quote_that_takes_in_rows_is_refused(file, lines, words):
    with pytest.raises(FitError, match=words):
        read_file(file(NAMES + ",note", ROW + ",", *lines))


def test_a_suffix_in_capitals_is_that_suffix(tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    parquet.write_table(pyarrow.table({"r": [1, 2]}), tmp_path / "RUNS.PARQUET")
    found = read_file(tmp_path / "RUNS.PARQUET")
    assert found.columns == {"r": [1, 2]} and found.places == ["row 1", "row 2"]


def test_a_folder_is_called_one(tmp_path):
    (tmp_path / "runs.csv").mkdir()
    with pytest.raises(FitError, match=r"runs\.csv is a folder"):
        read_file(tmp_path / "runs.csv")
