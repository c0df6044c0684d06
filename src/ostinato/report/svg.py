"""Drawing in SVG by hand: scales, ticks, marks and text, in the few forms the figures need.

Written out rather than plotted by a library, so that colours are CSS variables (light, dark and print follow the page), text is
text (selectable, searchable, in the reader's font), nothing depends on a version, and the same numbers give the same bytes.
Every piece of text passes through `escape`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from html import escape

MARKERS = ("circle", "square", "triangle", "diamond", "down", "cross", "pentagon", "plus")


def number(value: float) -> str:
    """A coordinate with at most two decimals, so that pages stay small and equal."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


@dataclass(frozen=True)
class Scale:
    """Data in [low, high] to pixels in [start, end], linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return self.start + (at - low) / (high - low) * (self.end - self.start)


def nice_step(span: float, about: int) -> float:
    """The step of 1, 2 or 5 times a power of ten that cuts `span` into about `about` pieces."""
    raw = span / about
    base = 10.0 ** math.floor(math.log10(raw))
    return next(base * factor for factor in (1, 2, 5, 10) if base * factor >= raw * 0.75)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values within [low, high], evenly spaced."""
    step = nice_step(high - low, about)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten within [low, high]; only powers of ten when there would be many."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1,)):
        values = [factor * 10.0**exponent for exponent in exponents for factor in factors]
        found = [value for value in values if low * 0.999 <= value <= high * 1.001]
        if len(found) <= 7:
            return found
    return found


def padded(values: list[float], share: float = 0.05, least: float = 1e-9) -> tuple[float, float]:
    """The range of some values with a margin; never empty."""
    low, high = min(values), max(values)
    margin = max((high - low) * share, least)
    return low - margin, high + margin


def decimals(values: list[float]) -> int:
    """How many decimals tell neighbouring ticks apart."""
    gap = min((abs(b - a) for a, b in itertools.pairwise(values)), default=1.0)
    return max(0, -math.floor(math.log10(gap) + 1e-9))


def marker_path(kind: str, x: float, y: float, r: float) -> str:
    """The outline of a marker of about the same area whatever its kind."""
    points = {
        "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        "triangle": [(0, -1.2), (1.1, 0.85), (-1.1, 0.85)],
        "down": [(0, 1.2), (1.1, -0.85), (-1.1, -0.85)],
        "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
        "cross": [(-1.1, -0.6), (-0.6, -1.1), (0, -0.5), (0.6, -1.1), (1.1, -0.6), (0.5, 0),
                  (1.1, 0.6), (0.6, 1.1), (0, 0.5), (-0.6, 1.1), (-1.1, 0.6), (-0.5, 0)],
        "plus": [(-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4),
                 (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)],
        "pentagon": [(math.sin(2 * math.pi * k / 5) * 1.15, -math.cos(2 * math.pi * k / 5) * 1.15) for k in range(5)],
    }.get(kind)  # fmt: skip
    if points is None:
        n = number
        return f"M{n(x - r)} {n(y)}a{n(r)} {n(r)} 0 1 0 {n(2 * r)} 0a{n(r)} {n(r)} 0 1 0 {n(-2 * r)} 0Z"
    return "M" + "L".join(f"{number(x + r * px)} {number(y + r * py)}" for px, py in points) + "Z"


@dataclass
class Canvas:
    """A drawing under construction: elements in painting order, in a coordinate system of width × height."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.parts.append(f'<line class="{kind}" x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"/>')

    def rect(self, x: float, y: float, width: float, height: float, kind: str, title: str = "") -> None:
        box = f'<rect class="{kind}" x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
        self.parts.append(f"{box}><title>{escape(title)}</title></rect>" if title else f"{box}/>")

    def path(self, points: list[tuple[float, float]], kind: str, title: str = "") -> None:
        """A line through points; a single point draws nothing."""
        if len(points) < 2:
            return
        d = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
        self.parts.append(f'<path class="{kind}" d="{d}">' + (f"<title>{escape(title)}</title>" if title else "") + "</path>")

    def marker(self, shape: str, x: float, y: float, r: float, kind: str, title: str = "") -> None:
        self.parts.append(
            f'<path class="{kind}" d="{marker_path(shape, x, y, r)}">' + (f"<title>{escape(title)}</title>" if title else "") + "</path>"
        )

    def text(self, x: float, y: float, content: str, kind: str = "t", anchor: str = "start") -> None:
        self.parts.append(f'<text class="{kind}" x="{number(x)}" y="{number(y)}" text-anchor="{anchor}">{escape(content)}</text>')

    def render(self, name: str, title: str, description: str) -> str:
        """The finished element; `name` must be unique in the page, title and description are read aloud."""
        return (
            f'<svg class="figure" viewBox="0 0 {number(self.width)} {number(self.height)}" role="img" '
            f'aria-labelledby="{name}-t {name}-d" xmlns="http://www.w3.org/2000/svg">'
            f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>' + "".join(self.parts) + "</svg>"
        )


def spread(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones, at least `gap` apart and within [low, high] when they fit, in the same order.

    Neighbours that collide are merged into blocks centred on the mean of their wishes (pool adjacent violators).
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    blocks: list[list[int]] = []

    def centre(block: list[int]) -> float:
        half = gap * (len(block) - 1) / 2
        middle = sum(wanted[index] for index in block) / len(block)
        return min(max(middle, low + half), high - half)

    for index in order:
        blocks.append([index])
        while len(blocks) > 1:
            upper, lower = blocks[-2], blocks[-1]
            if centre(lower) - gap * (len(lower) - 1) / 2 - (centre(upper) + gap * (len(upper) - 1) / 2) >= gap - 1e-9:
                break
            blocks[-2:] = [upper + lower]
    placed = [0.0] * len(wanted)
    for block in blocks:
        start = centre(block) - gap * (len(block) - 1) / 2
        for offset, index in enumerate(block):
            placed[index] = start + offset * gap
    return placed
