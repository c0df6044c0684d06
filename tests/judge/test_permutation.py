"""Sign flips against every sign written out, and the smallest p that few seeds can give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.judge.estimable import NotEstimable
from ostinato.judge.permutation import EXACT, sign_flip


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=8))
def test_it_is_the_share_of_all_signs(values):
    totals = [abs(sum(sign * value for sign, value in zip(signs, values, strict=True)))
              for signs in itertools.product((1, -1), repeat=len(values))]  # fmt: skip
    found = sign_flip(values)
    assert found.p == pytest.approx(sum(total >= abs(sum(values)) for total in totals) / len(totals))
    assert found.draws is None and found.p >= found.smallest and found.units == sum(value != 0 for value in values)


@pytest.mark.parametrize(("seeds", "smallest"), [(1, 1.0), (2, 0.5), (3, 0.25), (5, 0.0625), (6, 0.03125)])
def test_the_smallest_p_of_few_seeds(seeds, smallest):
    found = sign_flip([0.1 + 0.01 * seed for seed in range(seeds)])
    assert found.p == found.smallest == smallest
    assert found.words() == f"p = {smallest:.3g}, the smallest that {seeds} seeds can give"
    assert "smallest possible" in sign_flip([1.0, -1.0, 0.5]).words()


def test_many_documents_are_drawn_never_zero_and_the_same_again():
    values = np.random.default_rng(0).normal(0.25, 1, 100)
    found = sign_flip(values)
    assert found == sign_flip(values) and found.draws == 20_000 and found.units == 100 > EXACT
    from scipy.stats import ttest_1samp

    assert found.p == pytest.approx(ttest_1samp(values, 0).pvalue, rel=0.35, abs=0.002)
    always = sign_flip(np.ones(40))
    assert always.p == always.smallest == 1 / 20_001


def test_drawn_and_exact_agree():
    values = np.random.default_rng(1).normal(0.5, 1, EXACT)
    drawn = sign_flip([*values, 1e-12])  # one unit more, which decides nothing
    assert drawn.draws and drawn.p == pytest.approx(sign_flip(values).p, abs=0.015)


def test_no_difference_at_all_and_no_pair():
    assert sign_flip([0.0, 0.0]).record() == {"p": 1.0, "smallest": 1.0, "units": 0, "draws": None}
    with pytest.raises(NotEstimable, match="no paired difference"):
        sign_flip([])
