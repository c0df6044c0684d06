"""Points in training, from text to whole steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.errors import StudyError
from ostinato.study.points import MOST_POINTS, measurements, points
from ostinato.study.records import Evaluate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, [1000]),
        ("none", [1000]),
        ("250", [250, 500, 750, 1000]),
        ("every 300", [300, 600, 900, 1000]),
        ("at 100, 200", [100, 200, 1000]),
        ("at 100 and 200", [100, 200, 1000]),
        ("every 500, and every 100 from 200 to 400", [200, 300, 400, 500, 1000]),
        ("every 400 to 500", [400, 1000]),
        ("every 400 from 100", [100, 500, 900, 1000]),
        ("every 500, at 10", [10, 500, 1000]),
        ("at 5k", [1000]),
        ("every 5k", [1000]),
        ("0.5k", [500, 1000]),
    ],
)
def test_all_ways_of_writing(text, expected):
    assert points(text, 1000, 10) == tuple(expected)


def test_dense_around_a_point_at_published_size():
    found = points("every 100M, and every 5M from 150M to 200M", 499_908_608, 131_072)
    assert len(found) == 15
    assert found[-1] == 499_908_608
    assert all(place % 131_072 == 0 for place in found)
    dense = [place for place in found if 149e6 < place < 201e6]
    assert len(dense) == 11
    assert all(abs(place - (150e6 + 5e6 * index)) <= 131_072 / 2 for index, place in enumerate(dense))


@given(st.integers(1, 100), st.integers(1, 90), st.integers(1, 9_000))
def test_every_point_is_a_whole_step_within_the_run_and_the_end_is_one(steps, per_step, every):
    found = points(f"every {every}", steps * per_step, per_step)
    assert found == tuple(sorted(set(found)))
    assert all(place % per_step == 0 and per_step <= place <= steps * per_step for place in found)
    assert found[-1] == steps * per_step
    for multiple in range(every, steps * per_step + 1, every):
        assert min(abs(place - multiple) for place in found) <= max(per_step / 2, per_step - multiple)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("often", "not a number"),
        ("every", "every"),
        ("every 0", "never moves on"),
        ("every 10 to", "every 10 to"),
        ("every 10 from 5 from 6", "same limit twice"),
        ("every 10 to 5 from 1", "every 10 to 5 from 1"),
        ("every 10 from 9 to 8", "ends before"),
        ("at", "one number"),
        ("at 10 20", "one number"),
        ("at -5", "before the start"),
        ("100, 200", "neither"),
        ("1.5", "whole"),
    ],
)
def test_what_cannot_be_read_is_named(text, part):
    with pytest.raises(StudyError, match=part):
        points(text, 1000, 10)


def test_too_many_points_are_refused():
    with pytest.raises(StudyError, match=f"{MOST_POINTS:,}"):
        points("every 1", 10**15, 10)


@given(st.text(alphabet="every atfromkM0123456789,. ", max_size=40))
def test_no_text_does_anything_but_give_points_or_say_why_not(text):
    try:
        assert points(text, 1000, 10)[-1] == 1000
    except StudyError as error:
        assert error.rule
        assert error.fix


def test_the_held_out_part_may_be_measured_at_the_end_only():
    both, one = ("validation", "held_out"), ("validation",)
    assert measurements(Evaluate(every="400"), 1000, 100) == {400: both, 800: both, 1000: both}
    assert measurements(Evaluate(every="400", held_out="end"), 1000, 100) == {400: one, 800: one, 1000: both}
