"""A measured number with what is known of its noise, and arithmetic that carries the noise along.

Every number is a smooth function of sums over documents and of seeds, so to first order its deviation is a sum of theirs: the delta method,
on residuals that are kept document by document and seed by seed (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch. 21:
the infinitesimal jackknife). Two numbers of the same documents are then subtracted residual by residual, and what they share cancels.

Three kinds of noise are kept apart and never added up, because they answer different questions:
- documents: would it hold on other text?  A minimal pair's paradigm is such a unit as well; its key is never a document's.
- seeds: would it hold for another draw of weights and batches?  Paired by seed; for a claim about an architecture this is the one.
- noise: a standard error that somebody states, where nothing else is known (published tables).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ostinato.analysis.intervals import LEVEL, Interval, cluster_residuals, students
from ostinato.judge.estimable import NotEstimable

DOCUMENTS, SEEDS, STATED = "documents", "seeds", "stated noise"
_PARADIGM = np.uint64(1 << 63)


@dataclass(frozen=True, eq=False)
class Residuals:
    """What every unit adds to the error of a number.  keys: uint64 [K], sorted, each once; values: float64 [K], in the number's unit."""

    keys: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def error(self) -> float:
        """The standard error: the root of the sum of squares."""
        return float(np.linalg.norm(self.values))

    def times(self, factor: float) -> Residuals:
        return replace(self, values=self.values * factor)

    def plus(self, other: Residuals) -> Residuals:
        """Unit by unit; a unit that one side lacks adds nothing there."""
        if self.keys is other.keys or np.array_equal(self.keys, other.keys):
            return replace(self, values=self.values + other.values)
        keys = np.union1d(self.keys, other.keys)
        values = np.zeros(len(keys))
        for one in (self, other):
            values[np.searchsorted(keys, one.keys)] += one.values
        return Residuals(keys, values)


