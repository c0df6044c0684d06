"""The drawings say all that the schedule says: each can be read back to the applications it shows."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.schedule import draw_svg, draw_text, parse
from ostinato.schedule.application import number

SVG = "{http://www.w3.org/2000/svg}"
PARTS = {"█": "both", "▀": "attn", "▄": "mlp"}
schedules = st.lists(st.tuples(st.integers(1, 20), st.sampled_from(["both", "attn", "mlp"])), min_size=1, max_size=30).map(number)


def text(schedule, layers, ties=None, inject="none", kinds=None):
    return draw_text(parse(schedule, layers).applications(), layers, kinds or ("gqa",) * layers, ties or {}, inject)


def svg(schedule, layers, ties=None, inject="none", kinds=None):
    return ET.fromstring(draw_svg(parse(schedule, layers).applications(), layers, kinds or ("gqa",) * layers, ties or {}, inject))


def said(root):
    return [element.text for element in root.iter(f"{SVG}text")]


def test_text_of_a_partial_second_pass_with_injection_and_a_tie():
    assert text("1..4 1..4:attn", 4, {(4, "attn"): 1}, "add", ("gqa", "gqa", "gqa", "gdn")) == "\n".join(
        [
            "layer                1    2    3    4",
            "kind               gqa  gqa  gqa  gdn",
            "attn of                             1",
            "application 1–4     █1───█1───█1───█1",
            "application 5–8    +▀2───▀2───▀2───▀2",
            "",
            "█ layer · ▀ attention only · digit after it: which pass · + input added again · of: the layer whose sublayer this is",
        ]
    )


def test_a_linear_injection_stands_at_every_pass_of_a_repeated_group():
    assert text("1 (2..3)x2 4", 4, inject="linear").splitlines() == [
        "layer                1    2    3    4", "application 1–3     █1──+█1───█1", "application 4–6         +█2───█2───█1", "",
        "█ layer · digit after it: which pass · + linear of input and state",
    ]  # fmt: skip
    root = svg("1 (2..3)x2 4", 4, inject="linear")
    assert "linear of input and state" in said(root) and "begins with a linear map" in root.find(f"{SVG}desc").text
    assert "+" not in text("1..4 1..2", 4, inject="linear"), "nothing runs again right after itself"


def test_text_of_a_reuse_map_with_a_layer_that_never_runs():
    assert text("1x2 2:mlp", 3).splitlines() == [
        "layer                1    2    3", "application 1       █1", "application 2–3     █2───▄1", "",
        "█ layer · ▄ MLP only · digit after it: which pass", "never run: layer 3",
    ]  # fmt: skip


def test_paint_changes_no_place():
    plain = text("1..3 1..3", 3)
    painted = draw_text(parse("1..3 1..3", 3).applications(), 3, ("gqa",) * 3, {}, paint=lambda cell, pass_: f"<{pass_}>{cell}</>")
    assert painted.count("<1>") == painted.count("<2>") == 3 and re.sub("<.*?>", "", painted) == plain


@given(schedules, st.booleans())
def test_text_can_be_read_back(applications, injects):
    lines = draw_text(applications, 20, ("gqa",) * 20, {}, "add" if injects else "none").splitlines()
    header = lines[0]
    columns = {match.end(): int(match[0]) for match in re.finditer(r"\d+", header)}
    read = []
    for line in lines[1 : lines.index("")]:
        for match in re.finditer(r"(\+?)([█▀▄])(\d+)", line):
            read.append((columns[match.end()], PARTS[match[2]], int(match[3]), match[1] == "+"))
    assert read == [(a.layer, a.part, a.pass_, injects and a.enters_pass) for a in applications]


@given(schedules)
def test_svg_can_be_read_back(applications):
    root = ET.fromstring(draw_svg(applications, 20, ("gqa",) * 20, {}))
    marks = []
    for group in root.iter(f"{SVG}g"):
        title = group.find(f"{SVG}title")
        if title is not None:
            halves = [path for path in group.findall(f"{SVG}path")]
            places = [[float(value) for value in re.findall(r"M([\d.]+) ([\d.]+)", path.get("d"))[0]] for path in halves]
            runs = tuple(part for part, path in zip(("attn", "mlp"), halves, strict=True) if path.get("fill") != "none")
            marks.append((title.text, places[0][1], runs))
    marks.sort(key=lambda mark: mark[1])
    assert len(marks) == len(applications)
    for application, (title, _, runs) in zip(applications, marks, strict=True):
        assert title.startswith(f"application {application.index + 1}: layer {application.layer}, pass {application.pass_}")
        assert runs == application.sublayers
    assert " ".join(map(str, applications)) in root.find(f"{SVG}desc").text


def test_passes_differ_in_colour_outline_and_number():
    root = svg("1x4", 1)
    groups = [group for group in root.iter(f"{SVG}g") if group.find(f"{SVG}title") is not None]
    paths = [group.find(f"{SVG}path").get("d") for group in groups]
    assert len({(re.sub(r"[-\d. ]+", "", path), path.split()[0]) for path in paths}) == 4  # the letters of the outline, and where it begins
    assert len({group.get("fill") for group in root.iter(f"{SVG}g") if "--pass-" in group.get("style", "")}) == 4
    assert [group.find(f"{SVG}text").text for group in groups] == ["1", "2", "3", "4"]
    assert {"pass 1", "pass 2", "pass 3", "pass 4"} <= set(said(root))


def test_ties_kinds_injection_and_idle_layers_are_visible():
    plain = svg("1..3 1..3", 4)
    assert not {"attention of", "of another layer", "input added again", "gdn"} & set(said(plain))
    full = svg("1..3 1..3", 4, {(3, "attn"): 1, (2, "mlp"): 1}, "add", ("gqa", "gdn", "gqa", "gqa"))
    assert {"attention of", "MLP of", "of another layer", "input added again", "gdn", "gqa"} <= set(said(full))
    stripes = [path for path in full.iter(f"{SVG}path") if path.get("stroke") == "#fff"]
    assert len(stripes) == 2 * 2 + 2  # two tied sublayers, applied twice, and the legend
    assert len([path for path in full.iter(f"{SVG}path") if path.get("stroke-dasharray") == "1 3"]) == 1  # layer 4 never runs
    assert "3:attn is that of layer 1" in full.find(f"{SVG}desc").text and "added again" in full.find(f"{SVG}desc").text


@pytest.mark.parametrize(
    ("schedule", "layers", "height"), [("1", 1, 70), ("1..8 1..8", 8, 380), ("(1..8)x6", 8, 550), ("(1..24)x4", 24, 560)]
)
def test_it_fits_a_page(schedule, layers, height):
    root = svg(schedule, layers, inject="add")
    left, top, width, tall = map(float, root.get("viewBox").split())
    assert (left, top) == (0, 0) and tall <= height and width <= 700
    for path in root.iter(f"{SVG}path"):
        for x, y in re.findall(r"M(-?[\d.]+) (-?[\d.]+)", path.get("d")):
            assert 0 <= float(x) <= width and -10 <= float(y) <= tall


def test_it_is_accessible_self_contained_and_always_the_same():
    picture = draw_svg(parse("1..4 1..4", 4).applications(), 4, ("gqa",) * 4, {})
    root = ET.fromstring(picture)
    assert root.get("role") == "img" and root.find(f"{SVG}title").text == "Schedule of 8 applications of 4 layers, effective depth 8"
    assert "currentColor" in picture and "href" not in picture and " id=" not in picture and "<style" not in picture
    assert picture == draw_svg(parse("1..4 1..4", 4).applications(), 4, ("gqa",) * 4, {})


def test_the_longest_schedule_can_be_drawn():
    root = svg("(1..4)x1024", 4)
    assert float(root.get("viewBox").split()[3]) < 4300
