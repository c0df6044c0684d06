"""The account of a gain over training: at every evaluation point that two runs share, and where one run overtakes the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


def crossing(tokens: Sequence[int], gains: Sequence[float | None]) -> float | None:
    """Where the gain changes its sign for good: the tokens at which the line between two points passes zero. None when it never does."""
    points = [(at, gain) for at, gain in zip(tokens, gains, strict=True) if gain is not None]
    last = next((gain for _, gain in reversed(points) if gain), None)
    for index in range(len(points) - 2, -1, -1):
        (before, low), (after, high) = points[index], points[index + 1]
        if last is not None and (low < 0 < last or last < 0 < low):
            return before + (after - before) * low / (low - high)
    return None
