"""Pictures of accounts: loss against cost with its frontier, parts of a gain laid end to end beside the whole, and rates as dots."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ostinato.judge.accounts import PARAMETERS, SECONDS
from ostinato.judge.frontier import Frontier, Place
from ostinato.judge.parts import PartsOfAGain
from ostinato.judge.rates import Rate
from ostinato.judge.value import DOCUMENTS, Value
from ostinato.report import numbers
from ostinato.report.figures import WIDTH, short, y_axis
from ostinato.report.looks import Look
from ostinato.report.svg import Canvas, Scale, decimals, log_ticks, padded, ticks

LETTER, LINE = 6.9, 13.0
"""Pixels of a letter of a label, about, and of a line."""
WAYS = {"added": "added", "deleted": "deleted", "marginal": "next size"}
MARKS = {"added": ("circle", "dot f1"), "deleted": ("diamond", "hollow paper k2"), "marginal": ("cross", "dot f3")}


AROUND = (
    (9, 4, "start"), (-9, 4, "end"), (0, -9, "middle"), (0, 18, "middle"), (8, -7, "start"), (8, 15, "start"), (-8, -7, "end"),
    (-8, 15, "end"),
    *((dx, dy, anchor) for dy in (30, -26, 44, -40, 58, -54, 72) for dx, anchor in ((0, "middle"), (14, "start"), (-14, "end"))),
)  # fmt: skip
"""Where a name may stand: how far right of its mark and below it, and which end of it is there."""


@dataclass(frozen=True)
class Box:
    """A part of the drawing that is taken."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom


Taken = tuple[list[Box], list[Box], list[Box]]


def frontier_figure(name: str, one: Frontier, looks: Mapping[str, Look], unit: str) -> str:
    """Loss against cost, lower is better. Filled: no arm of at most the cost is better by more than noise; hollow: dominated.

    Every arm is named where its name fits: those that are not dominated first.
    """
    left, right, top, bottom, height = 52.0, 16.0, 26.0, 44.0, 300.0
    costs, losses = [place.cost for place in one.places], [place.loss for place in one.places]
    x = Scale(min(costs) * 0.93, max(costs) * 1.1, left, WIDTH - right, log=True)
    y = Scale(*padded(losses, 0.07, 0.002), height - bottom, top)
    canvas = Canvas(WIDTH, height)
    y_axis(canvas, y, f"validation loss, {unit}", left, WIDTH - right, numbers.fixed)
    _log_axis(canvas, x, one.axis, height - bottom)
    steps: list[tuple[float, float]] = []
    for place in one.line:
        steps += [(x(place.cost), steps[-1][1])] if steps else []
        steps.append((x(place.cost), y(place.loss)))
    steps += [(WIDTH - right, steps[-1][1])] if steps else []
    canvas.path(steps, "line thin k0", "the frontier of the measured losses")
    marks = [Box(x(place.cost) - 6, y(place.loss) - 6, x(place.cost) + 6, y(place.loss) + 6) for place in one.places]
    line = [Box(x1 - 1, min(y1, y2) - 1, x2 + 1, max(y1, y2) + 1) for (x1, y1), (x2, y2) in itertools.pairwise(steps)]
    names: list[Box] = []
    for place in sorted(one.places, key=lambda place: place.by is None):
        look = looks[place.arm]
        canvas.marker(look.marker, x(place.cost), y(place.loss), 4.6, f"{look.hollow} paper" if place.by else look.dot, _said(one, place))
    for place in sorted(one.places, key=lambda place: (place.by is not None, not place.lowest)):
        look = looks[place.arm]
        kind = f"t tag f{look.colour}" if look.colour is not None else "t small"
        _name(canvas, short(place.arm), x(place.cost), y(place.loss), kind, (marks, line, names), Box(left, 14, WIDTH, height - bottom - 2))
    kept = [place.arm for place in one.places if not place.by]
    return canvas.render(name, f"Validation loss against {one.axis}", f"Not dominated: {numbers.listed(kept, 12)}")


