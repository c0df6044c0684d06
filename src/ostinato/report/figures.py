"""Curves of every arm against tokens or FLOPs, and the frame that they share with the figures of gains (`gain_figures.py`).

Each figure takes plain numbers and returns one inline SVG; the classes are styled in templates/page.css.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ostinato.report import numbers
from ostinato.report.looks import Look
from ostinato.report.svg import Canvas, Scale, decimals, log_ticks, padded, spread, ticks

WIDTH, HEIGHT = 560.0, 360.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 112.0, 26.0, 44.0
EDGE, BASE = WIDTH - RIGHT, HEIGHT - BOTTOM  # where lines end, where the x axis stands
LABEL_GAP = 14.0
MAX_LABEL = 15

Point = tuple[float, float]
Label = tuple[str, float, str, Look | None, float]  # text, wished y, classes, marker, where its line ends


@dataclass(frozen=True)
class Curve:
    """One arm's course: the mean over its seeds, and each seed alone (drawn thin when there are several)."""

    arm: str
    look: Look
    mean: tuple[Point, ...]
    seeds: tuple[tuple[Point, ...], ...] = ()


def short(text: str, most: int = MAX_LABEL) -> str:
    """A name cut to fit beside a line; the whole one is in the title of the mark."""
    return text if len(text) <= most else text[: most - 1] + "…"


def y_axis(canvas: Canvas, scale: Scale, label: str, left: float, right: float, form: Callable[[float, int], str]) -> None:
    """Grid lines from left to right with their values, and the label at the top."""
    values = ticks(scale.low, scale.high)
    digits = decimals(values)
    for value in values:
        y = scale(value)
        canvas.line(left, y, right, y, "grid")
        canvas.text(left - 8, y + 4, form(value, digits), "t num", "end")
    canvas.text(0, 12, label, "t axis-name")


def x_axis(canvas: Canvas, scale: Scale, label: str, bottom: float, form: Callable[[float], str]) -> None:
    """A line with its values, and the label below."""
    values = log_ticks(scale.low, scale.high) if scale.log else ticks(scale.low, scale.high, 6)
    if scale.log and len(values) < 2:
        values = ticks(scale.low, scale.high, 4)
    canvas.line(scale.start, bottom, scale.end, bottom, "axis")
    for value in values:
        canvas.line(scale(value), bottom, scale(value), bottom + 4, "axis")
        canvas.text(scale(value), bottom + 18, form(value), "t num", "middle")
    canvas.text((scale.start + scale.end) / 2, bottom + 36, label, "t axis-name", "middle")


def curves(
    name: str,
    title: str,
    description: str,
    lines: list[Curve],
    *,
    x_label: str,
    y_label: str,
    floors: tuple[tuple[str, float], ...] = (),
    marks: tuple[tuple[str, float], ...] = (),
    log_x: bool = False,
    zero: str = "",
    top: float | None = None,
    markers: bool = True,
) -> str:
    """Curves of every arm with their names at the right end.

    floors: horizontal lines (name, value); marks: vertical ones (name, x); zero: the name of the line y = 0, which is then in view;
    top: cut the y axis here (a loss begins far above where it is interesting); floors above it are named at the top.
    Returns "" when there is nothing to draw.
    """
    lines = [line for line in lines if line.mean]
    if not lines:
        return ""
    x, y = _scales(lines, floors, bool(zero), top, log_x)
    form = numbers.signed if zero else numbers.fixed
    canvas = Canvas(WIDTH, HEIGHT)
    y_axis(canvas, y, y_label, LEFT, EDGE, form)
    x_axis(canvas, x, x_label, BASE, numbers.tick)
    labels: list[Label] = []
    if zero:
        canvas.line(LEFT, y(0), EDGE, y(0), "zero")
        labels.append((zero, y(0), "t tag f0", None, EDGE))
    for place, (label, at) in enumerate((label, at) for label, at in marks if x.low < at < x.high):
        canvas.line(x(at), TOP, x(at), BASE, "mark")
        right = x(at) > (LEFT + EDGE) / 2  # the text stands on the side where there is room
        row = TOP + 10 + 13 * place if _free_above(lines, x, y, x(at), right) else BASE - 6 - 13 * place
        canvas.text(x(at) - 4 if right else x(at) + 4, row, label, "t small", "end" if right else "start")
    labels += [_floor(canvas, y, label, value) for label, value in floors]
    quiet = [line for line in lines if line.look.colour is None]
    for line in quiet + [line for line in lines if line.look.colour is not None]:
        labels += _curve(canvas, x, y, line, form, markers)
    _labels(canvas, labels)
    return canvas.render(name, title, description)


