"""What a gain is worth in parameters and FLOPs, and both ways: added to a small model, or taken from a large one.

The same parameters may be worth twice as much added to the base as they cost when they are deleted from the larger model, because what is
left makes up for them. So both rates stand beside each other, and between neighbours of a ladder of sizes the marginal one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ostinato.judge.contrast import Contrast, gain
from ostinato.judge.value import Value
from ostinato.ledger import Ledger
from ostinato.ledger.compare import ABOUT
from ostinato.ledger.settings import other_settings

Way = Literal["added", "deleted", "marginal"]
MILLION = 1e6
SHARING = {"schedule", "tied sublayers", "seeds"}
"""Settings by which parameters are shared or not, at the same operations."""


@dataclass(frozen=True)
class Step:
    """From the smaller arm to the larger.  params, flops: by how much it grows, 0 where that is within 1%.

    added: `small` is the reference; deleted: `large` without some parameters is `small`, at equal FLOPs; marginal: neighbouring sizes.
    """

    way: Way
    small: str
    large: str
    params: float
    flops: float

    @property
    def arm(self) -> str:
        """The arm that the rate is of: the smaller one, where something is deleted."""
        return self.small if self.way == "deleted" else self.large

    @property
    def beside(self) -> str:
        """The arm that it is set beside."""
        return self.large if self.way == "deleted" else self.small


@dataclass(frozen=True)
class Rate:
    """gain: of the larger over the smaller.  per_million: for each million parameters; per_flop: for each FLOP of training."""

    step: Step
    gain: Value
    per_million: Value | None
    per_flop: Value | None

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        rates = {name: (value := getattr(self, name)) and value.point for name in ("per_million", "per_flop")}
        step = self.step
        return {"way": step.way, "arm": step.arm, "beside": step.beside, "params": step.params, "flops": step.flops,
                "gain": self.gain.point, "unit": self.gain.unit, "clear": not self.gain.doubt, **rates}  # fmt: skip


def rate(contrast: Contrast, step: Step) -> Rate:
    """Raises NotEstimable where an arm has no loss."""
    found = gain(contrast, step.large, step.small)
    return Rate(step, found, found * (MILLION / step.params) if step.params else None, found * (1 / step.flops) if step.flops else None)


def steps(ledgers: Sequence[Ledger], reference: str, controls: Sequence[str]) -> list[Step]:
    """Every step there is a rate of.  controls: the reference, and the arms that are it made larger (`shares.is_control`)."""
    by_name = {ledger.name: ledger for ledger in ledgers}
    base = by_name[reference]
    added = [_step("added", base, ledger) for ledger in ledgers if ledger is not base and ledger.params_total >= base.params_total]
    ladder = sorted((by_name[name] for name in controls if _same_width(by_name[name], base)), key=lambda ledger: ledger.params_total)
    marginal = [_step("marginal", small, large) for small, large in itertools.pairwise(ladder) if small is not base]
    deleted = [_step("deleted", small, large) for small, large in _deletions(ledgers, base)]
    return [step for step in (*added, *marginal, *deleted) if step.params or (step.way == "added" and step.flops)]


def _step(way: Way, small: Ledger, large: Ledger) -> Step:
    grown = [0.0 if 1 - ABOUT < more / less < 1 + ABOUT else more - less
             for less, more in ((small.params_total, large.params_total), (small.flops_total, large.flops_total))]  # fmt: skip
    return Step(way, small.name, large.name, grown[0], max(grown[1], 0.0))


def _same_width(ledger: Ledger, base: Ledger) -> bool:
    return all(ledger.settings[key] == base.settings[key] for key in ("width", "MLP", "value embeddings"))


def _deletions(ledgers: Sequence[Ledger], base: Ledger) -> Iterator[tuple[Ledger, Ledger]]:
    """(smaller, larger): the same operations from more parameters, where sharing alone differs, or one other setting and no sharing."""
    for small in ledgers:
        for large in ledgers:
            if small is base or large.params_total <= small.params_total * (1 + ABOUT) or not _same_work(small, large):
                continue
            changed = {key for key, value in small.settings.items() if value != large.settings[key]} - {"seeds"}
            if other_settings(small.arm) == other_settings(large.arm) and (changed <= SHARING or (len(changed) == 1)):
                yield small, large


def _same_work(small: Ledger, large: Ledger) -> bool:
    """As many applications of the same sublayers in the same order, for the same FLOPs and tokens."""
    one, other = ([(row.kind, row.part) for row in ledger.applications] for ledger in (small, large))
    return one == other and small.tokens == large.tokens and abs(small.flops_total / large.flops_total - 1) < ABOUT
