"""Gains of arms over the reference: a forest of them with their intervals, and gain against cost."""

from __future__ import annotations

from dataclasses import dataclass

from ostinato.report import numbers
from ostinato.report.figures import BASE, EDGE, HEIGHT, LABEL_GAP, LEFT, TOP, WIDTH, short, x_axis, y_axis
from ostinato.report.looks import Look
from ostinato.report.svg import Canvas, Scale, decimals, padded, spread, ticks


@dataclass(frozen=True)
class Gain:
    """One arm's gain: interval over documents, gains of single seeds, all in the figure's unit; cost, times that of the arm it is against.

    against: the name of that arm, "" where it is the same for all.  over_seeds: the interval over seeds, where it is drawn too.
    """

    arm: str
    look: Look
    gain: float
    low: float | None
    high: float | None
    seeds: tuple[float, ...]
    cost: float | None = None
    same_parameters: bool = False
    against: str = ""
    over_seeds: tuple[float, float] | None = None

    @property
    def title(self) -> str:
        return f"{self.arm} against {self.against}" if self.against else self.arm


def forest(name: str, title: str, description: str, gains: list[Gain], *, reference: str, unit: str, noise: float | None = None,
           band: str = "") -> str:  # fmt: skip
    """A row an arm, best at the top: the gain, its interval over documents as a bar, each seed as an open dot, the number at the right.

    An interval over seeds is a second bar below, its ends square.
    reference: the arm that all are compared with, or words for several. noise: what is shaded around zero, how far its seeds lie apart
    unless `band` says otherwise.
    """
    if not gains:
        return ""
    rows = sorted(gains, key=lambda row: -row.gain)
    named = any(row.against for row in rows)
    row_height, top, bottom, left, right = 34.0 if named else 30.0 if len(rows) <= 12 else 22.0, 30.0, 46.0, 118.0, 64.0
    width, height = WIDTH, top + row_height * len(rows) + bottom
    values = [v for row in rows for v in (row.gain, row.low, row.high, *row.seeds, *(row.over_seeds or ())) if v is not None] + [0.0]
    if noise is not None:
        values += [-noise, noise]
    low, high = padded(values, 0.06, 0.001)
    x = Scale(low, high, left, width - right)
    canvas = Canvas(width, height)
    floor = top + row_height * len(rows)
    if noise:
        canvas.rect(x(-noise), top, x(noise) - x(-noise), floor - top, "band",
                    band or f"seeds of {reference} differ by {numbers.fixed(noise)}")  # fmt: skip
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
        said = f"{numbers.signed(row.gain)}" + (f" [{numbers.interval(row.low, row.high)}]" if row.low is not None else "")
        kind = f"t tag f{row.look.colour}" if row.look.colour is not None else "t"
        canvas.text(0, y - 2 if row.against else y + 4, short(row.arm, 17), kind)
        if row.against:
            canvas.text(0, y + 11, short(f"against {row.against}", 21), "t small")
        if row.low is not None and row.high is not None:
            canvas.line(x(row.low), y, x(row.high), y, f"interval {row.look.seed_line}")
            for end in (row.low, row.high):
                canvas.line(x(end), y - 4, x(end), y + 4, f"interval {row.look.seed_line}")
        if row.over_seeds is not None:
            canvas.line(x(row.over_seeds[0]), y + 8, x(row.over_seeds[1]), y + 8, f"interval {row.look.seed_line}")
            for end in row.over_seeds:
                canvas.marker("square", x(end), y + 8, 2.2, row.look.dot,
                              f"{row.title}, 95% over seeds: {numbers.interval(*row.over_seeds)}")  # fmt: skip
        for value in row.seeds if len(row.seeds) > 1 else ():
            canvas.marker("circle", x(value), y, 3.2, row.look.hollow, f"{row.title}, one seed: {numbers.signed(value)}")
        canvas.marker(row.look.marker, x(row.gain), y, 4.6, row.look.dot, f"{row.title}: {said}")
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
    x = Scale(left_cost - room, right_cost + room, LEFT, EDGE)
    heights = [v for row in rows for v in (row.gain, row.low, row.high) if v is not None] + [0.0]
    low, high = padded(heights, 0.08, 0.001)
    y = Scale(low, high, BASE, TOP)
    canvas = Canvas(WIDTH, HEIGHT)
    y_axis(canvas, y, f"gain, {unit}", LEFT, EDGE, numbers.signed)
    x_axis(canvas, x, f"training FLOPs, times those of {short(reference, 20)}", BASE, lambda v: f"{v:g}×")
    canvas.line(LEFT, y(0), EDGE, y(0), "zero")
    canvas.marker("circle", x(1.0), y(0.0), 4.6, "dot f0", f"{reference}: the reference")
    labels = [(reference, x(1.0), y(0.0), "t tag f0")]  # of several references, words for them
    for row in rows:
        px, py = x(row.cost or 0), y(row.gain)
        if row.low is not None and row.high is not None:
            canvas.line(px, y(row.low), px, y(row.high), f"interval {row.look.seed_line}")
        kind = row.look.dot if row.same_parameters else row.look.hollow + " paper"
        owned = "as many parameters" if row.same_parameters else "another number of parameters"
        said = f"{row.title}: {numbers.signed(row.gain)} at {numbers.times(row.cost)}, {owned}"
        canvas.marker(row.look.marker, px, py, 5, kind, said)
        if row.look.colour is not None:
            labels.append((row.arm, px, py, f"t tag f{row.look.colour}"))
    for column in _columns(labels):
        for (label, px, py, kind), put in zip(column, spread([at for _, _, at, _ in column], LABEL_GAP, TOP, BASE), strict=True):
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