def _log_axis(canvas: Canvas, x: Scale, axis: str, bottom: float) -> None:
    """Of a range that may be short: where few round numbers lie in it, evenly spaced ones. Long times are in minutes or hours."""
    size, label = next((size, f"{word} of training") for word, size in (("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
                       if x.high > 2 * size or size == 1) if axis == SECONDS else (1.0, axis)  # fmt: skip
    low, high = x.low / size, x.high / size
    values = log_ticks(low, high)
    if len(values) < 3:
        values = ticks(low, high, 5)
    canvas.line(x.start, bottom, x.end, bottom, "axis")
    for value in values:
        canvas.line(x(value * size), bottom, x(value * size), bottom + 4, "axis")
        canvas.text(x(value * size), bottom + 18, numbers.tick(value), "t num", "middle")
    canvas.text((x.start + x.end) / 2, bottom + 36, label, "t axis-name", "middle")


def _said(one: Frontier, place: Place) -> str:
    form = {SECONDS: numbers.duration, PARAMETERS: numbers.human}.get(one.axis, numbers.power)
    return f"{place.arm}: {numbers.fixed(place.loss)} at {form(place.cost)}; {standing(place)}"


def standing(place: Place) -> str:
    """Where an arm stands, in words."""
    if place.by is not None and place.gain is not None:
        return f"dominated by {place.by} ({numbers.signed(place.gain.point)})"
    return f"about equal to {numbers.listed(place.about, 3)}" if place.about else "not dominated"


def _name(canvas: Canvas, text: str, px: float, py: float, kind: str, taken: Taken, within: Box) -> None:
    """The name beside its mark, at the first place that is free: near it, or further away with a line to it; nowhere, if none is.

    taken: marks, the frontier, and the names that are placed with their lines; only the frontier may be crossed by a line to a name.
    """
    marks, frontier_line, names = taken
    wide = len(text) * LETTER
    for dx, dy, anchor in AROUND:
        start = px + dx - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        box = Box(start, py + dy - 10, start + wide, py + dy + 3)
        inside = within.left <= box.left and box.right <= within.right and within.top <= box.top and box.bottom <= within.bottom
        if not inside or any(box.meets(other) for other in (*marks, *frontier_line, *names)):
            continue
        if abs(dy - 4) > 20:
            begin, end = py + (6 if dy > 0 else -6), py + (dy - 10 if dy > 0 else dy + 2)
            line = Box(min(px, px + dx) - 1, min(begin, end), max(px, px + dx) + 1, max(begin, end))
            others = [other for other in marks if not other.meets(Box(px - 1, py - 1, px + 1, py + 1))]
            if any(line.meets(other) for other in (*others, *names)):
                continue
            canvas.line(px, begin, px + dx, end, "leader")
            names.append(line)
        canvas.text(px + dx, py + dy, text, kind, anchor)
        names.append(box)
        return


def parts_figure(name: str, found: Sequence[PartsOfAGain], looks: Mapping[str, Look], unit: str) -> str:
    """Of each whole a bar, and under it the parts end to end, each from where the one before ended; the last bar is what no part has."""
    groups = [_bars(one) for one in found]
    row, gap, top, bottom, left, right = 21.0, 12.0, 12.0, 46.0, 132.0, 66.0
    rows = sum(map(len, groups))
    floor = top + row * rows + gap * (len(groups) - 1)
    ends = [end for bars in groups for _, start, size, _, _ in bars for end in (start, start + size)]
    low, high = padded([0.0, *ends], 0.06, 1e-4)
    x, canvas = Scale(low, high, left, WIDTH - right), Canvas(WIDTH, floor + bottom)
    shown = ticks(low, high, 5)
    for value in shown:
        canvas.line(x(value), top, x(value), floor, "grid")
        canvas.text(x(value), floor + 18, numbers.signed(value, decimals(shown)), "t num", "middle")
    canvas.text((left + WIDTH - right) / 2, floor + 37, f"gain over the base, {unit}", "t axis-name", "middle")
    canvas.line(x(0), top - 4, x(0), floor, "zero")
    y = top
    for bars in groups:
        for label, start, size, arm, whole in bars:
            look = looks.get(arm) if arm else None
            ink = f"f{look.colour}" if look and look.colour is not None else "f0"
            kind = ink if whole else f"hollow paper k{look.colour or 0}" if look and look.colour is not None else "hollow paper other"
            canvas.text(0, y + 15, short(label, 20), f"t tag {ink}" if whole else "t")
            canvas.rect(min(x(start), x(start + size)), y + 5, max(1.0, abs(x(start + size) - x(start))), row - 9, kind,
                        f"{label}: {numbers.signed(size)}")  # fmt: skip
            canvas.text(WIDTH, y + 15, numbers.signed(size), "t num", "end")
            y += row
        y += gap
    said = "; ".join(f"{one.division.whole} {numbers.signed(one.whole.point)}, parts {numbers.signed(one.total.point)}" for one in found)
    return canvas.render(name, "Parts of a gain against the whole", said)


def _bars(one: PartsOfAGain) -> list[tuple[str, float, float, str, bool]]:
    """(label, where it starts, how long it is, its arm, whether it is the whole)."""
    bars = [(one.division.whole, 0.0, one.whole.point, one.division.whole, True)]
    at = 0.0
    for arm, gain in zip(one.division.parts, one.gains, strict=True):
        bars.append((arm, at, gain.point, arm, False))
        at += gain.point
    return [*bars, ("in no part alone", at, one.left.point, "", False)]


def rates_figure(name: str, rates: Sequence[Rate], unit: str) -> str:
    """A row a rate: filled what is added to the reference, hollow what is deleted, a cross from a size to the next."""
    rows = [one for one in rates if one.per_million is not None]
    row, top, bottom, left, right = 24.0, 12.0, 46.0, 158.0, 70.0
    floor = top + row * len(rows)
    spans = [(one.per_million, one.per_million.interval(DOCUMENTS)) for one in rows if one.per_million]
    ends = [end for value, span in spans for end in ((span.low, span.high) if span else (value.point,))]
    low, high = padded([0.0, *ends], 0.04, 1e-6)
    x, canvas, shown = Scale(low, high, left, WIDTH - right), Canvas(WIDTH, floor + bottom), ticks(low, high, 5)
    for value in shown:
        canvas.line(x(value), top, x(value), floor, "grid")
        canvas.text(x(value), floor + 18, numbers.signed(value, decimals(shown)), "t num", "middle")
    canvas.text((left + WIDTH - right) / 2, floor + 37, f"{unit} a million parameters", "t axis-name", "middle")
    canvas.line(x(0), top - 4, x(0), floor, "zero")
    for place, (one, (value, span)) in enumerate(zip(rows, spans, strict=True)):
        y = top + row * (place + 0.5)
        canvas.text(0, y + 4, f"{short(one.step.beside, 10)} → {short(one.step.arm, 11)}", "t")
        if span:
            canvas.line(x(span.low), y, x(span.high), y, "line interval thin k0")
        shape, kind = MARKS[one.step.way]
        canvas.marker(shape, x(value.point), y, 4.6, kind, rate_words(one, value))
        canvas.text(WIDTH, y + 4, rate_text(value.point), "t num", "end")
    return canvas.render(name, "Gain a million parameters", "; ".join(rate_words(one, one.per_million) for one in rows if one.per_million))


def rate_words(one: Rate, value: Value) -> str:
    """base8 → l16, added: +0.360 a million parameters."""
    return f"{one.step.beside} → {one.step.arm}, {WAYS[one.step.way]}: {rate_text(value.point)} a million parameters"


def rate_text(value: float, digits: int | None = None) -> str:
    """With its sign; with so many decimals, or with three significant digits."""
    return numbers.signed(value, rate_digits(value) if digits is None else digits)


def rate_digits(value: float) -> int:
    """Decimals that show three significant digits, at most ten."""
    return min(10, max(2, 2 - math.floor(math.log10(abs(value))))) if value else 2
