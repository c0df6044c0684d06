"""Several seeds of one arm against the same seeds of the reference. For a claim about an architecture the seed is the unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ostinato.analysis.intervals import Interval, over_values
from ostinato.analysis.paired import Paired, paired
from ostinato.analysis.words import NATS, gain_in_words, range_in_words
from ostinato.store import LossTable, TargetTable


@dataclass(frozen=True)
class OverSeeds:
    """gains: of each seed, in `unit`; mean and sd over them (sd None for one seed); interval: Student's t over seeds.

    noise: a mean gain no larger than this is inside the noise of seeds. words: the gain, and how much the seeds support it.
    """

    gains: Mapping[int, float]
    mean: float | None
    sd: float | None
    interval: Interval | None
    noise: float
    words: str
    caution: str
    unit: str = NATS

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        gains = {str(seed): gain for seed, gain in self.gains.items()}
        return {**vars(self), "gains": gains, "interval": self.interval and [self.interval.low, self.interval.high]}


def over_seeds(gains: Mapping[int, float], documents: Interval | None = None, unit: str = NATS) -> OverSeeds:
    """gains: {seed: gain in `unit`}, paired by seed. documents: the interval over documents of the mean gain, where it is known.

    The gain is "about zero" when `documents` holds 0, or when it is inside the noise of seeds. From three seeds on that noise is the half
    width of the 95% interval over seeds. The interval of two seeds (12.7 standard errors) would call nearly every gain zero, so with two
    the noise is twice the standard deviation of their gains, the interval is shown beside it, and the claim is called weak.
    """
    values = np.array([gains[seed] for seed in sorted(gains)], dtype=np.float64)
    if not len(values):
        return OverSeeds(dict(gains), None, None, None, 0.0, gain_in_words(None), "no seed is measured in both arms", unit)
    mean, interval = float(values.mean()), over_values(values)
    sd = float(values.std(ddof=1)) if len(values) > 1 else None
    noise = 0.0 if sd is None or interval is None else interval.high - mean if len(values) > 2 else 2 * sd
    words = gain_in_words(mean, documents, noise, unit)
    return OverSeeds(dict(gains), mean, sd, interval, noise, words, _caution(values, interval), unit)


def paired_over_seeds(tables: Mapping[int, tuple[LossTable, LossTable]], targets: TargetTable) -> tuple[Paired, OverSeeds]:
    """The comparison over documents, on losses averaged over seeds, and the one over seeds.

    tables: {seed: (losses of the reference, losses of the arm)}, one or more, all of `targets`.
    """
    means = [np.mean(np.stack([pair[side].losses for pair in tables.values()]), axis=0, dtype=np.float64) for side in (0, 1)]
    pairing = paired(means[0], means[1], targets.document, targets.bytes, row=targets.row)
    gains = {}
    for seed, (reference, arm) in tables.items():
        if len(arm.losses):
            gains[seed] = float(np.subtract(reference.losses, arm.losses, dtype=np.float64).sum() / len(arm.losses))
    return pairing, over_seeds(gains, pairing.interval)


def _caution(values: np.ndarray, interval: Interval | None) -> str:
    """What the number of seeds allows to be said."""
    if len(values) == 1:
        return "one seed: the spread between seeds is not known"
    signs = "" if (values > 0).all() or (values < 0).all() else "; the seeds disagree in sign"
    if len(values) == 2:
        return f"weak: two seeds (95% interval over seeds {range_in_words(interval)}){signs}"
    return f"{len(values)} seeds (95% interval {range_in_words(interval)}){signs}"
