"""How sure a crossing is: its interval in tokens, and how likely it is before the end of the first pass over the text.

Documents are the units (`intervals`): they are drawn again with replacement, K of K, and every draw gives a whole curve of the gain over
training, from the same documents at every point, since neighbouring points share their text and most of their weights. Its last zero
is the crossing of that draw. A draw that is ahead (or behind) from the first point on crosses before it, and one that ends on the other
side has not crossed yet; the interval is then open at that end. Percentiles of draws (Efron and Tibshirani, 1993, ch. 13), losses averaged
over seeds: how it differs between seeds is seen from the seeds' own crossings, not from this interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ostinato.analysis.arms import ArmResult
from ostinato.analysis.documents import Groupings, shared
from ostinato.analysis.intervals import LEVEL
from ostinato.store import RunFolder, Store

DRAWS, SEED, AT_ONCE = 2000, 0, 100


@dataclass(frozen=True)
class Crossover:
    """low, high: in tokens; low −inf: perhaps before the first measured point; high inf: perhaps not crossed at the last one.

    first, last: these points. before, after: the shares of draws that cross before and after the first pass ends, None where its end is not
    known.
    """

    low: float
    high: float
    first: int
    last: int
    documents: int
    before: float | None
    after: float | None
    level: float = LEVEL

    @property
    def bracketed(self) -> bool:
        """Whether both ends are between measured points."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def side(self) -> str | None:
        """before or after the end of the first pass, where at least 97.5% of draws agree; unclear where they do not."""
        if self.before is None or self.after is None:
            return None
        sure = (1 + self.level) / 2
        return "before" if self.before >= sure else "after" if self.after >= sure else "unclear"

    def record(self) -> dict[str, Any]:
        """As JSON types; an open end is None."""
        low, high = (end if math.isfinite(end) else None for end in (self.low, self.high))
        return {**vars(self), "low": low, "high": high, "bracketed": self.bracketed, "side": self.side}


def crossover(
    tokens: Sequence[int], gains: np.ndarray, sizes: np.ndarray, first_pass_ends: int | None, level: float = LEVEL
) -> Crossover | None:
    """tokens: [P] points, rising. gains: [P, K] what each document gains there, summed; sizes: [K] its tokens or bytes.

    None for fewer than two documents or points, and for a gain that ends at 0.
    """
    gains, sizes = np.asarray(gains, np.float64), np.asarray(sizes, np.float64)
    points, documents = gains.shape
    final = float(gains[-1].sum()) if points else 0.0
    if documents < 2 or points < 2 or not final:
        return None
    draw = np.random.Generator(np.random.Philox(SEED))
    found = []
    for _ in range(0, DRAWS, AT_ONCE):
        places = draw.integers(documents, size=(AT_ONCE, documents)) + documents * np.arange(AT_ONCE)[:, None]
        times = np.bincount(places.ravel(), minlength=AT_ONCE * documents).reshape(AT_ONCE, documents).astype(np.float64)
        found.append(zeros(np.asarray(tokens, np.float64), times @ gains.T / (times @ sizes)[:, None], final))
    at = np.concatenate(found)
    low, high = np.quantile(at, [round((1 - level) / 2, 12), (1 + level) / 2], method="inverted_cdf")
    before, after = _sides(at, tokens, first_pass_ends)
    return Crossover(float(low), float(high), tokens[0], tokens[-1], documents, before, after, level)


def _sides(at: np.ndarray, tokens: Sequence[int], ends: int | None) -> tuple[float, float] | tuple[None, None]:
    """The shares of draws that cross before and after `ends`; a draw that crosses outside the measured points may be in neither."""
    if ends is None:
        return None, None
    before = (at <= ends) & (np.isfinite(at) | (tokens[0] <= ends))
    after = (at > ends) & (np.isfinite(at) | (tokens[-1] >= ends))
    return float(before.mean()), float(after.mean())


def zeros(tokens: np.ndarray, lines: np.ndarray, final: float) -> np.ndarray:
    """[B]: where each of lines [B, P] over tokens [P] takes the sign of `final` for good (`curves.last_zero`).

    −inf: it has that sign from the first point on; inf: it ends without it.
    """
    ahead = lines * math.copysign(1.0, final)
    behind_at, ahead_at = _last(ahead < 0), _last(ahead > 0)
    at = np.where(ahead_at < behind_at, math.inf, -math.inf)
    at[(ahead_at < 0) & (behind_at < 0)] = math.inf  # level throughout
    rows = np.flatnonzero((behind_at >= 0) & (ahead_at > behind_at))
    last = behind_at[rows]
    low, high = ahead[rows, last], ahead[rows, last + 1]
    at[rows] = tokens[last] + (tokens[last + 1] - tokens[last]) * low / (low - high)
    return at


def _last(holds: np.ndarray) -> np.ndarray:
    """[B]: the last place in each row of [B, P] that is true, -1 where none is."""
    return np.where(holds.any(axis=1), holds.shape[1] - 1 - np.argmax(holds[:, ::-1], axis=1), -1)


def crossovers(results: Sequence[ArmResult], store: Store, folders: Mapping[tuple[str, int], RunFolder]) -> dict[str, Crossover]:
    """Of every arm whose mean gain crosses zero for good. Raises StoreError when a stored file is torn."""
    by_name, groupings = {one.name: one for one in results}, Groupings(store)
    found = {}
    for result in results:
        crossing = result.crossing
        if crossing is not None and crossing.tokens is not None:
            made = _of_arm(by_name[str(result.against)], result, groupings, folders)
            if made is not None:
                found[result.name] = made
    return found


def _of_arm(base: ArmResult, result: ArmResult, groupings: Groupings, folders: Mapping[tuple[str, int], RunFolder]) -> Crossover | None:
    """The seeds and points are those of the mean line."""
    crossing = result.crossing
    tokens = [int(at) for at, _ in crossing.line]
    seeds = [seed for seed, line in result.course.items() if line and line[-1][0] == tokens[-1]]
    gains, sizes = [], np.zeros(0)
    for at in tokens:
        by_seed = [_by_document(folders[base.name, seed], folders[result.name, seed], result.part, at, groupings) for seed in seeds]
        gains.append(np.mean([gain for gain, _ in by_seed], axis=0))
        sizes = by_seed[0][1]
    return crossover(tokens, np.stack(gains), sizes, crossing.first_pass_ends)


def _by_document(base: RunFolder, arm: RunFolder, part: str, tokens: int, groupings: Groupings) -> tuple[np.ndarray, np.ndarray]:
    """[K] nats that each document gains, and [K] its targets, or its bytes where the two have other tokens."""
    one, other = base.read_losses(part, tokens), arm.read_losses(part, tokens)
    if one.target_id != other.target_id:
        mine, theirs = shared(groupings.of(one.target_id).sums(one.losses), groupings.of(other.target_id).sums(other.losses))
        return mine.nats - theirs.nats, mine.bytes
    _, place = np.unique(groupings.store.targets(one.target_id).document, return_inverse=True)
    return np.bincount(place, np.subtract(one.losses, other.losses, dtype=np.float64)), np.bincount(place)