@dataclass(frozen=True, eq=False)
class Value:
    """A number in `unit`.  point: from sums and one division, seeds averaged.

    seeds: each seed's deviation from the mean over seeds, {} for what has no seeds (a constant, a cost); one seed deviates by 0.
    documents: residuals (`analysis.intervals.cluster_residuals`), None for what rests on no text; freedom: of their error.
    noise: a stated standard error, by the runs that it comes from, so that what two numbers share cancels; noise_freedom: of it.
    unknown: why its noise is not known, "" where it is: then nothing about it is clear.
    """

    point: float
    seeds: Mapping[int, float] = field(default_factory=dict)
    documents: Residuals | None = None
    freedom: float = math.inf
    noise: Residuals | None = None
    noise_freedom: float = math.inf
    unit: str = ""
    unknown: str = ""

    # --- what is known of its noise

    @property
    def exact(self) -> bool:
        """Whether it has no noise at all: a constant, or what is counted."""
        return not (self.seeds or self.documents or self.noise or self.unknown)

    @property
    def errors(self) -> dict[str, tuple[float, float]]:
        """{kind of noise: (standard error, degrees of freedom)} of those that are known."""
        found = {}
        if self.documents:
            found[DOCUMENTS] = self.documents.error, self.freedom
        if len(self.seeds) > 1:
            n = len(self.seeds)
            found[SEEDS] = math.sqrt(math.fsum(value**2 for value in self.seeds.values()) / (n - 1) / n), n - 1
        if self.noise and not self.unknown:  # the noise of a part of a number is not its noise
            found[STATED] = self.noise.error, self.noise_freedom
        return found

    def interval(self, kind: str, level: float = LEVEL) -> Interval | None:
        """Student's t interval over DOCUMENTS, SEEDS or STATED noise; None where that is not known."""
        known = self.errors.get(kind)
        return students(self.point, *known, level) if known else None

    @property
    def doubt(self) -> str:
        """Why it cannot be told from 0, in words; "" where it can, by every kind of noise, and all of them are known."""
        if self.exact:
            return ""
        reasons = [self.unknown] if self.unknown else []
        if len(self.seeds) == 1 and not self.noise:
            reasons.append("one seed: the noise of seeds is not known")
        for kind in self.errors:
            if self.interval(kind).holds(0.0):
                number = f" ({len(self.seeds)} seeds)" if kind == SEEDS else ""
                reasons.append(f"the 95% interval over {kind}{number} holds 0")
        return "; ".join(reasons)

    @property
    def p(self) -> float | None:
        """Two-sided, of so large a number where the truth is 0: the largest over the kinds of noise, None where one is not known.

        0 for an exact number: there is no chance in it.
        """
        if self.exact:
            return 0.0
        if self.unknown or (len(self.seeds) == 1 and not self.noise):
            return None
        from scipy.special import stdtr

        return max(2 * float(stdtr(freedom, -abs(self.point) / error)) if error else float(not self.point)
                   for error, freedom in self.errors.values())  # fmt: skip

    @property
    def about_zero(self) -> bool:
        """As the table of results says it (`analysis.seeds`): in the noise of two seeds it is within twice their standard deviation.

        A stated noise, which mostly rests on one pair of runs, says how strong a number is and refuses none.
        """
        if not self.point:
            return True
        if len(self.seeds) == 2 and abs(self.point) <= 2 * math.sqrt(math.fsum(value**2 for value in self.seeds.values())):
            return True
        told_by = [kind for kind in self.errors if kind != STATED and (kind != SEEDS or len(self.seeds) > 2)]
        return any(self.interval(kind).holds(0.0) for kind in told_by)

    def by_seed(self) -> dict[int, float]:
        """The number of each seed alone, to first order."""
        return {seed: self.point + deviation for seed, deviation in sorted(self.seeds.items())}

    # --- arithmetic

    def __add__(self, other: Value | float) -> Value:
        other = as_value(other)
        return _first_order(self.point + other.point, [(self, 1.0), (other, 1.0)], _one_unit(self, other, "added"))

    def __radd__(self, other: float) -> Value:
        return as_value(other) + self

    def __neg__(self) -> Value:
        return _first_order(-self.point, [(self, -1.0)], self.unit)

    def __sub__(self, other: Value | float) -> Value:
        other = as_value(other)
        return _first_order(self.point - other.point, [(self, 1.0), (other, -1.0)], _one_unit(self, other, "subtracted"))

    def __rsub__(self, other: float) -> Value:
        return as_value(other) - self

    def __mul__(self, other: Value | float) -> Value:
        other = as_value(other)
        unit = " × ".join(unit for unit in (self.unit, other.unit) if unit)
        return _first_order(self.point * other.point, [(self, other.point), (other, self.point)], unit)

    def __rmul__(self, other: float) -> Value:
        return as_value(other) * self

    def __truediv__(self, other: Value | float) -> Value:
        """Raises NotEstimable for a division by 0, by what is within noise of 0, and of measured numbers of opposite sign."""
        other = as_value(other)
        if not other.point:
            raise NotEstimable("a division by 0")
        if other.about_zero:
            raise NotEstimable(f"a ratio over {other.point:.4g}, which is within noise of 0")
        if not self.exact and not other.exact and self.point * other.point < 0:
            raise NotEstimable(f"a ratio of numbers of opposite sign ({self.point:.4g} and {other.point:.4g})")
        ratio = self.point / other.point
        return _first_order(ratio, [(self, 1 / other.point), (other, -ratio / other.point)], _unit_of_ratio(self.unit, other.unit))

    def __rtruediv__(self, other: float) -> Value:
        return as_value(other) / self

    def __abs__(self) -> Value:
        return -self if self.point < 0 else self

    def through(self, function: Callable[[float], float], slope: float, unit: str) -> Value:
        """function(self), whose derivative at the point is `slope`."""
        return _first_order(function(self.point), [(self, slope)], unit)


def as_value(number: Value | float) -> Value:
    """A plain number is exact."""
    return number if isinstance(number, Value) else Value(float(number))


def least(values: Iterable[Value]) -> Value:
    """The smallest, by its point; the noise is its own. Raises NotEstimable for other units."""
    return _chosen(list(values), min)


def largest(values: Iterable[Value]) -> Value:
    """The largest, by its point; the noise is its own. Raises NotEstimable for other units."""
    return _chosen(list(values), max)


def _chosen(values: list[Value], choose: Callable[..., Value]) -> Value:
    units = [_one_unit(values[0], other, "compared") for other in values]
    return replace(choose(values, key=lambda value: value.point), unit=next((unit for unit in units if unit), ""))


