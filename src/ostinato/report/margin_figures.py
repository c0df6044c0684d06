"""The margins of a verdict: how far each comparison is from its border, with what documents, seeds and stated noise leave open."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ostinato.judge.verdicts import Clause
from ostinato.report import numbers
from ostinato.report.figures import WIDTH
from ostinato.report.svg import Canvas, Scale, decimals, padded, ticks
from ostinato.report.verdict_words import number

LETTERS = 72  # of a comparison above its line; the table beside the figure has all of it
FURTHEST = 8.0  # an interval is cut where it leaves this many times the other extents, so that those can be seen
ROW, TOP, AXIS, LEFT, RIGHT = 50.0, 22.0, 44.0, 8.0, 84.0


def margins(name: str, title: str, clauses: Sequence[Clause]) -> str:
    """A line a comparison, those of one unit on one axis: right of 0 it holds.  Filled: clear; hollow: within noise.

    Through the mark the interval over documents, below it that over seeds with each seed as a dot. "" where nothing has a margin.
    """
    drawn = [one for one in clauses if one.margin is not None and math.isfinite(one.margin)]
    groups = {unit: [one for one in drawn if one.unit == unit] for unit in dict.fromkeys(one.unit for one in drawn)}
    if not groups:
        return ""
    canvas = Canvas(WIDTH, sum(TOP + ROW * len(group) + AXIS for group in groups.values()))
    top = 0.0
    for unit, group in groups.items():
        _panel(canvas, group, unit, top + TOP)
        top += TOP + ROW * len(group) + AXIS
    return canvas.render(name, title, "; ".join(_said(one) for one in drawn))


def signed(margin: float | None) -> str:
    """A margin with its sign, in the digits of a measured number."""
    return ("+" if margin is not None and margin > 0 else "") + number(margin)


def _tick(value: float, digits: int) -> str:
    return numbers.tick(value) if abs(value) >= 10_000 else numbers.signed(value, digits)


def _panel(canvas: Canvas, clauses: Sequence[Clause], unit: str, top: float) -> None:
    x, floor = _scale(clauses), top + ROW * len(clauses)
    shown = ticks(x.low, x.high, 5)
    for value in shown:
        canvas.line(x(value), top, x(value), floor, "grid")
        canvas.text(x(value), floor + 17, _tick(value, decimals(shown)), "t num", "middle")
    canvas.text((x.start + x.end) / 2, floor + 35, f"margin{', ' + unit if unit else ''}", "t axis-name", "middle")
    canvas.line(x(0), top - 4, x(0), floor, "zero")
    if x(0) - LEFT > 110:
        canvas.text(x(0) - 8, top - 8, "← does not hold", "t small", "end")
    if x.end - x(0) > 60:
        canvas.text(x(0) + 8, top - 8, "holds →", "t small")
    for index, one in enumerate(clauses):
        _line(canvas, one, x, top + ROW * index)


def _line(canvas: Canvas, one: Clause, x: Scale, top: float) -> None:
    middle, below = top + 27, top + 38
    canvas.text(LEFT, top + 14, _shortened(one.text), "t tag f0")
    _bar(canvas, one.interval_documents, x, middle, "over documents")
    _bar(canvas, one.interval_seeds, x, below, "over seeds")
    for seed, margin in one.seeds.items() if len(one.seeds) > 1 else ():
        if x.low <= margin <= x.high:
            canvas.marker("circle", x(margin), below, 3.2, "hollow paper k0", f"seed {seed}: {signed(margin)}")
    canvas.marker("circle", x(one.margin or 0.0), middle, 5, "dot f0" if one.clear else "hollow paper k0", _said(one))
    canvas.text(WIDTH, middle + 4, signed(one.margin), "t num", "end")


def _shortened(text: str) -> str:
    """A long comparison without its middle: where two are told apart is at the end, mostly."""
    return text if len(text) <= LETTERS else f"{text[: LETTERS // 2]} … {text[3 - LETTERS // 2 :]}"


def _bar(canvas: Canvas, ends: tuple[float, float] | None, x: Scale, y: float, over: str) -> None:
    """An end that lies outside the axis has no stroke across it: the bar goes on."""
    if ends is None:
        return
    low, high = (min(max(end, x.low), x.high) for end in ends)
    canvas.path([(x(low), y), (x(high), y)], "line interval k0", f"95% {over}: {numbers.interval(*ends)}")
    for end in ends:
        if x.low <= end <= x.high:
            canvas.line(x(end), y - 4, x(end), y + 4, "interval line k0")


def _scale(clauses: Sequence[Clause]) -> Scale:
    points = [value for one in clauses for value in (one.margin, *one.seeds.values()) if value is not None and math.isfinite(value)]
    far = FURTHEST * max([abs(value) for value in points] + [_narrowest(clauses)])
    ends = [min(max(end, -far), far) for one in clauses for pair in _intervals(one) for end in pair]
    values = [0.0, *points, *ends]
    return Scale(*padded(values, 0.06, max(map(abs, values)) * 0.02 or 1e-6), LEFT, WIDTH - RIGHT)


def _narrowest(clauses: Sequence[Clause]) -> float:
    halves = [(high - low) / 2 for one in clauses for low, high in _intervals(one) if math.isfinite(high - low)]
    return min(halves, default=0.0)


def _intervals(one: Clause) -> Iterator[tuple[float, float]]:
    yield from (pair for pair in (one.interval_documents, one.interval_seeds) if pair is not None)


def _said(one: Clause) -> str:
    ranges = [f"{numbers.interval(*pair)} over {what}"
              for what, pair in (("documents", one.interval_documents), ("seeds", one.interval_seeds)) if pair]  # fmt: skip
    sure = "clear" if one.clear else "within noise"
    return f"{one.text}: margin {signed(one.margin)}" + (f", 95% {', '.join(ranges)}" if ranges else "") + f", {sure}"
