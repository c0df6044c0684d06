"""How much a loss changes with the seed, pooled over the arms of a study; and with nothing but how it was computed.

Seeds. An arm of three seeds tells little of its own noise (two degrees of freedom), all arms together much more. Runs of one seed share
their batches and the draw of their weights, so a loss is taken as arm + seed + rest (a two-way layout without replication; H. Scheffe, The
Analysis of Variance, 1959, ch. 4): the rest has spread s with (arms - 1)(seeds - 1) degrees of freedom where every run is there, and a
gain, the difference of two arms on one seed, has spread s sqrt(2). It is taken to be alike in all arms.

Implementation. Runs of the same model, recipe and seed, made again with other threads, another micro-batch or checkpointing, differ by the
order in which numbers are added, which training amplifies; their spread within an arm and seed is pooled over all of these. A gain inside
it could come from a change of machine. Runs of equal settings agree to the same bits, and then it is 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ostinato.judge.estimable import NotEstimable


@dataclass(frozen=True)
class SeedNoise:
    """In the unit of the losses.  alone: {arm: the spread of its losses over seeds}.  sd: of one arm's losses, pooled over arms.

    rest: what is left beside the arm and the seed; gain: the spread over seeds of the gain of one arm over another.  freedom: of the two.
    """

    alone: Mapping[str, float]
    sd: float
    sd_freedom: int
    rest: float
    freedom: int

    @property
    def gain(self) -> float:
        return self.rest * math.sqrt(2)

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {**vars(self), "alone": dict(self.alone), "gain": self.gain}


def seed_noise(losses: Mapping[str, Mapping[int, float]]) -> SeedNoise:
    """losses: {arm: {seed: loss}}; seeds may be missing.

    Raises NotEstimable where no two arms have two seeds in common: then nothing is left beside arm and seed.
    """
    of_arms = {arm: np.array(list(seeds.values())) for arm, seeds in losses.items() if len(seeds) > 1}
    rows = [(arm, seed, loss) for arm, seeds in losses.items() for seed, loss in seeds.items()]
    arms, seeds = list(losses), sorted({seed for _, seed, _ in rows})
    design = np.zeros((len(rows), len(arms) + len(seeds)))
    for row, (arm, seed, _) in enumerate(rows):
        design[row, arms.index(arm)] = design[row, len(arms) + seeds.index(seed)] = 1
    freedom = len(rows) - int(np.linalg.matrix_rank(design)) if rows else 0
    if not freedom:
        what = "one seed" if len(seeds) == 1 else "no two arms with two seeds in common"
        raise NotEstimable(f"{what}: the noise of seeds is not known", "it takes two arms and two seeds of both", "run more seeds")
    loss = np.array([loss for *_, loss in rows])
    rest = loss - loss.mean()
    rest = rest - design @ np.linalg.lstsq(design, rest, rcond=None)[0]
    within, sd_freedom = pooled(of_arms.values())
    return SeedNoise({arm: float(values.std(ddof=1)) for arm, values in of_arms.items()}, within, sd_freedom,
                     math.sqrt(float(rest @ rest) / freedom), freedom)  # fmt: skip


def pooled(groups: Iterable[Sequence[float] | np.ndarray]) -> tuple[float, int]:
    """The standard deviation within groups, and its degrees of freedom: sums of squares over the sum of (n - 1), by one division.

    Raises NotEstimable where no group has two values.
    """
    groups = [np.asarray(group, dtype=np.float64) for group in groups]
    freedom = sum(len(group) - 1 for group in groups if len(group))
    if not freedom:
        raise NotEstimable("no group of two values", "a spread is within groups of two or more", "repeat at least one of them")
    squares = math.fsum(float(np.sum((group - group.mean()) ** 2)) for group in groups if len(group))
    return math.sqrt(squares / freedom), freedom


@dataclass(frozen=True)
class Repeat:
    """One run made more than once.  runs: {name of the arm: its loss}; differ: what was set differently, as `threads: 1 in base, 2 in
    again`, empty where all settings are known to agree.
    """

    seed: int
    runs: Mapping[str, float]
    differ: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {"seed": self.seed, "runs": dict(self.runs), "differ": list(self.differ)}


@dataclass(frozen=True)
class ImplementationNoise:
    """sd: of a loss, within runs of the same seed; gain: of a difference of two such runs.  largest: the largest difference seen."""

    sd: float
    freedom: int
    largest: float
    repeats: tuple[Repeat, ...]

    @property
    def gain(self) -> float:
        return self.sd * math.sqrt(2)

    @property
    def sources(self) -> list[str]:
        """What the repeats differ in, each once."""
        return list(dict.fromkeys(words for repeat in self.repeats for words in repeat.differ))

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {**vars(self), "gain": self.gain, "sources": self.sources, "repeats": [repeat.record() for repeat in self.repeats]}


def implementation_noise(repeats: Iterable[Repeat]) -> ImplementationNoise:
    """Raises NotEstimable where nothing was run again."""
    repeats = tuple(repeat for repeat in repeats if len(repeat.runs) > 1)
    if not repeats:
        raise NotEstimable("no run was made again, so the noise of the implementation is not known",
                           "it takes the same model, recipe and seed in a run of its own",
                           "add an arm that is the same but for `again: threads`, and run it with other threads")  # fmt: skip
    sd, freedom = pooled([list(repeat.runs.values()) for repeat in repeats])
    return ImplementationNoise(sd, freedom, max(max(repeat.runs.values()) - min(repeat.runs.values()) for repeat in repeats), repeats)
