"""Not worse than by more than a margin: what the interval says, and its one-sided p."""

from __future__ import annotations

import math

import pytest

from ostinato.analysis.intervals import Interval, over_values
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.noninferiority import noninferiority


def around(gain, half, freedom=30):
    from scipy.special import stdtrit

    return Interval(gain - half, gain + half, half / float(stdtrit(freedom, 0.975)), freedom)


@pytest.mark.parametrize(
    ("gain", "kind"), [(0.01, "not worse"), (-0.005, "not worse"), (-0.012, "open"), (-0.02, "open"), (-0.04, "worse")]
)
def test_what_the_interval_says(gain, kind):
    found = noninferiority(gain, around(gain, 0.01), 0.02)
    assert found.kind == kind and "0.02" in found.words and found.words.startswith(kind)
    assert (found.p < 0.025) == (kind == "not worse") and (found.p > 0.975) == (kind == "worse")


def test_p_is_of_the_one_sided_t_test_at_the_margin():
    from scipy.stats import ttest_1samp

    gains = [0.001, -0.004, 0.002, -0.003]
    found = noninferiority(-0.001, over_values(gains), 0.005)
    assert found.p == pytest.approx(ttest_1samp(gains, -0.005, alternative="greater").pvalue)


def test_a_difference_that_is_not_significant_is_not_thereby_not_worse():
    assert noninferiority(0.0, around(0.0, 0.05), 0.02).kind == "open"


def test_without_noise():
    exact = Interval(-0.01, -0.01, 0.0, 3)
    assert noninferiority(-0.01, exact, 0.02).p == 0.0 and noninferiority(-0.01, exact, 0.005).record()["kind"] == "worse"


@pytest.mark.parametrize("margin", [0.0, -0.1, math.inf, math.nan])
def test_no_margin_is_refused(margin):
    with pytest.raises(NotEstimable, match="a margin of"):
        noninferiority(0.0, around(0.0, 1), margin)
