"""The account of a gain over training: at every evaluation point that two runs share, and where one run overtakes the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ostinato.analysis.paired import Paired, compare
from ostinato.store import RunFolder, Store


@dataclass(frozen=True)
class GainPoint:
    """tokens trained on so far by both runs, and the paired comparison there."""

    tokens: int
    paired: Paired


def gain_curve(store: Store, reference: RunFolder, arm: RunFolder, part: str = "validation") -> list[GainPoint]:
    """The gain at every evaluation point measured in both runs, in order. Raises StoreError when their targets differ."""
    points = []
    for tokens in sorted(points_of(reference, part) & points_of(arm, part)):
        losses = arm.read_losses(part, tokens)
        points.append(GainPoint(tokens, compare(reference.read_losses(part, tokens), losses, store.targets(losses.target_id))))
    return points


def points_of(folder: RunFolder, part: str) -> set[int]:
    """The evaluation points (tokens trained on) at which a part is measured."""
    return {tokens for name, tokens in folder.measured() if name == part}


Line = tuple[tuple[float, float], ...]
"""(tokens trained on, gain), in order of tokens."""


def mean_line(lines: Sequence[Line]) -> Line:
    """The mean of the lines that reach furthest, where all of these have a point: as in the table, a run that lags is left out."""
    furthest = max((line[-1][0] for line in lines if line), default=0)
    lines = [line for line in lines if line and line[-1][0] == furthest]
    shared = set.intersection(*({at for at, _ in line} for line in lines)) if lines else set()
    at = [dict(line) for line in lines]
    return tuple((tokens, math.fsum(line[tokens] for line in at) / len(at)) for tokens in sorted(shared))


@dataclass(frozen=True)
class Crossing:
    """Where a gain changes its sign for good during training, and on which side of the end of the first pass over the text.

    line: the mean gain over seeds at every point that is measured in both arms. tokens: where it passes zero for the last time, on the
    straight line between two points (None: never); between: these two. by_seed: the same of every seed's own line. changes: how often the
    sign changes. first_pass_ends: tokens at which the arm has seen all of its training text once (None: not known).
    """

    line: Line
    tokens: float | None
    between: tuple[int, int] | None
    by_seed: Mapping[int, float | None]
    changes: int
    first_pass_ends: int | None

    @property
    def ahead(self) -> bool | None:
        """Whether the arm is better at the last point; None when it is level."""
        return self.line[-1][1] > 0 if self.line[-1][1] else None

    @property
    def side(self) -> str | None:
        """before or after the end of the first pass; inside, when it ends between the two points, so that neither can be told."""
        if self.between is None or self.first_pass_ends is None:
            return None
        low, high = self.between
        return "before" if high <= self.first_pass_ends else "after" if low >= self.first_pass_ends else "inside"

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "tokens": self.tokens, "between": self.between and list(self.between),
            "by_seed": {str(seed): at for seed, at in self.by_seed.items()}, "changes": self.changes, "ahead": self.ahead,
            "first_pass_ends": self.first_pass_ends, "side": self.side, "points": [list(point) for point in self.line],
        }  # fmt: skip


def crossing_of(lines: Mapping[int, Line], first_pass_ends: int | None) -> Crossing | None:
    """lines: {seed: its gains}. None where no point is measured in both arms."""
    line = mean_line(list(lines.values()))
    if not line:
        return None
    found = last_zero(*zip(*line, strict=True))
    by_seed = {seed: crossing(*zip(*own, strict=True)) for seed, own in lines.items() if own}
    signs = [gain > 0 for _, gain in line if gain]
    changes = sum(one != other for one, other in itertools.pairwise(signs))
    return Crossing(line, found and found.tokens, found and found.between, by_seed, changes, first_pass_ends)


class Zero(NamedTuple):
    """Where a line passes zero, in tokens, and the two points around it."""

    tokens: float
    between: tuple[int, int]


def crossing(tokens: Sequence[int], gains: Sequence[float | None]) -> float | None:
    """Where the gain changes its sign for good: the tokens at which the line between two points passes zero. None when it never does."""
    found = last_zero(tokens, gains)
    return found and found.tokens


def last_zero(tokens: Sequence[int], gains: Sequence[float | None]) -> Zero | None:
    """`crossing`, with the points around it."""
    points = [(at, gain) for at, gain in zip(tokens, gains, strict=True) if gain is not None]
    last = next((gain for _, gain in reversed(points) if gain), None)
    for index in range(len(points) - 2, -1, -1):
        (before, low), (after, high) = points[index], points[index + 1]
        if last is not None and (low < 0 < last or last < 0 < low):
            return Zero(before + (after - before) * low / (low - high), (before, after))
    return None