def _scales(lines: list[Curve], floors: tuple[tuple[str, float], ...], zero: bool, top: float | None, log_x: bool) -> tuple[Scale, Scale]:
    """What of the plane is shown: every point up to `top`, and the floors below it."""
    everything = [point for line in lines for course in (line.mean, *line.seeds) for point in course]
    heights = [y for _, y in everything] + ([0.0] if zero else [])
    if top is not None:
        heights = [min(height, top) for height in heights]
    heights += [value for _, value in floors if top is None or value <= top]
    low, high = padded(heights, 0.06, 0.005)
    xs = [x for x, _ in everything]
    left, right = (min(xs) * 0.94, max(xs) * 1.04) if log_x else (min(0.0, min(xs)), max(xs) * 1.02)
    if left == right:
        right = left + 1
    return Scale(left, right, LEFT, EDGE, log_x), Scale(low, high, BASE, TOP)


def _free_above(lines: list[Curve], x: Scale, y: Scale, at: float, left: bool) -> bool:
    """Whether the text of a mark crosses fewer points at the top than at the bottom: it is about 130 wide and 30 high."""
    near = [y(py) for line in lines for px, py in line.mean if 0 <= (at - x(px) if left else x(px) - at) <= 130 and py <= y.high]
    return sum(one < TOP + 30 for one in near) < sum(one > BASE - 30 for one in near)


def _floor(canvas: Canvas, y: Scale, label: str, value: float) -> Label:
    """A horizontal line and its label, or a label at the top for a floor that is out of view."""
    if not y.low <= value <= y.high:
        return f"↑ {label} {numbers.fixed(value, 2)}", TOP + 4, "t tag muted", None, EDGE
    canvas.line(LEFT, y(value), EDGE, y(value), "floor")
    return label, y(value), "t tag muted", None, EDGE


def _curve(canvas: Canvas, x: Scale, y: Scale, line: Curve, form: Callable[[float], str], markers: bool) -> list[Label]:
    """One arm: its seeds thin, its mean, its markers; and its label, if it has a colour of its own."""

    def place(course: tuple[Point, ...]) -> list[Point]:
        return [(x(px), y(py)) for px, py in course if py <= y.high]

    end, look = form(line.mean[-1][1]), line.look
    if len(line.seeds) > 1 and look.colour is not None:
        for course in line.seeds:
            canvas.path(place(course), look.seed_line)
    canvas.path(place(line.mean), look.line, f"{line.arm}: {end} at the end")
    if look.colour is None:
        if len(line.mean) == 1:
            canvas.marker("circle", x(line.mean[0][0]), y(min(line.mean[0][1], y.high)), 2.2, look.dot, f"{line.arm}: {end}")
        return []
    for px, py in line.mean if markers and len(line.mean) <= 24 else line.mean[-1:]:
        if py <= y.high:
            canvas.marker(look.marker, x(px), y(py), 3.4, look.dot, f"{line.arm}: {form(py)} at {numbers.human(px)}")
    return [(line.arm, y(min(line.mean[-1][1], y.high)), f"t tag f{look.colour}", look, x(line.mean[-1][0]))]


def _labels(canvas: Canvas, labels: list[Label]) -> None:
    """The names at the right end, moved apart, with a leader where one stands far from its line."""
    placed = spread([label[1] for label in labels], LABEL_GAP, TOP + 4, BASE)
    for (label, at, kind, look, end), put in zip(labels, placed, strict=True):
        if abs(put - at) > 3 and EDGE - end < 24:
            canvas.line(max(end, EDGE) + 4, at, EDGE + 9, put, "leader")
        if look:
            canvas.marker(look.marker, EDGE + 15, put, 3.2, look.dot)
        canvas.text(EDGE + (22 if look else 10), put + 4, short(label), kind)


def thinned(points: list[Point], most: int = 120) -> tuple[Point, ...]:
    """At most `most` points, each the mean of neighbours of equal number (a training curve of thousands of steps)."""
    if len(points) <= most:
        return tuple(points)
    size = math.ceil(len(points) / most)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return tuple((group[-1][0], math.fsum(y for _, y in group) / len(group)) for group in groups)
