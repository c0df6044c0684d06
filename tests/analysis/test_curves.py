"""The account of a gain over training, and where it changes its sign for good."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.analysis import crossing, crossing_of, gain_curve, mean_line
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


def test_mean_is_of_the_runs_that_reach_furthest():
    assert mean_line([((1.0, 2.0), (2.0, 1.0)), ((1.0, 4.0), (2.0, 3.0))]) == ((1.0, 3.0), (2.0, 2.0))
    assert mean_line([((1.0, 2.0), (2.0, 1.0)), ((1.0, 4.0),)]) == ((1.0, 2.0), (2.0, 1.0)), "a run that lags is left out, as in the table"
    assert mean_line([]) == () and mean_line([(), ()]) == ()


def line(*gains):
    return tuple((100 * (place + 1), gain) for place, gain in enumerate(gains))


@pytest.mark.parametrize(
    ("ends", "side"), [(250, "inside"), (200, "after"), (150, "after"), (300, "before"), (999, "before"), (None, None)]
)
def test_on_which_side_of_the_first_pass(ends, side):
    found = crossing_of({1: line(-0.2, -0.1, 0.1, 0.2)}, ends)
    assert (found.tokens, found.between, found.side, found.ahead) == (pytest.approx(250), (200, 300), side, True)


def test_the_mean_over_seeds_crosses_and_every_seed_by_itself():
    found = crossing_of({1: line(-0.2, -0.1, 0.3), 2: line(-0.2, 0.1, 0.1), 3: line(0.1, 0.2, 0.3)}, 150)
    assert dict(found.line) == pytest.approx(dict(line(-0.1, 0.2 / 3, 0.7 / 3)))
    assert found.between == (100, 200) and found.side == "inside"
    assert found.by_seed == {1: pytest.approx(225), 2: pytest.approx(100 + 200 / 3), 3: None}
    assert found.record()["by_seed"]["3"] is None and found.record()["points"][0] == [100, pytest.approx(-0.1)]


def test_no_crossing_and_several():
    never = crossing_of({1: line(0.1, 0.0, 0.2)}, 150)
    assert never.tokens is None and never.between is None and never.side is None and never.ahead and never.changes == 0
    often = crossing_of({1: line(-0.1, 0.1, -0.1, 0.1)}, 150)
    assert often.changes == 3 and often.between == (300, 400) and often.side == "after"
    assert crossing_of({1: line(0.1, 0.0)}, 1).ahead is None, "level at the end"
    assert crossing_of({}, 100) is None and crossing_of({1: ()}, 100) is None


@given(st.lists(st.lists(st.floats(-1, 1), min_size=1, max_size=8), min_size=1, max_size=4), st.integers(0, 1000))
def test_a_crossing_is_where_the_mean_line_says(gains, ends):
    lines = {seed: line(*own) for seed, own in enumerate(gains)}
    found = crossing_of(lines, ends)
    assert found.line == mean_line(list(lines.values()))
    assert found.tokens == crossing(*zip(*found.line, strict=True))
    if found.tokens is not None:
        low, high = found.between
        assert low <= found.tokens <= high and (found.side == "inside") == (low < ends < high)
        assert found.ahead is not (dict(found.line)[low] > 0)
