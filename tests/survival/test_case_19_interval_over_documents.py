"""Case 19: tokens of one document are not independent. The interval over documents covers; what ignores documents does not.

40 documents of 500 tokens with an effect common to the tokens of a document, and no true difference between two arms. The kind: any
split of the tokens over documents, any size of the shared effect, down to one document, where nothing can be estimated.
"""

from __future__ import annotations

import numpy as np
import pytest

from ostinato.analysis import paired

TRIALS = 600


def two_arms(draw, sizes, shared):
    """Losses of two arms on the same targets, float64 [N] each, and the document of each target."""
    document = np.repeat(np.arange(len(sizes)), sizes)
    reference = draw.exponential(3.0, len(document))
    difference = draw.normal(0, shared, len(sizes))[document] + draw.normal(0, 1, len(document))
    return reference, reference - difference, document


def covered(sizes_of, shared, seed):
    """Share of the intervals that hold 0."""
    draw = np.random.default_rng(seed)
    return np.mean([paired(*two_arms(draw, sizes_of(draw), shared)).interval.holds(0.0) for _ in range(TRIALS)])


def even(draw):
    return np.full(40, 500)


def uneven(draw):
    return np.ceil(draw.lognormal(5.0, 1.2, 40)).astype(int)


@pytest.mark.parametrize("sizes_of", [even, uneven])
@pytest.mark.parametrize("shared", [0.0, 0.06, 0.5])
def test_the_interval_covers_about_95_percent(sizes_of, shared):
    assert covered(sizes_of, shared, 19) == pytest.approx(0.95, abs=0.03)


def test_what_takes_tokens_for_independent_does_not():
    """The measure of the case itself: at this shared effect an interval over tokens covers about three quarters."""
    draw, hits = np.random.default_rng(19), 0
    for _ in range(TRIALS):
        reference, arm, _ = two_arms(draw, even(draw), 0.06)
        gain = reference - arm
        hits += abs(gain.mean()) <= 1.96 * gain.std(ddof=1) / np.sqrt(len(gain))
    assert 0.65 < hits / TRIALS < 0.85


@pytest.mark.parametrize("sizes", [[500], [1]])
def test_one_document_is_not_estimable(sizes):
    found = paired(*two_arms(np.random.default_rng(0), sizes, 0.1))
    assert found.interval is None and found.documents == 1 and found.gain is not None


def test_two_documents_give_a_wide_interval_and_not_none():
    found = paired(*two_arms(np.random.default_rng(0), [300, 20], 0.1))
    assert found.interval.high - found.interval.low > 8 * found.interval.error
