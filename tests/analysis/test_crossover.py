"""How sure a crossing is: against a naive twin, against what a simulation knows, and where the points do not bracket it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.analysis import results_table
from ostinato.analysis.crossover import AT_ONCE, DRAWS, SEED, crossover, crossovers, zeros
from ostinato.analysis.curves import last_zero

TOKENS = (100, 200, 300, 400, 500)


def naive(tokens, gains, final):
    """The definition, one line at a time."""
    nonzero = [gain for gain in gains if gain]
    if not nonzero or (nonzero[-1] > 0) != (final > 0):
        return math.inf
    found = last_zero(tokens, gains)
    return found.tokens if found else -math.inf


GAINS = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0]), min_size=4, max_size=4)


@given(st.lists(GAINS, min_size=1, max_size=20), st.sampled_from([1.0, -1.0]))
def test_all_lines_at_once_are_each_line_alone(lines, final):
    tokens = [100, 200, 300, 400]
    found = zeros(np.array(tokens, float), np.array(lines), final)
    assert list(found) == [pytest.approx(naive(tokens, line, final)) for line in lines]


def curves(documents=40, shift=0.0, spread=0.3, seed=1):
    """Sums of gains by document at five points, on a line through zero at 300 + 1000 shift."""
    draw = np.random.default_rng(seed)
    sizes = np.maximum(draw.lognormal(4, 0.5, documents).astype(int), 5)
    effect = draw.normal(0, spread, documents)
    return np.array([((at - 300) / 1000 - shift + 0.1 * effect) * sizes for at in TOKENS]), sizes


def test_it_is_the_percentiles_of_draws_of_documents():
    gains, sizes = curves()
    found = crossover(TOKENS, gains, sizes, 350)
    draw, at = np.random.Generator(np.random.Philox(SEED)), []
    for _ in range(DRAWS // AT_ONCE):
        for drawn in draw.integers(len(sizes), size=(AT_ONCE, len(sizes))):
            times = np.bincount(drawn, minlength=len(sizes))
            at.append(naive(TOKENS, list((gains * times).sum(1) / (sizes * times).sum()), gains[-1].sum()))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(at, [0.025, 0.975], method="inverted_cdf")))
    assert (found.before, found.after) == pytest.approx((np.mean(np.array(at) <= 350), np.mean(np.array(at) > 350)))
    assert found.low < 300 < found.high and found.bracketed and found.documents == 40


def test_it_covers_the_truth():
    held = [found.low <= 300 <= found.high for seed in range(200) for found in [crossover(TOKENS, *curves(seed=seed), None)]]
    assert 0.9 <= np.mean(held) <= 0.98, "200 studies of 40 documents, sizes unequal"


@pytest.mark.parametrize(("ends", "side"), [(120, "after"), (480, "before"), (300, "unclear"), (None, None)])
def test_the_side_is_as_sure_as_the_draws(ends, side):
    assert crossover(TOKENS, *curves(), ends).side == side


def test_points_that_do_not_bracket_it_leave_an_end_open():
    early, late = (crossover(TOKENS, *curves(shift=shift), 50 if shift < 0 else 600) for shift in (-0.195, 0.195))
    assert (early.low, late.high) == (-math.inf, math.inf) and not early.bracketed and not late.bracketed
    assert early.record()["low"] is None and late.record()["high"] is None
    assert early.side == late.side == "unclear", "a draw that crosses outside the measured points may be on either side"


def test_nothing_is_said_of_too_little():
    gains, sizes = curves()
    assert crossover(TOKENS, gains[:, :1], sizes[:1], None) is None
    assert crossover(TOKENS[:1], gains[:1], sizes, None) is None
    assert crossover(TOKENS, np.zeros_like(gains), sizes, None) is None


def test_of_a_store_every_arm_that_crosses(bench, store, study):
    for seed in (1, 2):
        bench.run("plain", seed, 3.0)
        bench.run("deep", seed, 2.9)
        folder = bench.run("twice", seed, 3.0)
        by_document = np.repeat([0.11, 0.09, 0.1, 0.12], 5)
        for at, sign in ((1024, -1), (2048, 1)):
            losses = store.runs_of(study)["plain", seed].read_losses("validation", at).losses
            folder.write_losses("validation", at, (losses - sign * by_document).astype(np.float32), bench.targets)
    results = results_table(study, store)
    found = crossovers(results, store, store.runs_of(study))
    assert set(found) == {"twice"}, "deep is ahead throughout"
    (twice,) = (one for one in results if one.name == "twice")
    assert found["twice"].low == pytest.approx(found["twice"].high) == pytest.approx(twice.crossing.tokens) == pytest.approx(1536)
    assert (found["twice"].first, found["twice"].last, found["twice"].documents) == (1024, 2048, 4)
