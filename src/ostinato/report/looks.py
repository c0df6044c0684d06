"""How an arm looks in every figure: a colour, a marker and a dash, so that no reader depends on colour alone.

Colours are those of Okabe and Ito (Color Universal Design, 2008), darkened where they would be pale on paper; the reference is
drawn in ink. With many arms only some are told apart and the rest are thin grey lines (their numbers are in the tables).
"""

from __future__ import annotations

from dataclasses import dataclass

from ostinato.report.svg import MARKERS

COLOURS = 7  # --c1 … --c7 in page.css; --c0 is the ink of the reference
DASHES = 4  # solid, dashed, dotted, dash-dot: .d0 … .d3


@dataclass(frozen=True)
class Look:
    """One arm's look: CSS classes for strokes and fills, and a marker."""

    colour: int | None
    marker: str
    dash: int

    @property
    def line(self) -> str:
        return "line other" if self.colour is None else f"line k{self.colour} d{self.dash}"

    @property
    def seed_line(self) -> str:
        return "line thin other" if self.colour is None else f"line thin k{self.colour}"

    @property
    def dot(self) -> str:
        return "dot other" if self.colour is None else f"dot f{self.colour}"

    @property
    def hollow(self) -> str:
        return "hollow other" if self.colour is None else f"hollow k{self.colour}"


def looks(names: list[str], reference: str, shown: list[str] | None = None) -> dict[str, Look]:
    """The look of every arm. shown: the arms to tell apart (default: all of them, up to seven besides the reference)."""
    others = [name for name in names if name != reference]
    chosen = [name for name in (shown if shown is not None else others) if name != reference][:COLOURS]
    result = {name: Look(None, "circle", 0) for name in others}
    for index, name in enumerate(name for name in others if name in chosen):
        result[name] = Look(index % COLOURS + 1, MARKERS[(index + 1) % len(MARKERS)], (index + 1) % DASHES)
    result[reference] = Look(0, MARKERS[0], 0)
    return {name: result[name] for name in names}
