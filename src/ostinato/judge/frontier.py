"""Which arms are worth their cost: those that no other arm beats at most at the same cost (Pareto), by FLOPs, parameters and seconds.

An arm is dominated when another one of at most its cost has the lower loss by more than their noise. Where the difference is inside the
noise the two are about equal, and neither is called dominated. Costs within 1% of each other are equal, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ostinato.judge.contrast import Contrast, gain
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.value import Value
from ostinato.ledger.compare import ABOUT


@dataclass(frozen=True)
class Place:
    """One arm.  by: the arm that dominates it by most, None where none does; gain: of that arm over it.

    about: arms of at most its cost whose lower loss is inside the noise. lowest: no arm of at most its cost has a lower loss at all.
    """

    arm: str
    cost: float
    loss: float
    by: str | None
    gain: Value | None
    about: tuple[str, ...]
    lowest: bool

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {"arm": self.arm, "cost": self.cost, "loss": self.loss, "dominated_by": self.by, "gain": self.gain and self.gain.point,
                "clear": self.gain and not self.gain.doubt, "about_equal": list(self.about), "lowest": self.lowest}  # fmt: skip


@dataclass(frozen=True)
class Frontier:
    """axis: the cost, in words. places: by cost, then loss."""

    axis: str
    places: tuple[Place, ...]

    @property
    def dominated(self) -> tuple[Place, ...]:
        """The arms that another one beats at no more cost."""
        return tuple(place for place in self.places if place.by)

    @property
    def line(self) -> tuple[Place, ...]:
        """The frontier of the point estimates, by rising cost."""
        return tuple(place for place in self.places if place.lowest)


def frontier(axis: str, costs: Mapping[str, float], contrast: Contrast) -> Frontier:
    """costs: of the arms that have a loss. Arms that share no text or no seed are not set against each other.

    Raises NotEstimable for an arm without a loss.
    """
    losses = {arm: contrast({arm: 1.0}).point for arm in costs}
    places = [_place(arm, costs, losses, contrast) for arm in costs]
    return Frontier(axis, tuple(sorted(places, key=lambda place: (place.cost, place.loss))))


def _place(arm: str, costs: Mapping[str, float], losses: Mapping[str, float], contrast: Contrast) -> Place:
    beating: dict[str, Value] = {}
    about: list[str] = []
    for other, cost in costs.items():
        if other == arm or cost > costs[arm] * (1 + ABOUT):
            continue
        try:
            better = gain(contrast, other, arm)
        except NotEstimable:
            continue
        if better.point > 0 and better.about_zero:
            about.append(other)
        elif better.point > 0:
            beating[other] = better
    by = max(beating, key=lambda other: beating[other].point, default=None)
    return Place(arm, costs[arm], losses[arm], by, beating[by] if by else None, tuple(about), not beating and not about)
