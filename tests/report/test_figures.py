"""Figures: marks stand where their numbers put them, floors and zero are in view, the best is at the top."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from ostinato.report import figures, gain_figures
from ostinato.report.figures import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Curve
from ostinato.report.gain_figures import Gain
from ostinato.report.looks import looks

LOOKS = looks(["plain", "twice", "deep"], "plain")
SVG = "{http://www.w3.org/2000/svg}"


def texts(drawn):
    return [element.text for element in ElementTree.fromstring(drawn).iter(SVG + "text")]


def lines(drawn, kind):
    return [element for element in ElementTree.fromstring(drawn).iter(SVG + "line") if kind in element.get("class").split()]


def paths(drawn, kind):
    found = []
    for element in ElementTree.fromstring(drawn).iter(SVG + "path"):
        if kind in element.get("class"):
            points = [tuple(map(float, pair)) for pair in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", element.get("d"))]
            found.append((element.find(SVG + "title").text if element.find(SVG + "title") is not None else None, points))
    return found


def drawn(curves, **more):
    return figures.curves("f", "t", "d", curves, x_label="tokens", y_label="nats", **more)


def test_a_curve_goes_through_its_points():
    curve = Curve("twice", LOOKS["twice"], ((0.0, 4.0), (100.0, 3.0)))
    ((title, points),) = paths(drawn([curve]), "line k1")
    assert title == "twice: 3.0000 at the end"
    (x0, y0), (x1, y1) = points
    assert x0 == LEFT and x1 == pytest.approx(LEFT + (WIDTH - RIGHT - LEFT) / 1.02, abs=0.01)
    assert TOP < y0 < y1 < HEIGHT - BOTTOM, "a smaller loss is lower"


def test_seeds_are_drawn_thin_and_only_when_there_are_several():
    seeds = (((0.0, 4.0), (100.0, 3.1)), ((0.0, 4.0), (100.0, 2.9)))
    mean = ((0.0, 4.0), (100.0, 3.0))
    assert len(paths(drawn([Curve("twice", LOOKS["twice"], mean, seeds)]), "thin")) == 2
    assert len(paths(drawn([Curve("twice", LOOKS["twice"], mean, seeds[:1])]), "thin")) == 0


def test_floors_in_range_are_lines_and_those_above_are_named():
    curve = Curve("plain", LOOKS["plain"], ((0.0, 4.0), (100.0, 3.0)))
    picture = drawn([curve], floors=(("unigram", 5.336), ("bigram", 3.614)), top=4.2)
    assert len(lines(picture, "floor")) == 1
    assert "bigram" in texts(picture) and "↑ unigram 5.34" in texts(picture)
    assert len(lines(drawn([curve], floors=(("unigram", 5.336),)), "floor")) == 1, "without a cut every floor is in view"


def test_what_is_above_the_cut_is_not_drawn_at_the_edge():
    curve = Curve("plain", LOOKS["plain"], ((1.0, 9.0), (50.0, 4.0), (100.0, 3.0)))
    ((_, points),) = paths(drawn([curve], top=4.2, markers=False), "line k0")
    assert len(points) == 2


def test_gains_have_their_zero_in_view_named_after_the_reference():
    curve = Curve("twice", LOOKS["twice"], ((10.0, 0.04), (100.0, 0.05)))
    picture = drawn([curve], zero="plain")
    (zero,) = lines(picture, "zero")
    assert TOP <= float(zero.get("y1")) <= HEIGHT - BOTTOM
    assert "plain" in texts(picture) and "+0.04" in texts(picture)


def test_nothing_to_draw_is_nothing():
    assert drawn([]) == "" and drawn([Curve("plain", LOOKS["plain"], ())]) == ""
    assert gain_figures.forest("f", "t", "d", [], reference="plain", unit="nats") == ""
    assert gain_figures.against_cost("f", "t", "d", [], reference="plain", unit="nats") == ""


@pytest.mark.parametrize("points", [((5.0, 3.0),), ((5.0, 3.0), (5.0, 3.0)), ((1.0, 0.0), (2.0, 0.0))])
@pytest.mark.parametrize("log_x", [False, True])
def test_degenerate_curves_still_draw(points, log_x):
    picture = drawn([Curve("plain", LOOKS["plain"], points)], log_x=log_x)
    assert "nan" not in picture and "inf" not in picture
    ElementTree.fromstring(picture)


GAINS = [
    Gain("twice", LOOKS["twice"], 0.05, 0.04, 0.06, (0.049, 0.051), 1.9, True),
    Gain("deep", LOOKS["deep"], 0.07, 0.06, 0.08, (0.07,), 1.9, False),
]


def test_forest_best_at_the_top_with_interval_and_seeds():
    picture = gain_figures.forest("f", "t", "d", GAINS, reference="plain", unit="nats", noise=0.004)
    root = ElementTree.fromstring(picture)
    at = {element.text: float(element.get("y")) for element in root.iter(SVG + "text") if element.text in ("twice", "deep")}
    assert at["deep"] < at["twice"]
    assert len(lines(picture, "interval")) == 6, "a bar and two ends each"
    assert len(paths(picture, "hollow")) == 2, "two seeds of twice; the one of deep is its gain"
    assert "deep: +0.0700 [+0.0600 to +0.0800]" in [title for title, _ in paths(picture, "dot")]
    assert next(root.iter(SVG + "rect")).find(SVG + "title").text == "seeds of plain differ by 0.0040"
    bars = [line for line in lines(picture, "interval") if line.get("y1") == line.get("y2")]
    assert all(float(bar.get("x1")) < float(bar.get("x2")) for bar in bars)


def test_forest_without_intervals_or_noise():
    picture = gain_figures.forest(
        "f", "t", "d", [Gain("twice", LOOKS["twice"], -0.05, None, None, (-0.05,))], reference="plain", unit="nats"
    )
    assert not lines(picture, "interval") and "rect" not in picture
    assert "← worse" in texts(picture) and "better →" not in texts(picture)


def test_cost_tells_equal_parameters_from_others_by_fill():
    picture = gain_figures.against_cost("f", "t", "d", GAINS, reference="plain", unit="nats")
    kinds = {element.find(SVG + "title").text: element.get("class") for element in ElementTree.fromstring(picture).iter(SVG + "path")
             if element.find(SVG + "title") is not None}  # fmt: skip
    assert "paper" not in next(kind for title, kind in kinds.items() if title.startswith("twice"))
    assert "paper" in next(kind for title, kind in kinds.items() if title.startswith("deep"))
    assert "plain: the reference" in kinds


def test_thinning_keeps_the_mean_and_the_end():
    points = [(float(step), float(step % 7)) for step in range(1, 1001)]
    thin = figures.thinned(points, 100)
    assert len(thin) == 100 and thin[-1][0] == 1000.0
    assert sum(y for _, y in thin) / 100 == pytest.approx(sum(y for _, y in points) / 1000)
    assert figures.thinned(points[:50], 100) == tuple(points[:50])
