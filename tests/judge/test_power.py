"""Power against an integral of its own and published tables; the smallest difference and the number of seeds are its inverses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.judge.estimable import NotEstimable
from ostinato.judge.power import detectable, power, seeds_needed


def integrated(away: float, freedom: float) -> float:
    """The two normal tails, averaged over what the estimate of the error may be."""
    from scipy.special import gammaincinv, ndtr, stdtrit

    points, weights = np.polynomial.legendre.leggauss(400)
    spread = np.sqrt(2 * gammaincinv(freedom / 2, (points + 1) / 2) / freedom)
    t = stdtrit(freedom, 0.975)
    return float(weights @ (ndtr(away - t * spread) + ndtr(-away - t * spread)) / 2)


@pytest.mark.parametrize("freedom", [1, 2, 4, 9, 50])
@pytest.mark.parametrize("away", [0.0, 0.3, 1.0, 2.8, 6.0])
def test_power_is_the_integral(away, freedom):
    assert power(away, 1.0, freedom) == pytest.approx(integrated(away, freedom), abs=2e-6)
    assert power(-0.02 * away, 0.02, freedom) == pytest.approx(power(away, 1.0, freedom), abs=1e-12)


@pytest.mark.parametrize(("effect", "pairs"), [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10)])
def test_how_many_pairs_for_80_percent(effect, pairs):
    """G*Power 3.1, matched pairs, two-sided, alpha 0.05, power 0.8."""
    assert seeds_needed(effect, 1.0) == seeds_needed(-effect / 100, 0.01) == pairs


@given(st.floats(0.2, 20), st.floats(0.01, 3))
def test_the_number_of_seeds_is_the_smallest_that_is_enough(difference, sd):
    seeds = seeds_needed(difference * sd, sd)
    assert power(difference * sd, sd / math.sqrt(seeds), seeds - 1) >= 0.8
    assert seeds == 2 or power(difference * sd, sd / math.sqrt(seeds - 1), seeds - 2) < 0.8


@given(st.floats(1, 500), st.floats(0.3, 0.95))
def test_the_detectable_difference_has_the_promised_power(freedom, promised):
    found = detectable(0.013, freedom, promised)
    assert power(found, 0.013, freedom) == pytest.approx(promised, abs=1e-6)


def test_far_out_and_without_noise():
    assert detectable(1.0, math.inf) == pytest.approx(2.8016, abs=1e-4)
    assert power(1e6, 1.0, 5) == 1.0 and power(1.0, 0.0, 3) == 1.0 and power(0.0, 0.0, 3) == 0.0
    assert detectable(0.0, 2) == 0.0 and seeds_needed(0.1, 0.0) == 2
    assert all(0 <= power(away, 1.0, freedom) <= 1 for away in (25, 29, 31, 60, 400) for freedom in (1, 1.5, 2, 2.5, 50))


def test_what_cannot_be_known_is_refused():
    with pytest.raises(NotEstimable, match="one seed"):
        detectable(0.01, 0)
    with pytest.raises(NotEstimable, match="difference of exactly 0"):
        seeds_needed(0.0, 0.1)
    with pytest.raises(NotEstimable, match="more than 1,000 seeds"):
        seeds_needed(1e-5, 0.1)
