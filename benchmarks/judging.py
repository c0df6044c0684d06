"""Are clear verdicts as seldom wrong as they say? Simulated studies through the very evaluation that judges real ones.

    python benchmarks/judging.py [--quick] [--json FILE]

1. Identical arms: a study has a reference and four arms whose true gain is 0 on every document; seeds and documents differ by noise. How
   many studies call a prediction SUPPORTED and clear, and how many do so of a family of six, after Holm (asked: at most 5%). The same where
   one of two arms lacks a seed, in the words of losses and of gains.
2. Intervals: how often 95% intervals hold the truth (asked: within 2 points, from 40 documents or 3 seeds on). Documents have lognormal
   sizes (spread of the logarithm 0.8), an effect common to their tokens and noise a token, as in docs/decisions/0080.
3. Power: how often a true difference of the size that `judge.power` calls detectable is found (asked: within 2.58
   simulation errors, 99%), and of as many seeds as it asks for.
4. Why seeds are not bootstrapped: the coverage of a percentile bootstrap of 2 to 5 seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from harness import Row, main

from ostinato.analysis.intervals import over_clusters, over_values
from ostinato.claims import Measure
from ostinato.judge.bca import bca_each
from ostinato.judge.conclude import Conclusions
from ostinato.judge.fieller import ratio_over_documents, ratio_over_seeds
from ostinato.judge.power import PROMISED, detectable, seeds_needed
from ostinato.judge.value import Value, over_units
from ostinato.judge.verdicts import CLEAR, SUPPORTED
from ostinato.study.records import Prediction

ARMS = ("a", "b", "c", "d")
FAMILY = {"p1": "gain(a) > 0", "p2": "gain(b) > 0", "p3": "gain(c) > 0", "p4": "gain(d) > 0", "p5": "gain(a) > gain(b)",
          "p6": "gain(c) > gain(d) and gain(c) > 0"}  # fmt: skip
OF_SEEDS, OF_DOCUMENTS, OF_TOKENS = 0.01, 0.03, 0.4
"""Spreads: of a gain over seeds, of a document's gain, and of one token's, in nats."""


def sizes_of(random: np.random.Generator, documents: int) -> np.ndarray:
    return np.ceil(np.exp(random.normal(math.log(200), 0.8, documents)))


class Simulated:
    """Measurements of a study that nobody ran.  gains_ASK: what each document gains, by arm and seed; sizes: [K] its tokens."""

    arms, reference = ("base", *ARMS), "base"

    def __init__(self, gains_ASK: np.ndarray, sizes: np.ndarray):
        keys = np.arange(len(sizes), dtype=np.uint64)
        self._values: dict[str, Value] = {}
        for arm, gains_SK in zip(ARMS, gains_ASK, strict=True):
            seeds = dict(enumerate(gains_SK.sum(1) / sizes.sum()))
            self._values[arm] = over_units(keys, gains_SK.mean(0), sizes, seeds, "nats/token", "document")

    def value(self, term: Measure, seeds: frozenset[int] | None = None) -> Value:
        """All have the same seeds."""
        return self._values[term.arm]


class ByRun:
    """Measurements of runs that nobody made.  losses: {arm: {seed: [K] what each document loses}}; sizes: [K] its tokens."""

    def __init__(self, losses: dict[str, dict[int, np.ndarray]], sizes: np.ndarray):
        self.arms, self.reference, self._losses, self._sizes = tuple(losses), "base", losses, sizes

    def value(self, term: Measure, seeds: frozenset[int] | None = None) -> Value:
        found = {seed: self._losses["base"][seed] - mine if term.name == "gain" else mine for seed, mine in self._losses[term.arm].items()
                 if seeds is None or seed in seeds}  # fmt: skip
        by_seed = {seed: float(each.sum() / self._sizes.sum()) for seed, each in found.items()}
        keys = np.arange(len(self._sizes), dtype=np.uint64)
        return over_units(keys, np.mean(list(found.values()), axis=0), self._sizes, by_seed, "nats/token", "document")


def study(random: np.random.Generator, seeds: int, documents: int, gain: float = 0.0) -> Simulated:
    """Arms share the runs of the reference, so their gains are correlated as in a real study."""
    sizes = sizes_of(random, documents)
    runs = (random.normal(0, OF_SEEDS / math.sqrt(2), (1 + len(ARMS), seeds, 1)) * sizes
            + random.normal(0, OF_DOCUMENTS / math.sqrt(2), (1 + len(ARMS), seeds, documents)) * sizes
            + random.normal(0, OF_TOKENS / math.sqrt(2), (1 + len(ARMS), seeds, documents)) * np.sqrt(sizes))  # fmt: skip
    return Simulated(runs[:1] - runs[1:] + gain * sizes, sizes)


def rate(hits: int, number: int) -> tuple[float, float]:
    """In per cent, and the simulation error of it."""
    share = hits / number
    return 100 * share, 100 * math.sqrt(max(share * (1 - share), 0.25 / number) / number)


def identical(number: int, seeds: int, documents: int) -> list[Row]:
    """How often noise is called news."""
    random = np.random.default_rng([1, seeds, documents])
    predictions = [Prediction(name=name, claim="", supported={SUPPORTED: text}, killed={}, between={}) for name, text in FAMILY.items()]
    one = plain = adjusted = supported = 0
    for _ in range(number):
        found = Conclusions(predictions, study(random, seeds, documents)).verdicts()
        clear = [verdict for verdict in found.values() if verdict.kind == SUPPORTED and verdict.strength == CLEAR]
        supported += found["p1"].kind == SUPPORTED
        one += any(verdict.name == "p1" for verdict in clear)
        plain += bool(clear)
        adjusted += any(verdict.holm <= 0.05 for verdict in clear)
    rows, said = [], f"identical arms, {seeds} seeds, {documents} documents"
    for claim, hits, notes in (
        ("a clear SUPPORTED", one, {"SUPPORTED by the point alone": f"{100 * supported / number:.1f}%"}),
        ("any clear of six, after Holm", adjusted, {"without Holm": f"{100 * plain / number:.1f}%"}),
    ):
        percent, error = rate(hits, number)
        rows.append(Row(f"{said}: {claim}", percent, 5.0, "%", percent, 5.0, True, notes={**notes, "simulation error": f"{error:.2f}"}))
    return rows


def lacking(number: int, seeds: int) -> list[Row]:
    """Two identical arms over a base; one of them lacks a seed. Seeds move all arms, and what is looped besides; documents hardly, so that
    seeds decide.
    """
    random, documents = np.random.default_rng([6, seeds]), 40
    texts = {"of losses": "loss(b) < loss(a)", "of gains": "gain(b) > gain(a)"}
    predictions = [Prediction(name=name, claim="", supported={SUPPORTED: text}, killed={}, between={}) for name, text in texts.items()]
    clear, twice = dict.fromkeys(texts, 0), 0
    for _ in range(number):
        sizes = sizes_of(random, documents)
        seed, loop = random.normal(0, [[2 * OF_SEEDS], [OF_SEEDS]], (2, seeds))
        runs = 3 + seed[:, None] + random.normal(0, OF_SEEDS / 10, (3, seeds, 1))
        runs = runs + random.normal(0, OF_DOCUMENTS / 30, (3, seeds, documents))
        runs[1:] += loop[:, None]
        losses = {arm: dict(enumerate(each * sizes)) for arm, each in zip(("base", "a", "b"), runs, strict=True)}
        del losses["b"][seeds - 1]
        found = Conclusions(predictions, ByRun(losses, sizes)).verdicts()
        for name, verdict in found.items():
            clear[name] += verdict.kind == SUPPORTED and verdict.strength == CLEAR
        twice += len({(verdict.kind, verdict.strength) for verdict in found.values()}) > 1
    rows = []
    for name, hits in clear.items():
        percent, error = rate(hits, number)
        rows.append(Row(f"identical arms, one arm lacks a seed of {seeds}: a clear SUPPORTED {name}", percent, 5.0, "%", percent, 5.0, True,
                        notes={"the two wordings disagree": f"{twice} times", "simulation error": f"{error:.2f}"}))  # fmt: skip
    return rows


def covered(claim: str, hits: int, number: int, asked: bool = True) -> Row:
    """How far the coverage of a 95% interval is from 95."""
    percent, error = rate(hits, number)
    off = abs(percent - 95)
    return Row(claim, off if asked else percent, 0.0 if asked else 95.0, "points" if asked else "%", off if asked else percent,
               2.0 if asked else None, True, notes={"covered": f"{percent:.1f}% (simulation error {error:.2f})"})  # fmt: skip


def gains_of(random: np.random.Generator, studies: int, sizes: np.ndarray, gain: float = 0.0) -> np.ndarray:
    """[studies, K]."""
    effect = random.normal(gain, OF_DOCUMENTS, (studies, len(sizes))) * sizes
    return effect + random.normal(0, OF_TOKENS, effect.shape) * np.sqrt(sizes)


def over_documents(number: int, documents: int) -> list[Row]:
    """Analytic, BCa and Fieller; sizes are drawn anew for every twentieth part of the studies."""
    random, groups = np.random.default_rng([2, documents]), 20
    hits = dict.fromkeys(("analytic", "BCa", "Fieller"), 0)
    for _ in range(groups):
        sizes = sizes_of(random, documents)
        gains, other = gains_of(random, number // groups, sizes, 0.02), gains_of(random, number // groups, sizes, 0.02)
        hits["analytic"] += sum(over_clusters(mine, sizes).holds(0.02) for mine in gains)
        hits["BCa"] += sum(interval.holds(0.02) for interval in bca_each(gains, sizes))
        shares = zip(0.5 * gains + 0.1 * other - 0.002 * sizes, gains, strict=True)  # the truth is a half
        hits["Fieller"] += sum(ratio_over_documents(top, bottom, sizes).holds(0.5) for top, bottom in shares)
    return [covered(f"{name}, {documents} documents", found, number // groups * groups) for name, found in hits.items()]


def over_few_seeds(number: int, seeds: int) -> list[Row]:
    """Student's t, Fieller, and what a bootstrap of the seeds would cover."""
    random = np.random.default_rng([3, seeds])
    values, other = random.normal(1.0, 1.0, (2, number, seeds))
    asked = seeds >= 3
    t = sum(over_values(mine).holds(1.0) for mine in values)
    ratio = sum(ratio_over_seeds(dict(enumerate(0.5 * mine + 0.3 * theirs - 0.3)), dict(enumerate(mine))).holds(0.5)
                for mine, theirs in zip(values, other, strict=True))  # fmt: skip
    drawn = random.integers(0, seeds, (500, seeds))
    means = values[:, drawn].mean(2)
    low, high = np.quantile(means, (0.025, 0.975), axis=1)
    bootstrap = int(np.count_nonzero((low <= 1.0) & (high >= 1.0)))
    return [covered(f"Student's t, {seeds} seeds", t, number, asked), covered(f"Fieller, {seeds} seeds", ratio, number, asked),
            covered(f"percentile bootstrap, {seeds} seeds: not used", bootstrap, number, False)]  # fmt: skip


