"""The account of a gain over training, and where it changes its sign for good."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.analysis import crossing, gain_curve
from ostinato.errors import StoreError


def test_the_last_lasting_change_of_sign():
    assert crossing([100, 200, 300], [-0.2, -0.1, 0.1]) == pytest.approx(250)
    assert crossing([100, 200, 300, 400], [-0.1, 0.1, -0.1, 0.3]) == pytest.approx(325)
    assert crossing([100, 200, 300], [0.1, -0.1, -0.3]) == pytest.approx(150)
    assert crossing([1, 2, 3], [-1.0, 0.0, 0.5]) == 2
    for never in ([0.1, 0.2], [0.1, 0.0, 0.2], [-0.1], [], [0.0, 0.0], [None, 0.1], [-0.1, 0.0]):
        assert crossing(list(range(len(never))), never) is None


@given(st.lists(st.floats(-1, 1), max_size=12))
def test_after_the_crossing_no_point_has_the_other_sign(gains):
    tokens = [10 * (index + 1) for index in range(len(gains))]
    at = crossing(tokens, gains)
    later = {gain > 0 for place, gain in zip(tokens, gains, strict=True) if gain and (at is None or place > at)}
    assert len(later) <= 1


def test_only_shared_points_and_the_same_targets(store, targets):
    one, other = store.run("a" * 64, "x"), store.run("b" * 64, "x")
    for tokens in (100, 200, 300):
        one.write_losses("validation", tokens, np.full(20, 3.0), targets)
    for tokens in (200, 300, 400):
        other.write_losses("validation", tokens, np.full(20, 3.5 - tokens / 500), targets)
    points = gain_curve(store, one, other)
    assert [(point.tokens, pytest.approx(point.paired.gain)) for point in points] == [(200, -0.1), (300, 0.1)]
    targets.id = "u" * 64
    other.write_losses("validation", 100, np.full(20, 3.0), targets)
    with pytest.raises(StoreError, match="on the same targets"):
        gain_curve(store, one, other)
