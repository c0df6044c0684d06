"""A fit as it is given out: what was left out stands first and in a refusal, and a page replaces nothing but a page."""

from __future__ import annotations

import numpy as np
import pytest

from ostinato.errors import FitError
from ostinato.report.fit_page import page_path
from ostinato.report.fit_sheet import FitSheet, fit_source
from ostinato.scaling.law import equivalent


def lines(scale=1.0):
    """Runs of a known law, their parameters divided by `scale`, and one without a loss."""
    draw, made = np.random.default_rng(1), ["N_once,N_rec,r,D,loss"]
    for width in (256, 512, 768, 1024):
        for r in (1, 2, 4):
            for tokens in (5e8, 2e9, 8e9):
                once, rec = 48 * width**2, 192 * width**2 // r
                loss = 1.57 + 27 * equivalent(once, rec, r, 0.46) ** -0.199 + 900 * tokens**-0.369
                made.append(f"{once / scale},{rec / scale},{r},{tokens},{loss * np.exp(0.002 * draw.standard_normal()):.6f}")
    return [*made, "1000000,1000000,2,1e9,"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("fit") / "runs.csv"
    path.write_text("\n".join(lines()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def sheet(table) -> FitSheet:
    return fit_source(table, (), "nats", None, None, None, (), None)


def test_what_was_left_out_stands_before_the_tables(sheet):
    for said, first in ((" ".join(repr(sheet).split()), "L = E + A"), (sheet._repr_html_(), "<table")):
        assert said.index("phi = 0.") < said.index("line 38 is left out: loss is empty") < said.index(first)


def test_a_refusal_says_what_looked_wrong_and_what_was_left_out(tmp_path):
    path = tmp_path / "runs.csv"
    rows = lines(scale=1e6)
    path.write_text("\n".join([*rows[:4], *rows[-1:] * 2]), encoding="utf-8")
    with pytest.raises(FitError, match=r"r is 1 in all 3 rows\n +look again: N_once .*in millions.*\n +left out or counted once: "
                                       r"line 5 is left out: loss is empty; and 1 more\nrule: ") as caught:  # fmt: skip
        fit_source(path, (), "nats", None, None, None, (), None)
    assert "r must vary" in caught.value.rule and "looped runs" in caught.value.fix


def test_a_page_replaces_a_page_and_nothing_else(sheet, table, tmp_path):
    before = table.read_text()
    (tmp_path / "link.html").symlink_to(table)
    (tmp_path / "notes.txt").write_text("mine")
    for path, words in ((table, "the table itself"), (tmp_path / "link.html", "the table itself"), (tmp_path / "notes.txt", "no page")):
        with pytest.raises(FitError, match=words):
            sheet.write(path)
    assert table.read_text() == before and (tmp_path / "notes.txt").read_text() == "mine"
    (tmp_path / "old.HTM").write_text("old")
    assert sheet.write(tmp_path / "old.HTM").read_text().startswith("<!doctype html>")
    assert sheet.write(tmp_path).name == "phi.html" and sheet.write(tmp_path / "new" / "page").is_file()


def test_the_page_of_a_study_may_be_called_as_it_is(tmp_path):
    assert page_path(tmp_path / "phi", "phi") == tmp_path / "phi"
