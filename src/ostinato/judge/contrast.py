"""A contrast: a weighted sum of the losses of arms, with the noise that is left when what they share has cancelled.

An account of a gain is a few contrasts. A gain is {reference: 1, arm: -1}, an interaction has four arms; all of them are paired in the same
way, target by target on one text, and seed by seed over the seeds that every arm of the contrast has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ostinato.analysis.arms import ArmResult
from ostinato.analysis.words import BITS, NATS
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.value import Value

Contrast = Callable[[Mapping[str, float]], Value]
"""{arm: weight} -> the weighted sum of their losses. Raises NotEstimable where an arm has none, or they are not of one text."""


def gain(contrast: Contrast, arm: str, over: str) -> Value:
    """What `arm` gains over another. Raises NotEstimable."""
    return contrast({over: 1.0, arm: -1.0})


def of_values(losses: Mapping[str, Value]) -> Contrast:
    """Of losses that are numbers already, as a published table has them."""

    def contrast(weights: Mapping[str, float]) -> Value:
        for arm in weights:
            if arm not in losses:
                raise NotEstimable(f"no loss of {arm} is given")
        return _weighted({arm: losses[arm] for arm in weights}, weights)

    return contrast


class OfRuns:
    """Of the finished runs of a study: each is read once, whatever the number of contrasts.

    read: (arm, seed) -> its loss with the residual of every document, in `unit`. Bits a byte compare arms with other tokenizers where
    both scored the same documents, and nats a token those that scored the same targets.
    """

    def __init__(self, results: Mapping[str, ArmResult], read: Callable[[str, int], Value], unit: str = NATS):
        self.results, self.unit = results, unit
        self._read = read
        self._losses: dict[tuple[str, int], Value] = {}
        self._known: dict[frozenset[tuple[str, float]], Value] = {}

    def __call__(self, weights: Mapping[str, float]) -> Value:
        key = frozenset(weights.items())
        if key not in self._known:
            self._known[key] = self._find(weights)
        return self._known[key]

    def _find(self, weights: Mapping[str, float]) -> Value:
        targets = {arm: self._targets(arm) for arm in weights}
        common = sorted(set.intersection(*map(set, targets.values())))
        if not common:
            raise NotEstimable(f"no seed is finished in all of {', '.join(weights)}", "runs are paired by seed", "run the same seeds")
        if self.unit == NATS and len({targets[arm][seed] for arm in weights for seed in common}) > 1:
            raise NotEstimable(f"the losses of {', '.join(weights)} are not of the same targets")
        by_seed = {seed: _weighted({arm: self._loss(arm, seed) for arm in weights}, weights) for seed in common}
        return over_seeds(by_seed)

    def _targets(self, arm: str) -> dict[int, str | None]:
        """{seed: what its loss is of}, of the runs that are at the end of their training."""
        found = {run.seed: run.target_id for run in self.results[arm].runs if run.final} if arm in self.results else {}
        if not found:
            raise NotEstimable(f"no run of {arm} is finished")
        return found

    def _loss(self, arm: str, seed: int) -> Value:
        if (arm, seed) not in self._losses:
            self._losses[arm, seed] = self._read(arm, seed)
        return self._losses[arm, seed]


def over_seeds(values: Mapping[int, Value]) -> Value:
    """The mean over seeds, with the deviation of each from it.  values: {seed: the number of that seed alone}."""
    alone = {str(seed): replace(value, seeds={}) for seed, value in values.items()}
    mean = _weighted(alone, dict.fromkeys(alone, 1 / len(alone)))
    return replace(mean, seeds={seed: value.point - mean.point for seed, value in values.items()})


def _weighted(values: Mapping[str, Value], weights: Mapping[str, float]) -> Value:
    """Raises NotEstimable for losses in bits a byte that are not of the same documents."""
    first, *others = (values[name] * weight for name, weight in weights.items())
    for other in others:
        if first.unit == BITS and first.documents and other.documents and len(first.documents) != len(other.documents):
            raise NotEstimable(f"{' and '.join(values)} scored other documents")
        first = first + other
    return first
