"""The page of a replay: verdicts first, the sealed texts and numbers below, the table as it was printed; one file that needs no other."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from ostinato.cli.main import app
from ostinato.judge.published import as_table, printed
from ostinato.report.replay import page, published_table
from ostinato.study.replays import load_replay


@pytest.fixture(scope="module")
def html():
    return page(load_replay("replays/loop2"), "replays/loop2")


def test_verdicts_lead_and_open_to_their_texts_and_numbers(html):
    summaries = [re.sub(r"\s+|<[^>]+>", " ", one) for one in re.findall(r"<summary>(.*?)</summary>", html, re.DOTALL)]
    assert len(summaries) == 12 and "as it was given" in summaries[-1] and "How verdicts" in summaries[-2]
    assert re.search("killed +E3 .* KILL +killed +within noise +0.4286 +against 0.5000, holds by 0.0714", re.sub(r" +", " ", summaries[0]))
    assert html.index("Verdicts</h2>") < html.index("<caption>Quantities") < html.index("The published table</h2>")
    assert "gain(loop2_attn, class=bigram_repeat) / gain(loop2, class=bigram_repeat) &lt; 0.5" in html
    assert "2.8011 here" in html and "Contingent arm in-place control" in html and "Transcribed after the fact" in html


def test_it_needs_nothing_else_and_is_the_same_each_time(html):
    assert not re.search(r'(src|href)="(?!#|data:)', html)
    assert page(load_replay("replays/loop2"), "replays/loop2") == html


def test_the_table_is_as_printed_with_the_sign_of_a_gain():
    table = published_table(as_table("t.csv", [("line 2", {"arm": "a", "seed": "4", "delta": "-0.0400", "delta(class=new)": "+0.0063",
                                                           "params": "50.33M", "gain(unit=bits)": "-0.10", "loss": ""})]))  # fmt: skip
    assert [column.label for column in table.columns] == ["arm", "seed", "gain", "gain(class=new)", "params", "gain(unit=bits)", "loss"]
    assert [cell.text for cell in table.rows[0].cells] == ["a", "4", "+0.0400", "−0.0063", "50.33M", "−0.10", "–"]
    zero, less = -printed("0.0000"), -printed("-0.5")
    assert (zero.shown, less.shown, (-less).shown) == ("0.0000", "+0.5", "−0.5")


def test_the_command_line_writes_it(tmp_path):
    for out, path in ((["--out", str(tmp_path / "x.html")], tmp_path / "x.html"), (["--out", str(tmp_path)], tmp_path / "replay-ilr.html"),
                      (["--store", str(tmp_path / "s")], tmp_path / "s" / "reports" / "replay-ilr.html")):  # fmt: skip
        done = CliRunner().invoke(app, ["report", "replays/ilr", *out])
        assert done.exit_code == 0 and path.exists() and path.name in done.stdout.replace("\n", "")
    assert CliRunner().invoke(app, ["report", "replays/ilr", "--held-out"]).exit_code != 0
