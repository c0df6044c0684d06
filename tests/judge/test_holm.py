"""Holm's adjustment against its definition, and the families that it protects."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.judge.estimable import NotEstimable
from ostinato.judge.holm import holm

PS = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_the_example_of_the_definition():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # R: p.adjust(c(.01,.04,.03,.005), "holm")
    assert holm([]) == [] and holm([0.2]) == [0.2]


@given(PS, st.floats(0.001, 0.2))
def test_it_rejects_what_the_step_down_procedure_rejects(ps: list[float], level: float):
    adjusted = holm(ps)
    left = sorted(range(len(ps)), key=lambda index: ps[index])
    rejected = set()
    while left and len(left) * ps[left[0]] <= level:
        rejected.add(left.pop(0))
    assert {index for index, value in enumerate(adjusted) if value <= level} == rejected


@given(PS)
def test_it_is_between_the_p_and_bonferroni_and_keeps_the_order(ps: list[float]):
    adjusted = np.array(holm(ps))
    assert (adjusted >= np.array(ps)).all() and (adjusted <= np.minimum(1, len(ps) * np.array(ps))).all()
    order = np.argsort(ps, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()


@pytest.mark.parametrize("bad", [-0.1, 1.5, float("nan")])
def test_what_is_no_probability_is_refused(bad: float):
    with pytest.raises(NotEstimable, match="a p of"):
        holm([0.5, bad])
