"""Windows won: the exact sign test, ties stated."""

from __future__ import annotations

import numpy as np
import pytest

from ostinato.judge.exact import SignTest, sign_test


def test_counts_and_p():
    found = sign_test(np.array([0.5, 0.1, -0.2, 0.0, 0.3, 0.0]))
    assert (found.won, found.lost, found.tied) == (3, 1, 2)
    assert found.p == 2 * (1 + 4) / 16 and found.words == "won 3 of 6, 2 tied (exact p = 0.62)"
    assert found.record()["p"] == found.p


@pytest.mark.parametrize(("won", "lost"), [(61, 39), (10, 0), (0, 7), (5, 5), (400, 300)])
def test_it_is_the_binomial_test(won, lost):
    from scipy.stats import binomtest

    assert SignTest(won, lost, 3).p == pytest.approx(binomtest(won, won + lost).pvalue)


def test_ties_alone_say_nothing():
    assert sign_test(np.zeros(4)).p == 1.0 and sign_test(np.array([])).p == 1.0
    assert "tied" not in SignTest(2, 1, 0).words
