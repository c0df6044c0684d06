"""A ranking of arms, and how much of it is noise: which neighbours are told apart, and how often the order would come out again.

Neighbours are told apart by seeds and by documents both: Student's t of their difference with the noise pooled over all arms
(`noise.seed_noise`), and the interval over documents (`analysis.over_clusters`); the larger p of the two, adjusted for the number of
neighbours (`holm`), is at most 5%. How often the order holds: over samples of documents (40 or more), and over seeds drawn anew from
normal noise of the pooled spread, itself drawn from what the degrees of freedom leave open (a parametric bootstrap; a bootstrap of 2 to 5
seeds would repeat the same few runs). P. Hall and H. Miller, Using the bootstrap to quantify the authority of an empirical ranking, Annals
of Statistics 37, 2009: a ranking is worth what its neighbours are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ostinato.analysis.intervals import LEVEL, over_clusters
from ostinato.judge.bca import LEAST
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.holm import holm
from ostinato.judge.noise import SeedNoise, seed_noise
from ostinato.judge.resample import ratios

DRAWS = 10_000


@dataclass(frozen=True)
class Neighbours:
    """Two arms next to each other in the ranking.  difference: how much larger the loss of `worse` is, in nats a token.

    p_seeds, p_documents: two-sided, None where that noise is not known.  p: the larger, adjusted for all neighbours; None where one lacks.
    """

    better: str
    worse: str
    difference: float
    p_seeds: float | None
    p_documents: float | None
    p: float | None = None
    reason: str = ""

    @property
    def distinguishable(self) -> bool:
        return self.p is not None and self.p <= 1 - LEVEL

    @property
    def words(self) -> str:
        """As `[3,2,2,1] against [4,2,1,1]: not distinguishable (0.0012 nats, adjusted p = 0.43)`."""
        told = "distinguishable" if self.distinguishable else "not distinguishable"
        known = f"adjusted p = {self.p:.2g}" if self.p is not None else self.reason
        return f"{self.better} against {self.worse}: {told} ({self.difference:.4f} nats, {known})"

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {**vars(self), "distinguishable": self.distinguishable, "words": self.words}


@dataclass(frozen=True)
class Ranking:
    """order: the best first, with the mean loss of each.  same_by_seeds, same_by_documents: how often all of it comes out again."""

    order: Mapping[str, float]
    neighbours: tuple[Neighbours, ...]
    same_by_seeds: float | None
    same_by_documents: float | None

    @property
    def words(self) -> list[str]:
        """A sentence on every pair of neighbours."""
        return [pair.words for pair in self.neighbours]

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {"order": dict(self.order), "neighbours": [pair.record() for pair in self.neighbours],
                "same_by_seeds": self.same_by_seeds, "same_by_documents": self.same_by_documents}  # fmt: skip


def rank_stability(losses: Mapping[str, Mapping[int, float]], sums: Mapping[str, np.ndarray] | None = None,
                   sizes: np.ndarray | None = None, draws: int = DRAWS, seed: int = 0) -> Ranking:  # fmt: skip
    """losses: {arm: {seed: nats a token}}; the seeds that all arms have are ranked.  sums: {arm: [K] nats of each document, over these
    seeds}; sizes: [K] its tokens.  Raises NotEstimable for fewer than two arms, and where they share no seed.
    """
    if len(losses) < 2:
        raise NotEstimable(f"{len(losses)} arm to rank", "a ranking is of two arms or more", "run another arm")
    common = sorted(set.intersection(*(set(seeds) for seeds in losses.values())))
    if not common:
        raise NotEstimable("no seed is in all of the arms", "arms are ranked on the same seeds", "run the missing seeds")
    kept = {arm: {one: seeds[one] for one in common} for arm, seeds in losses.items()}
    means = {arm: math.fsum(seeds.values()) / len(common) for arm, seeds in kept.items()}
    order = dict(sorted(means.items(), key=lambda item: item[1]))
    noise, reason = None, ""
    try:
        noise = seed_noise(kept)
    except NotEstimable as refused:
        reason = refused.reason
    found = []
    for better, worse in itertools.pairwise(order):
        difference = order[worse] - order[better]
        by_seeds = noise and _p(difference, noise.gain / math.sqrt(len(common)), noise.freedom)
        by_documents = None if sums is None or sizes is None else _p_of_documents(sums[worse] - sums[better], sizes)
        found.append((better, worse, difference, by_seeds, by_documents))
    by_seeds = noise and _same_seeds(order, noise, len(common), draws, seed)
    return Ranking(order, _adjusted(found, reason), by_seeds, _same_documents(order, sums, sizes))


def _adjusted(found: list[tuple], reason: str) -> tuple[Neighbours, ...]:
    """With Holm's p over the neighbours that both noises are known of."""
    both = [None if seeds is None or documents is None else max(seeds, documents) for *_, seeds, documents in found]
    adjusted = iter(holm(p for p in both if p is not None))
    reason = reason or "one document: the noise over documents is not known"
    return tuple(Neighbours(*one, p=None if p is None else next(adjusted), reason=reason if p is None else "")
                 for one, p in zip(found, both, strict=True))  # fmt: skip


def _p(difference: float, error: float, freedom: float) -> float:
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -abs(difference) / error)) if error else float(not difference)


def _p_of_documents(gains: np.ndarray, sizes: np.ndarray) -> float | None:
    interval = over_clusters(gains, sizes)
    return interval and _p(float(np.sum(gains) / np.sum(sizes)), interval.error, interval.freedom)


def _same_seeds(order: Mapping[str, float], noise: SeedNoise, seeds: int, draws: int, seed: int) -> float:
    random = np.random.Generator(np.random.Philox(seed))
    spread = noise.rest * np.sqrt(noise.freedom / random.chisquare(noise.freedom, draws) / seeds)
    drawn = np.array(list(order.values())) + spread[:, None] * random.standard_normal((draws, len(order)))
    return _in_order(drawn)


def _same_documents(order: Mapping[str, float], sums: Mapping[str, np.ndarray] | None, sizes: np.ndarray | None) -> float | None:
    if sums is None or sizes is None or len(sizes) < LEAST:
        return None
    return _in_order(ratios(np.stack([sums[arm] for arm in order]), sizes))


def _in_order(drawn: np.ndarray) -> float:
    """Of [draws, A] losses, the best arm first: the share that is in ascending order."""
    return float(np.mean((np.diff(drawn, axis=1) >= 0).all(axis=1)))
