"""Scales, ticks and labels: where things are drawn."""

from __future__ import annotations

import itertools
import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.report import svg
from ostinato.report.looks import COLOURS, looks


def test_scale_maps_ends_to_ends_and_logs_evenly():
    assert svg.Scale(0, 10, 50, 150)(5) == 100
    assert svg.Scale(1, 100, 0, 10, log=True)(10) == pytest.approx(5)
    assert svg.Scale(0, 1, 300, 0)(0) == 300, "y runs downward"


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_round_few_and_inside(low, span):
    high = low + span
    if not high > low or span < 1e-9 * max(abs(low), abs(high)):
        return
    found = svg.ticks(low, high)
    step = svg.nice_step(span, 5)
    assert 2 <= len(found) <= 11 or step >= span / 2
    assert all(low - 1e-6 * step - 1e-9 * abs(low) <= tick <= high + 1e-6 * step + 1e-9 * abs(high) for tick in found)
    mantissa = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert round(mantissa, 6) in (1, 2, 5)


@given(st.floats(1, 1e12), st.floats(1.5, 1e6))
def test_log_ticks_are_inside(low, factor):
    found = svg.log_ticks(low, low * factor)
    assert all(low * 0.99 <= tick <= low * factor * 1.01 for tick in found)
    assert len(found) <= 8


@given(st.lists(st.floats(0, 300), min_size=1, max_size=20))
def test_labels_are_apart_in_order_and_inside(wanted):
    placed = svg.spread(wanted, 14, 0, 300)
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    at = [placed[index] for index in order]
    assert all(after - before >= 14 - 1e-6 for before, after in itertools.pairwise(at))
    assert at[0] >= -1e-6 and at[-1] <= 300 + 1e-6
    if all(abs(a - b) >= 14 for a, b in itertools.pairwise(sorted(wanted))):
        assert placed == pytest.approx(wanted), "labels with room stay where they belong"


def test_more_labels_than_room_keep_their_gap():
    placed = svg.spread([10.0] * 5, 14, 0, 30)
    assert sorted(placed) == placed and placed[1] - placed[0] == pytest.approx(14)


@pytest.mark.parametrize("kind", svg.MARKERS)
def test_markers_are_closed_and_near_their_place(kind):
    path = svg.marker_path(kind, 100, 50, 4)
    assert path.startswith("M") and path.endswith("Z")
    if kind != "circle":
        points = [tuple(map(float, point.split())) for point in path[1:-1].split("L")]
        assert all(abs(x - 100) < 6 and abs(y - 50) < 6 for x, y in points)


def test_text_is_escaped_everywhere():
    canvas = svg.Canvas(10, 10)
    canvas.text(1, 1, "<b>&")
    canvas.path([(0, 0), (1, 1)], "line", "<i>")
    canvas.marker("circle", 1, 1, 1, "dot", "</svg>")
    canvas.rect(0, 0, 1, 1, "band", "<title>")
    drawn = canvas.render("x", "<script>", '"&"')
    assert ElementTree.fromstring(drawn) is not None
    assert "<script>" not in drawn and "<b>" not in drawn


def test_no_two_looks_are_alike_and_none_by_colour_alone():
    names = ["ref", *[f"arm{index}" for index in range(COLOURS)]]
    found = looks(names, "ref")
    assert len({(look.colour, look.marker, look.dash) for look in found.values()}) == len(names)
    assert len({(look.marker, look.dash) for look in found.values()}) == len(names), "told apart without colour too"
    assert found["ref"].colour == 0
    many = looks(["ref", *map(str, range(40))], "ref", ["3", "39", "7"])
    assert [name for name, look in many.items() if look.colour is not None] == ["ref", "3", "7", "39"]
