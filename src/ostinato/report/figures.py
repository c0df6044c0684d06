"""The figures of a report: curves against tokens or FLOPs, a forest of gains, gain against cost.

Each takes plain numbers and returns one inline SVG; the classes are styled in templates/page.css.
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
LABEL_GAP = 14.0
MAX_LABEL = 15

Point = tuple[float, float]


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


def _y_axis(canvas: Canvas, scale: Scale, label: str, left: float, right: float, form: Callable[[float, int], str]) -> None:
    values = ticks(scale.low, scale.high)
    digits = decimals(values)
    for value in values:
        y = scale(value)
        canvas.line(left, y, right, y, "grid")
        canvas.text(left - 8, y + 4, form(value, digits), "t num", "end")
    canvas.text(0, 12, label, "t axis-name")


def _x_axis(canvas: Canvas, scale: Scale, label: str, top: float, bottom: float, form: Callable[[float], str]) -> None:
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
    x = Scale(left, right, LEFT, WIDTH - RIGHT, log_x)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP)
    canvas = Canvas(WIDTH, HEIGHT)
    _y_axis(canvas, y, y_label, LEFT, WIDTH - RIGHT, numbers.signed if zero else numbers.fixed)
    _x_axis(canvas, x, x_label, TOP, HEIGHT - BOTTOM, numbers.tick)
    if zero:
        canvas.line(LEFT, y(0), WIDTH - RIGHT, y(0), "zero")
    for label, at in marks:
        if left < at < right:
            canvas.line(x(at), TOP, x(at), HEIGHT - BOTTOM, "mark")
            canvas.text(x(at) + 4, HEIGHT - BOTTOM - 6, label, "t small")
    labels: list[tuple[str, float, str, Look | None, float]] = []  # text, wished y, classes, marker, where the line ends
    edge = WIDTH - RIGHT
    if zero:
        labels.append((zero, y(0), "t tag f0", None, edge))
    for label, value in floors:
        if low <= value <= high:
            canvas.line(LEFT, y(value), WIDTH - RIGHT, y(value), "floor")
            labels.append((label, y(value), "t tag muted", None, edge))
        else:
            labels.append((f"↑ {label} {numbers.fixed(value, 2)}", TOP + 4, "t tag muted", None, edge))
    quiet = [line for line in lines if line.look.colour is None]
    for line in quiet + [line for line in lines if line.look.colour is not None]:
        end = numbers.signed(line.mean[-1][1]) if zero else numbers.fixed(line.mean[-1][1])

        def place(course: tuple[Point, ...]) -> list[Point]:
            return [(x(px), y(py)) for px, py in course if py <= high]

        if len(line.seeds) > 1 and line.look.colour is not None:
            for course in line.seeds:
                canvas.path(place(course), line.look.seed_line)
        canvas.path(place(line.mean), line.look.line, f"{line.arm}: {end} at the end")
        if line.look.colour is not None:
            shown = line.mean if markers and len(line.mean) <= 24 else line.mean[-1:]
            for px, py in shown:
                value = numbers.signed(py) if zero else numbers.fixed(py)
                if py <= high:
                    canvas.marker(line.look.marker, x(px), y(py), 3.4, line.look.dot, f"{line.arm}: {value} at {numbers.human(px)}")
            labels.append((line.arm, y(min(line.mean[-1][1], high)), f"t tag f{line.look.colour}", line.look, x(line.mean[-1][0])))
        elif len(line.mean) == 1:
            canvas.marker("circle", x(line.mean[0][0]), y(min(line.mean[0][1], high)), 2.2, line.look.dot, f"{line.arm}: {end}")
    placed = spread([label[1] for label in labels], LABEL_GAP, TOP + 4, HEIGHT - BOTTOM)
    for (label, at, kind, look, end), put in zip(labels, placed, strict=True):
        if abs(put - at) > 3 and edge - end < 24:
            canvas.line(max(end, edge) + 4, at, edge + 9, put, "leader")
        if look:
            canvas.marker(look.marker, edge + 15, put, 3.2, look.dot)
        canvas.text(edge + (22 if look else 10), put + 4, short(label), kind)
    return canvas.render(name, title, description)


@dataclass(frozen=True)
class Gain:
    """One arm's gain over the reference: interval over documents, gains of single seeds, cost, all in the report's unit."""

    arm: str
    look: Look
    gain: float
    low: float | None
    high: float | None
    seeds: tuple[float, ...]
    cost: float | None = None
    same_parameters: bool = False
    note: str = ""


def forest(name: str, title: str, description: str, gains: list[Gain], *, reference: str, unit: str, noise: float | None = None) -> str:
    """A row an arm, best at the top: the gain, its interval over documents as a bar, each seed as an open dot, the number at the right.

    noise: how far seeds of the reference lie apart, shaded around zero.
    """
    if not gains:
        return ""
    rows = sorted(gains, key=lambda row: -row.gain)
    row_height, top, bottom, left, right = 30.0 if len(rows) <= 12 else 22.0, 30.0, 46.0, 118.0, 64.0
    width, height = WIDTH, top + row_height * len(rows) + bottom
    values = [v for row in rows for v in (row.gain, row.low, row.high, *row.seeds) if v is not None] + [0.0]
    if noise is not None:
        values += [-noise, noise]
    low, high = padded(values, 0.06, 0.001)
    x = Scale(low, high, left, width - right)
    canvas = Canvas(width, height)
    floor = top + row_height * len(rows)
    if noise:
        canvas.rect(x(-noise), top, x(noise) - x(-noise), floor - top, "band", f"seeds of {reference} differ by {numbers.fixed(noise)}")
    values_shown = ticks(low, high, 5)
    for value in values_shown:
        canvas.line(x(value), top, x(value), floor, "grid")
        canvas.text(x(value), floor + 18, numbers.signed(value, decimals(values_shown)), "t num", "middle")
    canvas.text((left + width - right) / 2, floor + 38, f"gain over {short(reference, 24)}, {unit}", "t axis-name", "middle")
    canvas.line(x(0), top - 6, x(0), floor, "zero")
    if x(0) - left > 60:
        canvas.text(x(0) - 8, 14, "← worse", "t small", "end")
    if width - right - x(0) > 60:
        canvas.text(x(0) + 8, 14, "better →", "t small")
    for index, row in enumerate(rows):
        y = top + row_height * (index + 0.5)
        said = f"{numbers.signed(row.gain)}" + (f" [{numbers.signed(row.low)}, {numbers.signed(row.high)}]" if row.low is not None else "")
        canvas.text(0, y + 4, short(row.arm, 17), f"t tag f{row.look.colour}" if row.look.colour is not None else "t")
        if row.low is not None and row.high is not None:
            canvas.line(x(row.low), y, x(row.high), y, f"interval {row.look.seed_line}")
            for end in (row.low, row.high):
                canvas.line(x(end), y - 4, x(end), y + 4, f"interval {row.look.seed_line}")
        for value in row.seeds if len(row.seeds) > 1 else ():
            canvas.marker("circle", x(value), y, 3.2, row.look.hollow, f"{row.arm}, one seed: {numbers.signed(value)}")
        canvas.marker(row.look.marker, x(row.gain), y, 4.6, row.look.dot, f"{row.arm}: {said}")
        canvas.text(width, y + 4, numbers.signed(row.gain), "t num", "end")
    return canvas.render(name, title, description)


def against_cost(name: str, title: str, description: str, gains: list[Gain], *, reference: str, unit: str) -> str:
    """Gain against training FLOPs as multiples of the reference's; filled where the parameters are as many as the reference's."""
    rows = [row for row in gains if row.cost is not None]
    if not rows:
        return ""
    costs = [row.cost for row in rows if row.cost] + [1.0]
    left_cost, right_cost = min(costs), max(costs)
    room = max((right_cost - left_cost) * 0.06, 0.05)
    x = Scale(left_cost - room, right_cost + room, LEFT, WIDTH - RIGHT)
    heights = [v for row in rows for v in (row.gain, row.low, row.high) if v is not None] + [0.0]
    low, high = padded(heights, 0.08, 0.001)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP)
    canvas = Canvas(WIDTH, HEIGHT)
    _y_axis(canvas, y, f"gain, {unit}", LEFT, WIDTH - RIGHT, numbers.signed)
    _x_axis(canvas, x, f"training FLOPs, times those of {short(reference, 20)}", TOP, HEIGHT - BOTTOM, lambda v: f"{v:g}×")
    canvas.line(LEFT, y(0), WIDTH - RIGHT, y(0), "zero")
    canvas.marker("circle", x(1.0), y(0.0), 4.6, "dot f0", f"{reference}: the reference")
    labels = [(reference, x(1.0), y(0.0), "t tag f0")]
    for row in rows:
        px, py = x(row.cost or 0), y(row.gain)
        if row.low is not None and row.high is not None:
            canvas.line(px, y(row.low), px, y(row.high), f"interval {row.look.seed_line}")
        kind = row.look.dot if row.same_parameters else row.look.hollow + " paper"
        owned = "as many parameters" if row.same_parameters else "another number of parameters"
        said = f"{row.arm}: {numbers.signed(row.gain)} at {numbers.times(row.cost)}, {owned}"
        canvas.marker(row.look.marker, px, py, 5, kind, said)
        if row.look.colour is not None:
            labels.append((row.arm, px, py, f"t tag f{row.look.colour}"))
    for column in _columns(labels):
        for (label, px, py, kind), put in zip(column, spread([at for _, _, at, _ in column], LABEL_GAP, TOP, HEIGHT - BOTTOM), strict=True):
            if abs(put - py) > 5:
                canvas.line(px + 6, py, px + 12, put, "leader")
            canvas.text(px + 14, put + (4 if abs(put - y(0)) > 6 or py != y(0) else -6), short(label), kind)
    return canvas.render(name, title, description)


def _columns(labels: list[tuple[str, float, float, str]]) -> list[list[tuple[str, float, float, str]]]:
    """Labels whose text would run into one another, grouped so that they can be spread apart downward."""
    columns: list[list[tuple[str, float, float, str]]] = []
    for label in sorted(labels, key=lambda one: one[1]):
        if columns and label[1] - columns[-1][-1][1] < 90:
            columns[-1].append(label)
        else:
            columns.append([label])
    return columns


def thinned(points: list[Point], most: int = 120) -> tuple[Point, ...]:
    """At most `most` points, each the mean of neighbours of equal number (a training curve of thousands of steps)."""
    if len(points) <= most:
        return tuple(points)
    size = math.ceil(len(points) / most)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return tuple((group[-1][0], math.fsum(y for _, y in group) / len(group)) for group in groups)
