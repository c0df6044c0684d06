"""The committed table of the desk study is that of the study as it is shipped, and the fit says of it what its README says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostinato.errors import FitError
from ostinato.scaling import read_table
from ostinato.scaling.findings import analyse
from ostinato.scaling.fit import fit_law
from ostinato.scaling.study import size_of
from ostinato.scaling.treatments import split
from ostinato.study import load_study
from ostinato.study.derive import recipe_steps

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "phi-desk"


def test_the_table_holds_the_runs_of_the_shipped_study():
    whole = read_table(FOLDER / "runs.csv")
    arms = {arm.name: arm for arm in load_study("phi", "desk").arms}
    table, others = split(whole)
    assert sorted(table.arm) == sorted(arms) and not whole.notes
    assert {name: len(one) for name, one in others.items()} == {"backprop half": 36, "2 streams": 36}
    for at, name in enumerate(table.arm):
        size = size_of(arms[name])
        assert (table.N_once[at], table.N_rec[at], table.r[at]) == (size.N_once, size.N_rec, size.r)
        assert table.D[at] == recipe_steps(arms[name].recipe).tokens
        assert 2.5 < table.loss[at] < 4


def test_the_fit_refuses_as_its_readme_says():
    table = read_table(FOLDER / "runs.csv")
    with pytest.raises(FitError, match="phi is not identified by this table"):
        analyse(table)
    assert fit_law(split(table)[0].rows).phi == pytest.approx(-0.53, abs=0.05)
    assert "phi is -0.53, 95% from -1.87 to 0.50" in (FOLDER / "README.md").read_text(encoding="utf-8")
