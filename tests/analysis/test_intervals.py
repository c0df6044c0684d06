"""Coverage of the interval over documents, by simulation, and its agreement with what is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ostinato.analysis import over_clusters, over_values


def naive_freedom(share):
    matrix = np.diag(share**2 / (1 - 2 * share + share @ share))
    centre = np.eye(len(share)) - np.outer(np.ones(len(share)), share)
    spread = np.diag(share**-0.5)
    form = spread @ centre.T @ matrix @ centre @ spread
    return np.trace(form) ** 2 / np.trace(form @ form)


def test_equal_documents_give_the_plain_t_interval():
    gains = np.random.default_rng(0).normal(size=12)
    interval, plain = over_clusters(gains * 50, np.full(12, 50)), over_values(gains)
    assert interval.freedom == pytest.approx(11)
    assert (interval.low, interval.high, interval.error) == pytest.approx((plain.low, plain.high, plain.error))
    expected = stats.t.interval(0.95, 11, gains.mean(), stats.sem(gains))
    assert (plain.low, plain.high) == pytest.approx(expected)


@pytest.mark.parametrize("sizes", [[1, 1], [1, 2, 3], [5, 1000, 7, 30], list(range(1, 41))])
def test_degrees_of_freedom_equal_the_traces_of_the_full_matrix(sizes):
    sizes = np.array(sizes, float)
    found = over_clusters(np.arange(len(sizes)) * 1.0, sizes).freedom
    assert found == pytest.approx(naive_freedom(sizes / sizes.sum())) and found <= len(sizes) - 1 + 1e-9


def test_fewer_than_two_clusters_are_not_estimable():
    assert over_clusters([1.0], [10]) is None and over_clusters([], []) is None
    assert over_values([1.0]) is None and over_values([]) is None


def coverage(count, skew, effect, noise, seed, sets=20, trials=200):
    """Share of intervals that hold the true gain of 0. Sizes are lognormal; tokens share an effect of their document."""
    draws, hits = np.random.default_rng(seed), 0
    for _ in range(sets):
        sizes = np.ceil(draws.lognormal(5.5, skew, count))
        for _ in range(trials):
            gains = draws.normal(0, effect, count) * sizes + draws.normal(0, noise, count) * np.sqrt(sizes)
            hits += over_clusters(gains, sizes).holds(0.0)
    return hits / (sets * trials)


def test_forty_documents_of_one_size_with_a_shared_effect():
    """Tokens drawn one by one, as losses are: 40 documents of 500 tokens."""
    draws, hits = np.random.default_rng(0), 0
    for _ in range(1000):
        tokens = draws.normal(0, 0.2, (40, 1)) + draws.normal(0, 1, (40, 500))
        hits += over_clusters(tokens.sum(axis=1), np.full(40, 500)).holds(0.0)
    assert hits / 1000 == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("skew", [0.0, 0.8, 1.3])
@pytest.mark.parametrize(("effect", "noise"), [(1, 4), (1, 0), (0, 4)])
def test_coverage_is_about_95_percent_whatever_the_sizes(skew, effect, noise):
    assert coverage(40, skew, effect, noise, 1) == pytest.approx(0.95, abs=0.017)


@pytest.mark.parametrize("count", [3, 8, 300])
def test_few_documents_are_covered_at_least_as_often(count):
    assert 0.94 <= coverage(count, 1.0, 1, 4, 2) <= 0.985


def test_the_textbook_variance_would_not_do():
    """What the choice rests on: with the textbook variance and K - 1 degrees, documents of uneven size are covered too seldom."""
    draws, hits, critical = np.random.default_rng(1), 0, stats.t.ppf(0.975, 39)
    for _ in range(4000):
        sizes = np.ceil(draws.lognormal(5.5, 1.3, 40))
        gains = draws.normal(0, 1, 40) * sizes
        ratio = gains.sum() / sizes.sum()
        error = np.sqrt(40 / 39 * np.sum((gains - ratio * sizes) ** 2)) / sizes.sum()
        hits += abs(ratio) <= critical * error
    assert hits / 4000 < 0.90
