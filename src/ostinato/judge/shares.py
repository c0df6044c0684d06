"""Shares of a gain: each arm's gain over that of the largest control, with the confidence set of the ratio.

"A quarter of the gain of twice the depth" is a ratio of two measured gains over one reference: what the reference's noise adds is in both,
and the interval is Fieller's (`fieller.py`). Where the gain that is divided by is not told from 0 there is no share, and it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ostinato.judge.fieller import Ratio, fieller, ratio_over_seeds
from ostinato.judge.value import DOCUMENTS, SEEDS, STATED, Residuals, Value
from ostinato.ledger import Ledger
from ostinato.ledger.settings import other_settings
from ostinato.study import tied_to

SIZE = {"schedule", "mixers", "width", "MLP", "value embeddings", "windows", "learning rate", "seeds"}
"""What a control may change: it is a larger model of the same kind, and nothing else."""


@dataclass(frozen=True)
class Share:
    """top / bottom.  point: None where it is not estimable, and `reason` says why; sets: {kind of noise: Fieller's set}."""

    top: Value
    bottom: Value
    point: float | None
    sets: dict[str, Ratio]
    reason: str = ""

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {"point": self.point, "reason": self.reason, "gain": self.top.point, "of": self.bottom.point, "unit": self.top.unit,
                "sets": {kind: ratio.record() for kind, ratio in self.sets.items()}}  # fmt: skip


def share(top: Value, bottom: Value) -> Share:
    """The share that one gain is of another; below 0 where it is a loss. None of a gain that is within noise of 0, or is a loss itself."""
    if bottom.about_zero or bottom.point < 0:
        said = "within noise of 0" if bottom.about_zero else "a loss"
        return Share(top, bottom, None, {}, f"the whole, {bottom.point:+.4g}, is {said}".replace("-", "−"))
    found = {kind: ratio for kind in (DOCUMENTS, SEEDS, STATED) if (ratio := ratio_of(top, bottom, kind))}
    return Share(top, bottom, top.point / bottom.point, found)


def ratio_of(top: Value, bottom: Value, kind: str) -> Ratio | None:
    """Fieller's set of top / bottom under one kind of noise, None where it is not known. Raises NotEstimable for a bottom of 0."""
    if kind == SEEDS:
        common = top.seeds.keys() & bottom.seeds.keys()
        return ratio_over_seeds(top.by_seed(), bottom.by_seed()) if len(common) > 1 else None
    parts = [value.documents if kind == DOCUMENTS else value.noise for value in (top, bottom)]
    if parts == [None, None]:
        return None
    freedom = min(getattr(value, "freedom" if kind == DOCUMENTS else "noise_freedom")
                  for value, part in zip((top, bottom), parts, strict=True) if part)  # fmt: skip
    return fieller(top.point, bottom.point, _covariance(*parts), freedom)


def _covariance(top: Residuals | None, bottom: Residuals | None) -> np.ndarray:
    """[2, 2] of two sums over the same units."""
    nothing = Residuals(np.zeros(0, np.uint64), np.zeros(0))
    top, bottom = top or nothing, bottom or nothing
    whole, apart = top.plus(bottom).error ** 2, top.plus(bottom.times(-1.0)).error ** 2
    both = (whole - apart) / 4
    return np.array([[top.error**2, both], [both, bottom.error**2]])


def largest_control(ledgers: Sequence[Ledger], reference: str) -> str | None:
    """The arm of most training FLOPs, then parameters, of those that are the reference but larger: untied, each layer once, same tokens."""
    (base,) = (ledger for ledger in ledgers if ledger.name == reference)
    found = [ledger for ledger in ledgers if is_control(ledger, base)]
    return max(found, key=lambda ledger: (ledger.flops_total, ledger.params_total)).name if found else None


def is_control(ledger: Ledger, base: Ledger) -> bool:
    """Whether an arm is `base` made larger, and shares nothing that `base` does not."""
    if any(row.pass_ > 1 for row in ledger.applications) or tied_to(ledger.arm.model) or ledger.tokens != base.tokens:
        return False
    changed = {key for key, value in ledger.settings.items() if value != base.settings[key]}
    return changed <= SIZE and other_settings(ledger.arm) == other_settings(base.arm) and ledger.flops_total > base.flops_total