def planted(number: int, seeds: int) -> Row:
    """A true gain of the detectable size, judged over seeds; documents are many, so that seeds decide."""
    random, gain = np.random.default_rng([4, seeds]), detectable(OF_SEEDS / math.sqrt(seeds), seeds - 1)
    prediction = [Prediction(name="p", claim="", supported={SUPPORTED: "gain(a) > 0"}, killed={}, between={})]
    hits, sizes = 0, np.full(50, 1000.0)
    for _ in range(number):
        by_seed = gain + random.normal(0, OF_SEEDS, (len(ARMS), seeds, 1))
        gains = by_seed * sizes + random.normal(0, 0.001, (len(ARMS), 1, 50)) * sizes
        verdict = Conclusions(prediction, Simulated(gains, sizes)).verdict("p")
        hits += verdict.kind == SUPPORTED and verdict.strength == CLEAR
    return _power(f"planted gain of {gain:.4f}, {seeds} seeds, spread {OF_SEEDS}", hits, number)


def settled(number: int, effect: float) -> Row:
    """As many seeds as `seeds_needed` says, for a gain of so many spreads; the least number has at least the promised power."""
    seeds = seeds_needed(effect, 1.0)
    values = np.random.default_rng([5, int(100 * effect)]).normal(effect, 1.0, (number, seeds))
    hits = sum(not over_values(mine).holds(0.0) for mine in values)
    percent, error = rate(hits, number)
    least = 100 * PROMISED - 2.58 * error
    return Row(f"a gain of {effect:g} spreads with {seeds} seeds", percent, 100 * PROMISED, "%", percent, least,
               notes={"simulation error": f"{error:.2f}"})  # fmt: skip


def _power(claim: str, hits: int, number: int) -> Row:
    percent, error = rate(hits, number)
    off = abs(percent - 100 * PROMISED)
    return Row(claim, off, 0.0, "points", off, 2.58 * error, True, notes={"found": f"{percent:.1f}% (simulation error {error:.2f})"})


def measure(quick: bool = False) -> list[Row]:
    """A row a claim."""
    number: Callable[[int], int] = lambda many: many // 20 if quick else many  # noqa: E731
    rows = [row for seeds, documents in ((3, 40), (5, 40), (2, 100)) for row in identical(number(2000), seeds, documents)]
    rows += [row for seeds in (3, 4, 6) for row in lacking(number(2000), seeds)]
    rows += [row for documents in (40, 100) for row in over_documents(number(4000), documents)]
    rows += [row for seeds in (2, 3, 4, 5) for row in over_few_seeds(number(4000), seeds)]
    rows += [planted(number(3000), seeds) for seeds in (3, 5)]
    return rows + [settled(number(4000), effect) for effect in (2.0, 1.0)]


if __name__ == "__main__":
    main(measure, __doc__)
