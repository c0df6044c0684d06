"""Minimal pairs: how often the good sentence is likelier, and what one arm finds that another does not.

A pair counts 1 where the good sentence is likelier, 1/2 where both are equally likely; a pair of one and the same text is left out.
Accuracies of a paradigm, a field and a term are over all their pairs; the macro mean is over paradigms, as BLiMP's (Warstadt et al., 2020).

Two arms are compared on the same pairs:
- items: those that one finds and the other does not, McNemar's test in its exact form (binomial with 1/2; McNemar, Psychometrika 12, 1947);
- paradigms: won, lost and tied, and Student's t interval of the macro mean of the differences, the paradigm being the unit;
- concentration: the fewest paradigms whose differences add up to half of the whole.
Several seeds of an arm are added pair by pair before anything is divided; items are tested seed by seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ostinato.analysis.intervals import Interval, over_values
from ostinato.analysis.words import NOT_ESTIMABLE, signed
from ostinato.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

Convention = Literal["bos", "skip_first"]
"""One BOS in front and every token scored; or the first token not scored (measure/minimal_pairs.py)."""
CONVENTIONS: tuple[Convention, ...] = Convention.__args__


@dataclass(frozen=True)
class Score:
    """pairs: that count.  right: of which the good sentence is likelier; tied: of which both are equally likely.  identical: left out."""

    pairs: int = 0
    right: int = 0
    tied: int = 0
    identical: int = 0

    @property
    def accuracy(self) -> float | None:
        """A tie is half right. None where no pair counts."""
        return (self.right + self.tied / 2) / self.pairs if self.pairs else None

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {**vars(self), "accuracy": self.accuracy}


@dataclass(frozen=True)
class PairScores:
    """Scores of one model, or of several seeds of it added up, by paradigm, field and term."""

    convention: Convention
    paradigms: Mapping[str, Score]
    fields: Mapping[str, Score]
    terms: Mapping[str, Score]
    total: Score

    @property
    def macro(self) -> float | None:
        """The mean of the accuracies of the paradigms that have one."""
        known = [score.accuracy for score in self.paradigms.values() if score.accuracy is not None]
        return float(np.mean(known)) if known else None

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        groups = {name: {key: score.record() for key, score in getattr(self, name).items()} for name in ("paradigms", "fields", "terms")}
        return {"convention": self.convention, "macro": self.macro, **groups, "total": self.total.record()}


@dataclass(frozen=True)
class McNemar:
    """gained: pairs that the arm finds and the reference does not; lost: the other way round (a tie is half found).  p: two-sided."""

    gained: int
    lost: int

    @property
    def p(self) -> float:
        """Of so uneven a split when either way is equally likely."""
        from scipy.special import bdtr

        return min(1.0, 2 * float(bdtr(min(self.gained, self.lost), self.gained + self.lost, 0.5)))


@dataclass(frozen=True)
class PairedPairs:
    """An arm beside a reference on the same pairs; positive is better.

    differences: by paradigm, of accuracies.  macro: their mean; interval: of it, over paradigms (None for fewer than two).
    by_seed: the macro difference of each seed; items: McNemar's test of each.  half: how many paradigms carry half of the difference.
    """

    differences: Mapping[str, float]
    macro: float | None
    interval: Interval | None
    by_seed: Mapping[int, float]
    items: Mapping[int, McNemar]
    half: int | None

    @property
    def won(self) -> int:
        """Paradigms."""
        return sum(value > 0 for value in self.differences.values())

    @property
    def lost(self) -> int:
        """Paradigms."""
        return sum(value < 0 for value in self.differences.values())

    @property
    def tied(self) -> int:
        """Paradigms."""
        return len(self.differences) - self.won - self.lost

    @property
    def p(self) -> float:
        """The largest over seeds: that at least one seed shows no difference."""
        return max(test.p for test in self.items.values())

    @property
    def clear(self) -> bool:
        """Whether the interval over paradigms is there and does not hold 0, and the difference is beyond twice the spread of seeds."""
        noise = 2 * float(np.std(list(self.by_seed.values()), ddof=1)) if len(self.by_seed) > 1 else 0.0
        return self.interval is not None and not self.interval.holds(0.0) and abs(self.macro) > noise

    @property
    def words(self) -> str:
        """The comparison in words."""
        if self.macro is None:
            return NOT_ESTIMABLE
        if not self.clear:
            return f"about zero ({signed(100 * self.macro, 1)} points)"
        return f"{'better' if self.macro > 0 else 'worse'} by {abs(100 * self.macro):.1f} points"

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        items = {str(seed): {**vars(test), "p": test.p} for seed, test in self.items.items()}
        return {**vars(self), "interval": self.interval and [self.interval.low, self.interval.high], "items": items, "p": self.p,
                "by_seed": {str(seed): value for seed, value in self.by_seed.items()}, "differences": dict(self.differences),
                "won": self.won, "lost": self.lost, "tied": self.tied, "words": self.words}  # fmt: skip


def outcomes(table: pa.Table, convention: Convention = "bos") -> np.ndarray:
    """float64 [N]: 1 where the good sentence of a pair is likelier, 0.5 for a tie, 0, and NaN where both are the same text.

    Raises StoreError where the model has not been scored so.
    """
    good, bad = (table[f"{side}_{convention}"].to_numpy() for side in ("good", "bad"))
    if np.isnan(good).any() or np.isnan(bad).any():
        raise StoreError(f"pairs without log-probabilities in the convention {convention}", "a model without a BOS is scored without one",
                         "use the convention skip_first")  # fmt: skip
    found = np.where(good > bad, 1.0, np.where(good == bad, 0.5, 0.0))
    found[table["identical"].to_numpy()] = np.nan
    return found


def pair_scores(tables: Sequence[pa.Table], convention: Convention = "bos") -> PairScores:
    """The scores of one model, or of several seeds of it on the same pairs. Raises StoreError as `outcomes`, and for other pairs."""
    _same_pairs(tables)
    found_KN = np.stack([outcomes(table, convention) for table in tables])
    groups = [_by(tables[0], column, found_KN) for column in ("paradigm", "field", "term")]
    return PairScores(convention, *groups, _score(found_KN))


def compare_pairs(tables: Mapping[int, tuple[pa.Table, pa.Table]], convention: Convention = "bos") -> PairedPairs:
    """tables: {seed: (of the reference, of the arm)}, one or more. Raises StoreError as `pair_scores`."""
    _same_pairs([table for pair in tables.values() for table in pair])
    found = {seed: tuple(outcomes(table, convention) for table in pair) for seed, pair in tables.items()}
    paradigm, names = _codes(next(iter(tables.values()))[0], "paradigm")
    by_seed = {seed: _differences(paradigm, names, arm - reference) for seed, (reference, arm) in found.items()}
    differences = {name: float(np.mean([values[name] for values in by_seed.values()])) for name in next(iter(by_seed.values()))}
    values = np.array(list(differences.values()))
    items = {seed: McNemar(int((arm > reference).sum()), int((arm < reference).sum())) for seed, (reference, arm) in found.items()}
    return PairedPairs(
        differences, float(values.mean()) if len(values) else None, over_values(values),
        {seed: float(np.mean(list(of.values()))) for seed, of in by_seed.items() if of}, items, carries_half(values),
    )  # fmt: skip


def carries_half(values: Iterable[float]) -> int | None:
    """The fewest of the values that add up to half of their sum, or more; None where the sum is 0."""
    values = np.sort(np.array(list(values), dtype=np.float64))[::-1]
    whole = values.sum()
    if not whole:
        return None
    running = np.cumsum(values) if whole > 0 else np.cumsum(-values[::-1])
    return int(np.argmax(running >= abs(whole) / 2)) + 1


def _same_pairs(tables: Sequence[pa.Table]) -> None:
    def which(table: pa.Table) -> tuple[list[str], np.ndarray]:
        codes, names = _codes(table, "paradigm")
        return names, np.stack([codes, table["pair"].to_numpy(), table["identical"].to_numpy()])

    (names, rows), *others = [which(table) for table in tables]
    if not all(more == names and np.array_equal(rows, theirs) for more, theirs in others):
        raise StoreError("tables of different minimal pairs", "models are compared on the same pairs", "measure both on the same folder")


def _codes(table: pa.Table, column: str) -> tuple[np.ndarray, list[str]]:
    """int [N] which of the names each row has, and the names in their order."""
    found = table[column].cast("string").combine_chunks().dictionary_encode()
    names = found.dictionary.to_pylist()
    place = np.argsort(np.argsort(np.array(names)))
    return place[found.indices.to_numpy()], sorted(names)


def _by(table: pa.Table, column: str, found_KN: np.ndarray) -> dict[str, Score]:
    codes, names = _codes(table, column)
    return {name: _score(found_KN[:, codes == place]) for place, name in enumerate(names)}


def _score(found: np.ndarray) -> Score:
    same = np.isnan(found)
    return Score(int((~same).sum()), int((found == 1).sum()), int((found == 0.5).sum()), int(same.sum()))


def _differences(paradigm: np.ndarray, names: Sequence[str], difference: np.ndarray) -> dict[str, float]:
    """By paradigm, of those that have a pair that counts."""
    counted = ~np.isnan(difference)
    sums = np.bincount(paradigm[counted], difference[counted], len(names))
    counts = np.bincount(paradigm[counted], minlength=len(names))
    return {name: float(sums[place] / counts[place]) for place, name in enumerate(names) if counts[place]}
