"""The simulation of judging, small: noise is seldom called news, and what is planted is found; benchmarks/judging.py has the numbers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def judging(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import judging

    yield judging
    for name in ("judging", "harness"):
        sys.modules.pop(name, None)


def test_identical_arms_are_seldom_told_apart(judging):
    one, family = judging.identical(150, 3, 40)
    assert one.ours <= 8 and family.ours <= 6 and one.notes["SUPPORTED by the point alone"] > "3"


def test_what_is_planted_is_found(judging):
    row = judging.planted(200, 3)
    assert row.ours < 12, row.notes  # points from 80%; four simulation errors


def test_a_bootstrap_of_three_seeds_covers_far_too_little(judging):
    t, fieller, bootstrap = judging.over_few_seeds(500, 3)
    assert t.ours < 4 and fieller.ours < 4 and bootstrap.ours < 80
