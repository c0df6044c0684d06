"""`ostinato fit`: the readable summary, JSON, a page, and mistakes with exit code 2."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from ostinato.cli.main import main

COLUMNS = "N_once,N_rec,loops,D,loss"


@pytest.fixture
def grid(tmp_path):
    """A table of a known law, its r under another name."""
    draw, lines = np.random.default_rng(1), [COLUMNS]
    for width in (256, 384, 512, 768, 1024):
        for r in (1, 2, 4, 8):
            for tokens in (5e8, 2e9, 8e9):
                once, rec = 48 * width**2, 12 * width**2 * 16 // r
                size = once + r**0.46 * rec
                loss = (1.57 + 27 * size**-0.199 + 900 * tokens**-0.369) * np.exp(0.002 * draw.standard_normal())
                lines.append(f"{once},{rec},{r},{tokens},{loss!r}".replace("np.float64(", "").replace(")", ""))
    path = tmp_path / "grid.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ostinato", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return call


def test_json_has_phi_and_its_interval(run, grid):
    code, out, _ = run("fit", grid, "--column", "r=loops", "--json")
    found = json.loads(out)
    assert code == 0 and abs(found["phi"] - 0.46) < 0.06
    assert found["phi_interval"][0] < found["phi"] < found["phi_interval"][1] and found["rows"] == 60


def test_the_summary_and_the_page(run, grid, tmp_path):
    code, out, _ = run("fit", grid, "--column", "r=loops", "--out", tmp_path / "page.html")
    assert code == 0
    said = " ".join(out.split())
    for words in ("phi = 0.4", "Where training FLOPs are fixed it does not pay", "Nested laws", "phi = 0: the law without r",
                  "page:"):  # fmt: skip
        assert words in said
    page = (tmp_path / "page.html").read_text()
    assert page.count('<svg class="figure"') == 8 and "nan" not in page.partition("<script>")[0].partition("<main>")[2]


def test_stated_values_are_said(run, grid):
    code, out, _ = run("fit", grid, "--column", "r=loops", "--E", "1.57", "--alpha", "0.199", "--beta", "0.369")
    assert code == 0 and "given E = 1.57, alpha = 0.199 and beta = 0.369" in " ".join(out.split())


@pytest.mark.parametrize("arguments, words", [([], "no column r"), (["--column", "r=loop"], "--column r=loops"),
                                              (["--column", "r=loops", "--unit", "bytes"], "nats or bits"),
                                              (["--column", "r=loops", "--size", "desk"], "only a study has sizes"),
                                              (["--column", "r=loops", "--E", "9"], "below every loss")])  # fmt: skip
def test_a_mistake_says_what_to_do(run, grid, arguments, words):
    code, _, said = run("fit", grid, *arguments)
    assert code == 2 and words in " ".join(said.split())
