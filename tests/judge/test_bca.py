"""The BCa interval against one computed draw by draw, and that it is refused where it covers too little."""

from __future__ import annotations

import numpy as np
import pytest

from ostinato.analysis.intervals import over_clusters
from ostinato.judge.bca import bca, bca_each
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.resample import ratios, samples


def documents(seed=0, number=60, gain=0.0):
    random = np.random.default_rng(seed)
    sizes = np.exp(random.normal(4, 0.8, number))
    return sizes * (gain + random.normal(0, 0.1, number)), sizes


def test_samples_are_of_as_many_documents_and_the_same_every_time():
    drawn = np.concatenate(list(samples(50, 300, seed=3)))
    assert drawn.shape == (300, 50) and (drawn.sum(1) == 50).all() and drawn.mean() == 1
    assert np.array_equal(drawn, np.concatenate(list(samples(50, 300, seed=3))))
    assert not np.array_equal(drawn, np.concatenate(list(samples(50, 300, seed=4))))
    assert abs(drawn.var() - (1 - 1 / 50)) < 0.03  # of a binomial


def test_ratios_are_those_of_documents_taken_one_by_one():
    gains, sizes = documents(number=45)
    drawn = ratios(np.stack([gains, -gains]), sizes, draws=20)
    for row, counts in enumerate(np.concatenate(list(samples(45, 20)))):
        taken = np.repeat(np.arange(45), counts.astype(int))
        assert drawn[row] == pytest.approx([gains[taken].sum() / sizes[taken].sum(), -gains[taken].sum() / sizes[taken].sum()])


def test_it_is_efrons_with_wider_quantiles():
    from scipy.stats import norm, t

    gains, sizes = documents(2, 44, 0.3)
    found, analytic = bca(gains, sizes, draws=500), over_clusters(gains, sizes)
    drawn = ratios(gains[None], sizes, 500)[:, 0]
    ratio = gains.sum() / sizes.sum()
    left_out = np.array([np.delete(gains, one).sum() / np.delete(sizes, one).sum() for one in range(44)])
    away = left_out.mean() - left_out
    acceleration = (away**3).sum() / (6 * (away**2).sum() ** 1.5)
    bias = norm.ppf((drawn < ratio).mean())
    plain = np.sqrt(((gains - ratio * sizes) ** 2).sum()) / sizes.sum()
    wide = t.ppf(0.975, analytic.freedom) * analytic.error / plain
    ends = [np.quantile(drawn, norm.cdf(bias + (bias + z) / (1 - acceleration * (bias + z)))) for z in (-wide, wide)]
    assert (found.low, found.high) == pytest.approx(ends) and found.error == pytest.approx(drawn.std(ddof=1))


def test_it_agrees_with_the_analytic_interval_where_gains_are_symmetric_and_documents_many():
    gains, sizes = documents(5, 2000, 0.05)
    analytic, found = over_clusters(gains, sizes), bca(gains, sizes)
    assert found.low == pytest.approx(analytic.low, abs=0.2 * analytic.error)
    assert found.high == pytest.approx(analytic.high, abs=0.2 * analytic.error)
    assert found.error == pytest.approx(analytic.error, rel=0.06)


def test_it_leans_to_the_side_of_the_long_tail():
    random = np.random.default_rng(1)
    gains, sizes = random.exponential(1.0, 50), np.ones(50)
    found = bca(gains, sizes)
    assert found.high - gains.mean() > 1.15 * (gains.mean() - found.low)


def test_arms_on_the_same_documents_are_on_the_same_samples():
    gains, sizes = documents()
    both = bca_each(np.stack([gains, 2 * gains]), sizes)
    assert both[0].low == pytest.approx(bca(gains, sizes).low) and both[1].low == pytest.approx(2 * both[0].low)


def test_a_gain_that_every_document_has_is_a_point():
    sizes = np.arange(1.0, 51.0)
    found = bca(0.25 * sizes, sizes)
    assert (found.low, found.high, found.error) == (0.25, 0.25, 0.0)


@pytest.mark.parametrize("number", [0, 1, 39])
def test_fewer_than_forty_documents_are_refused(number):
    with pytest.raises(NotEstimable, match=f"^{number} document"):
        bca(np.ones(number), np.ones(number))
