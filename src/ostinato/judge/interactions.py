"""Interactions: whether two changes together gain what they gain apart.

Four arms make a table of two changes: the base, A, B, and A with B. The interaction is gain(AB) - gain(A) - gain(B), one contrast of four
losses, paired by document and seed. Beside it, what B gains on top of A as a share of what it gains alone: 100% where nothing interacts.
The quadruples are found from settings: what AB changes in the base is what A changes and what B changes, and these have nothing in common.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ostinato.judge.contrast import Contrast
from ostinato.judge.shares import Share, share
from ostinato.judge.value import Value
from ostinato.ledger.settings import other_settings, settings
from ostinato.study import recipe_steps
from ostinato.study.records import Arm

Changes = Mapping[str, str]
"""{setting: its value}, of the settings that are not as in the base."""


@dataclass(frozen=True)
class Quadruple:
    """first and second: each one change of `base`; both: the two together. changed: what each of the two sets."""

    base: str
    first: str
    second: str
    both: str
    changed: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


@dataclass(frozen=True)
class Interaction:
    """gains: of first, second and both over the base; value: the interaction.

    on_first: the second's gain on top of the first as a share of what it gains alone; on_second: the first's, on top of the second.
    """

    arms: Quadruple
    gains: tuple[Value, Value, Value]
    value: Value
    on_first: Share
    on_second: Share

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        gains = {name: gain.point for name, gain in zip(("first", "second", "both"), self.gains, strict=True)}
        return {**asdict(self.arms), "gains": gains, "interaction": self.value.point, "unit": self.value.unit,
                "clear": not self.value.doubt, "by_seed": {str(seed): at for seed, at in self.value.by_seed().items()},
                "second_on_first": self.on_first.record(), "first_on_second": self.on_second.record()}  # fmt: skip


def interaction(contrast: Contrast, arms: Quadruple) -> Interaction:
    """Raises NotEstimable where one of the four has no loss, or they share no seed."""
    base, first, second, both = arms.base, arms.first, arms.second, arms.both
    gains = tuple(contrast({base: 1.0, arm: -1.0}) for arm in (first, second, both))
    value = contrast({first: 1.0, second: 1.0, both: -1.0, base: -1.0})
    on_first = share(contrast({first: 1.0, both: -1.0}), gains[1])
    on_second = share(contrast({second: 1.0, both: -1.0}), gains[0])
    return Interaction(arms, gains, value, on_first, on_second)


def all_settings(arm: Arm) -> dict[str, str]:
    """Everything that an arm sets, by key; seeds and costs are left out."""
    sizes = {"layers": str(len(arm.model.layers)), "tokens": f"{recipe_steps(arm.recipe).tokens:,}"}
    return {key: value for key, value in {**settings(arm), **other_settings(arm), **sizes}.items() if key != "seeds"}


def changes(mine: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """What an arm sets otherwise than the base, both as `all_settings`."""
    return {key: mine.get(key, "not set") for key in sorted({*mine, *base}) if mine.get(key) != base.get(key)}


def quadruples(arms: Sequence[Arm], bases: Sequence[str]) -> list[Quadruple]:
    """Every table of two changes around these bases; the change of the schedule, where there is one, is the first."""
    known = {arm.name: all_settings(arm) for arm in arms}
    found: dict[frozenset[str], Quadruple] = {}
    for base in bases:
        named: dict[frozenset[tuple[str, str]], str] = {}
        for arm, mine in known.items():
            named.setdefault(frozenset(changes(mine, known[base]).items()), arm)
        named.pop(frozenset(), None)
        for one, other in itertools.combinations(named, 2):
            keys = [tuple(sorted(key for key, _ in side)) for side in (one, other)]
            both = named.get(one | other)
            if both is None or set(keys[0]) & set(keys[1]):
                continue
            first, second = (one, other) if "schedule" not in keys[1] else (other, one)
            ordered = (keys[0], keys[1]) if first is one else (keys[1], keys[0])
            made = Quadruple(base, named[first], named[second], both, ordered)
            found.setdefault(frozenset((base, named[one], named[other], both)), made)
    return list(found.values())
