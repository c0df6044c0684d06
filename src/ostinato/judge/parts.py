"""Sums of parts against the whole: whether what a second pass gains is the sum of what its pieces gain alone.

Parts are found from schedules. Arms that differ in nothing but the order in which layers run are set beside the one that runs each layer
once; what an arm applies beyond it is a bag of sublayers, and arms whose bags add up to that of another arm are its parts: the attention
and the MLPs of a second pass, its first half and its second. How the bags are placed in the order is not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ostinato.judge.contrast import Contrast
from ostinato.judge.shares import Share, share
from ostinato.judge.value import Value

Bag = Mapping[Any, int]
"""{what is applied: how often}"""
MOST_PARTS, MOST_FOUND = 4, 24


@dataclass(frozen=True)
class Division:
    """The parts of `whole`, each an arm by itself, over `base`."""

    whole: str
    base: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class PartsOfAGain:
    """gains: of each part alone; total: their sum; whole: the gain of the whole; left: whole - total, which no part has alone."""

    division: Division
    gains: tuple[Value, ...]
    total: Value
    whole: Value
    left: Value
    share: Share

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        one = self.division
        return {"whole": one.whole, "base": one.base, "parts": {arm: gain.point for arm, gain in zip(one.parts, self.gains, strict=True)},
                "sum": self.total.point, "gain": self.whole.point, "left": self.left.point, "left_clear": not self.left.doubt,
                "share": self.share.record()}  # fmt: skip


def parts_of_gain(contrast: Contrast, division: Division) -> PartsOfAGain:
    """Raises NotEstimable where an arm has no loss. The sum is one contrast: the noise of the base is in it once for every part."""
    base, parts, whole = division.base, division.parts, division.whole
    gains = tuple(contrast({base: 1.0, part: -1.0}) for part in parts)
    total = contrast({base: float(len(parts)), **dict.fromkeys(parts, -1.0)})
    gained = contrast({base: 1.0, whole: -1.0})
    left = contrast({base: 1.0 - len(parts), whole: -1.0, **dict.fromkeys(parts, 1.0)})
    return PartsOfAGain(division, gains, total, gained, left, share(total, gained))


def divisions(extra: Mapping[str, Bag], base: str) -> list[Division]:
    """Every arm that two to four others make up.  extra: {arm: what it applies beyond the base, at least one thing}."""
    found = []
    for whole, bag in extra.items():
        pieces = [(arm, Counter(part)) for arm, part in extra.items() if arm != whole and _within(part, bag) and part != bag]
        found += [Division(whole, base, parts) for parts in _covers(Counter(bag), pieces, MOST_PARTS)]
    return found[:MOST_FOUND]


def _covers(left: Counter, pieces: Sequence[tuple[str, Counter]], most: int) -> Iterator[tuple[str, ...]]:
    """Choices of pieces, in their order, that add up to what is left."""
    for place, (arm, bag) in enumerate(pieces):
        if not _within(bag, left):
            continue
        if bag == left:
            yield (arm,)
        elif most > 1:
            rest = left - bag
            yield from ((arm, *others) for others in _covers(rest, pieces[place + 1 :], most - 1))


def _within(part: Bag, whole: Bag) -> bool:
    return all(count <= whole.get(what, 0) for what, count in part.items())