def over_units(keys: np.ndarray, sums: np.ndarray, sizes: np.ndarray, seeds: Mapping[int, float], unit: str, what: str) -> Value:
    """sum(sums) / sum(sizes) with the residual of every unit.  keys: uint64 [K], each once; sums, sizes: [K]; what: a unit, in a word.

    seeds: the number of each seed alone. Raises NotEstimable where the sizes add up to 0.
    """
    sums, sizes = np.asarray(sums, np.float64), np.asarray(sizes, np.float64)
    if not len(keys) or not sizes.sum():
        raise NotEstimable(f"there is no {what} to measure it on")
    mean = math.fsum(seeds.values()) / len(seeds) if seeds else 0.0
    known = Value(float(sums.sum() / sizes.sum()), {seed: value - mean for seed, value in seeds.items()}, unit=unit)
    if len(keys) == 1 or not sizes.all():
        lack = f"one {what}" if len(keys) == 1 else f"a {what} of size 0"
        return replace(known, unknown=f"{lack}: the noise over {what}s is not known")
    values, freedom = cluster_residuals(sums, sizes)
    order = np.argsort(keys)
    return replace(known, documents=Residuals(keys[order], values[order]), freedom=freedom)


def document_keys(digest: np.ndarray, copy: np.ndarray) -> np.ndarray:
    """uint64 [K]: a document is its text, and which of equal texts it is.  digest: uint64 [K]; copy: int [K]."""
    mixed = digest.astype(np.uint64) + np.asarray(copy).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed & ~_PARADIGM


def paradigm_keys(names: Iterable[str]) -> np.ndarray:
    """uint64 [K]: never the key of a document."""
    digests = [int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little") for name in names]
    return np.array(digests, dtype=np.uint64) | _PARADIGM


def _first_order(point: float, parts: list[tuple[Value, float]], unit: str) -> Value:
    """The number `point` that changes by `slope` times the change of each part.  parts: [(value, slope)]."""
    if not math.isfinite(point):
        raise NotEstimable("a number beyond all bounds")
    values = [value for value, _ in parts]
    seeds, unpaired = _paired_seeds(parts)
    return Value(
        point=point,
        seeds=seeds,
        documents=_together((value.documents, slope) for value, slope in parts),
        freedom=min((value.freedom for value in values if value.documents is not None), default=math.inf),
        noise=_together((value.noise, slope) for value, slope in parts),
        noise_freedom=min((value.noise_freedom for value in values if value.noise), default=math.inf),
        unit=unit,
        unknown="; ".join(dict.fromkeys(reason for reason in (*(value.unknown for value in values), unpaired) if reason)),
    )


def _together(parts: Iterable[tuple[Residuals | None, float]]) -> Residuals | None:
    """Residuals of a sum, from those of each part and its slope; None where no part has any."""
    found = None
    for residuals, slope in parts:
        if residuals is not None:
            mine = residuals.times(slope)
            found = mine if found is None else found.plus(mine)
    return found


def _paired_seeds(parts: list[tuple[Value, float]]) -> tuple[dict[int, float], str]:
    """The deviation of every seed that all parts with seeds have, around their mean; and why there is none, where they share no seed."""
    seeded = [(value, slope) for value, slope in parts if value.seeds]
    if not seeded:
        return {}, ""
    common = sorted(set.intersection(*(set(value.seeds) for value, _ in seeded)))
    if not common:
        return {}, "no seed in common: the noise of seeds is not known"
    found = {seed: math.fsum(slope * value.seeds[seed] for value, slope in seeded) for seed in common}
    mean = math.fsum(found.values()) / len(found)
    return {seed: value - mean for seed, value in found.items()}, ""


def _one_unit(one: Value, other: Value, verb: str) -> str:
    """That both have; a plain number has that of the other. Raises NotEstimable for two units."""
    if one.unit and other.unit and one.unit != other.unit:
        raise NotEstimable(f"{one.unit} and {other.unit} cannot be {verb}", "both are in one unit", "give both the same unit=")
    return one.unit or other.unit


def _unit_of_ratio(above: str, below: str) -> str:
    if above == below:
        return ""
    return f"{above} / {below}".strip() if below else above
