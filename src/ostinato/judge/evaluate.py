"""What an expression is worth and whether a condition holds, on whatever measurements there are; and how sure that is.

Whether a comparison holds is read off the points. How sure it is: m = left - right is told from 0 by every kind of noise (`judge.value`).
A ratio against a fixed number, X / Y >= c, is told by X - c Y, as Fieller has it (`judge.fieller`), so no noise is divided by; and it is
clear only where every divisor is told from 0 too, which is where Fieller's set has two ends. Its p is the larger of the two.

What stands in one comparison, on both sides, or in one quantity, is over the same seeds: those that all of its terms have (`Paired`). A
seed that one of two losses lacks would move their difference and be in no error of it.

Three values, true, false and not estimable, are combined as Kleene's (Introduction to Metamathematics, 1952, section 64): an `or` with one
true part is true and an `and` with one false part is false, whatever the others are. What decided a condition also says how sure it is:
- a true `and` (a false `or`) needs every part: it is clear if all of them are, and its p is the largest (an intersection-union test;
  Berger, Technometrics 24, 1982);
- a true `or` (a false `and`) needs one: it is clear if one that decided it is, and its p is the number of parts times the smallest
  (Bonferroni), at most 1.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ostinato.analysis.intervals import LEVEL
from ostinato.claims import All, Any, Binary, Comparison, Function, Measure, Negative, Not, Number, Outcome, measures
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.fieller import fieller
from ostinato.judge.value import DOCUMENTS, SEEDS, Value, largest, least
from ostinato.judge.verdicts import Clause, Range

_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_FUNCTIONS: Mapping[str, Callable[[list[Value]], Value]] = {"abs": lambda values: abs(values[0]), "min": least, "max": largest}
_OF_FLOATS: Mapping[str, Callable[[list[float]], float]] = {"abs": lambda values: abs(values[0]), "min": min, "max": max}


class Measurements(Protocol):
    """Where the numbers come from: the store of a study (`judge.measurements`) or a published table (`judge.tables`)."""

    arms: Sequence[str]
    reference: str

    def value(self, term: Measure, seeds: frozenset[int] | None = None) -> Value:
        """seeds: over these alone, of those that it has; None: all. Raises NotEstimable, with the reason in words."""


class Paired:
    """Measurements for some expressions together: every term over the seeds that all of them have.

    Terms of one seed by their own words (`seed=`), and what has no seeds, are as they stand. left_out: seeds that only some terms have.
    Raises NotEstimable where no seed is in all terms; a term that is not estimable itself says so when it is asked for. Numbers whose noise
    is stated by run are of independent runs, and need no seed in common.
    """

    def __init__(self, nodes: Iterable[Node], measurements: Measurements):
        self.arms, self.reference, self._measurements = measurements.arms, measurements.reference, measurements
        found: dict[Measure, Value] = {}
        for term in dict.fromkeys(term for node in nodes for term in measures(node) if "seed" not in dict(term.options)):
            with contextlib.suppress(NotEstimable):
                found[term] = measurements.value(term)
        seeds = {term: frozenset(value.seeds) for term, value in found.items() if value.seeds}
        self.common = frozenset.intersection(*seeds.values()) if seeds else frozenset()
        self.left_out = frozenset().union(*seeds.values()) - self.common
        if seeds and not self.common and all(found[term].noise is None for term in seeds):
            said = "; ".join(f"{term} has {_listed(of)}" for term, of in seeds.items())
            raise NotEstimable(f"no seed is in all of its terms: {said}", "what is compared is paired by seed", "run the same seeds of all")
        self._fewer = {term for term, of in seeds.items() if of != self.common and self.common}

    def value(self, term: Measure, seeds: frozenset[int] | None = None) -> Value:
        """Over the common seeds, or those of them that are asked for. Raises NotEstimable."""
        if seeds is None and term not in self._fewer:
            return self._measurements.value(term)
        return self._measurements.value(term, self.common if seeds is None else self.common & seeds)

    @property
    def note(self) -> str:
        """Which seeds it is over, in words; "" where all terms have the same."""
        if not self._fewer:
            return ""
        number = "seed" if len(self.common) == 1 else "seeds"
        return f"over {number} {_listed(self.common)}, which all its terms have (left out: {_listed(self.left_out)})"


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))


@dataclass(frozen=True)
class Truth:
    """Whether something holds (None: not estimable), whether that is clear, its p, the comparisons in it, and why it is not (clear)."""

    holds: bool | None
    clear: bool = True
    p: float | None = 0.0
    clauses: tuple[Clause, ...] = ()
    reason: str = ""

    def __invert__(self) -> Truth:
        return Truth(None if self.holds is None else not self.holds, self.clear, self.p, self.clauses, self.reason)


Node = object
Outcomes = Callable[[Outcome], Truth]


def evaluate(node: Node, measurements: Measurements) -> Value:
    """The value of an expression. Raises NotEstimable, with the reason of the term that is not."""
    match node:
        case Number():
            return Value(float(node.value))
        case Measure():
            return measurements.value(node)
        case Negative():
            return -evaluate(node.of, measurements)
        case Binary():
            return _ARITHMETIC[node.op](evaluate(node.left, measurements), evaluate(node.right, measurements))
        case Function():
            return _FUNCTIONS[node.name]([evaluate(each, measurements) for each in node.args])
    raise TypeError(f"{type(node).__name__} is no expression")


def decide(node: Node, measurements: Measurements, outcomes: Outcomes) -> Truth:
    """Whether a condition holds.  outcomes: of another prediction, as the condition asks."""
    match node:
        case Comparison():
            return _compared(node, measurements)
        case All():
            return all_of(decide(part, measurements, outcomes) for part in node.parts)
        case Any():
            return any_of(decide(part, measurements, outcomes) for part in node.parts)
        case Not():
            return ~decide(node.of, measurements, outcomes)
        case Outcome():
            return outcomes(node)
    raise TypeError(f"{type(node).__name__} is no condition")


def all_of(parts: Iterable[Truth]) -> Truth:
    """Kleene's `and`."""
    parts = tuple(parts)
    clauses = tuple(clause for part in parts for clause in part.clauses)
    false, unknown = [part for part in parts if part.holds is False], [part for part in parts if part.holds is None]
    if false:
        ps = [part.p for part in false if part.p is not None]
        clear = any(part.clear for part in false)
        return Truth(False, clear, min(1.0, len(parts) * min(ps)) if ps else None, clauses, "" if clear else _reasons(false))
    if unknown:
        return Truth(None, False, None, clauses, _reasons(unknown))
    ps = [part.p for part in parts]
    return Truth(True, all(part.clear for part in parts), None if None in ps else max(ps, default=0.0), clauses, _reasons(parts))


def any_of(parts: Iterable[Truth]) -> Truth:
    """Kleene's `or`."""
    return ~all_of(~part for part in parts)


def _reasons(parts: Iterable[Truth]) -> str:
    return "; ".join(dict.fromkeys(part.reason for part in parts if part.reason))


def _compared(node: Comparison, measurements: Measurements) -> Truth:
    text, sides = str(node), []
    try:
        paired = Paired((node.left, node.right), measurements)
        for side in (node.left, node.right):
            sides.append(evaluate(side, paired))
        left, right = sides
        sign = 1 if node.op in (">", ">=") else -1  # of left - right, where it holds
        if right.exact:
            found = _estimate(node.left, paired, right)
        elif left.exact:
            found, sign = _estimate(node.right, paired, left), -sign
        else:
            found = _plain(left - right)
    except NotEstimable as error:
        known = [value.point for value in sides] + [None, None]
        return Truth(None, False, None, (Clause(text, None, False, known[0], known[1], reason=error.reason),), error.reason)
    divisors = [value for side in (node.left, node.right) for value in _divisors(side, paired)]
    doubt = "; ".join(dict.fromkeys(filter(None, (found.tested.doubt, *map(_doubt_of_divisor, divisors)))))
    ps = [value.p for value in (found.tested, *divisors)]
    holds, margin, p = _COMPARE[node.op](left.point, right.point), found.value * sign, None if None in ps else max(ps)
    documents, seeds = (_turned(found.ranges.get(kind), sign) for kind in (DOCUMENTS, SEEDS))
    towards = 1 if node.op in (">", ">=") else -1
    alone = {seed: towards * (_alone(node.left, paired, seed) - _alone(node.right, paired, seed)) for seed in sorted(margin.seeds)}
    clause = Clause(text, holds, not doubt, left.point, right.point, margin.point, documents, seeds, margin.unit, p,
                    {seed: value for seed, value in alone.items() if math.isfinite(value)},
                    "; ".join(filter(None, (doubt, paired.note))))  # fmt: skip
    return Truth(holds, not doubt, p, (clause,), doubt)


def _alone(node: Node, measurements: Measurements, seed: int) -> float:
    """The expression on one seed's numbers; nan where that is a division by 0."""
    match node:
        case Number():
            return float(node.value)
        case Measure():
            value = measurements.value(node)
            return value.point + value.seeds.get(seed, 0.0)
        case Negative():
            return -_alone(node.of, measurements, seed)
        case Binary():
            left, right = (_alone(side, measurements, seed) for side in (node.left, node.right))
            return math.nan if node.op == "/" and not right else _ARITHMETIC[node.op](left, right)
        case Function():
            return _OF_FLOATS[node.name]([_alone(each, measurements, seed) for each in node.args])
    raise TypeError(f"{type(node).__name__} is no expression")


def _divisors(node: Node, measurements: Measurements) -> list[Value]:
    """What is measured and divided by, anywhere in an expression."""
    match node:
        case Negative():
            return _divisors(node.of, measurements)
        case Binary():
            within = _divisors(node.left, measurements) + _divisors(node.right, measurements)
            below = [evaluate(node.right, measurements)] if node.op == "/" else []
            return within + [value for value in below if not value.exact]
        case Function():
            return [value for each in node.args for value in _divisors(each, measurements)]
    return []


def _doubt_of_divisor(value: Value) -> str:
    over = [f"{kind} ({len(value.seeds)} seeds)" if kind == SEEDS else kind for kind in value.errors if value.interval(kind).holds(0.0)]
    return f"the 95% interval of its divisor over {' and '.join(over)} holds 0" if over else ""


@dataclass(frozen=True)
class Estimate:
    """An expression less a fixed number.  tested: what is 0 where the two are equal.  ranges: intervals of the difference, by noise."""

    value: Value
    tested: Value
    ranges: Mapping[str, Range] = field(default_factory=dict)

    @property
    def interval(self) -> Range | None:
        """Over documents, else over seeds, else of the stated noise."""
        return next(iter(self.ranges.values()), None)


def estimate(node: Node, measurements: Measurements, fixed: Value | None = None) -> Estimate:
    """Of an expression, over the seeds that all its terms have, with Fieller's intervals where it is a ratio.  fixed: an exact number.

    Raises NotEstimable.
    """
    return _estimate(node, Paired((node,), measurements), fixed or Value(0.0))


def _estimate(node: Node, measurements: Measurements, fixed: Value) -> Estimate:
    value, parts = evaluate(node, measurements) - fixed, _ratio(node, measurements)
    if parts is None:
        return _plain(value)
    top, bottom = (_bare(part) for part in parts)
    found = {kind: (ends[0] - fixed.point, ends[1] - fixed.point) for kind in value.errors if (ends := _fieller(top, bottom, kind))}
    return Estimate(value, top - bottom * fixed.point, found)


def _plain(value: Value) -> Estimate:
    found = {kind: value.interval(kind) for kind in value.errors}
    return Estimate(value, value, {kind: (interval.low, interval.high) for kind, interval in found.items()})


def _ratio(node: Node, measurements: Measurements) -> tuple[Value, Value] | None:
    """What is divided by what, where the divisor is measured."""
    if isinstance(node, Negative):
        parts = _ratio(node.of, measurements)
        return parts and (-parts[0], parts[1])
    if not isinstance(node, Binary) or node.op != "/":
        return None
    top, bottom = evaluate(node.left, measurements), evaluate(node.right, measurements)
    return None if bottom.exact else (top, bottom)


def _fieller(top: Value, bottom: Value, kind: str) -> Range | None:
    """The interval of top / bottom; None where it has no two ends."""
    both = top + bottom
    if kind not in both.errors:
        return None
    if kind == SEEDS:
        seeds = sorted(both.seeds)
        deviations = np.array([[part.seeds.get(seed, 0.0) for seed in seeds] for part in (top, bottom)])
        covariance, freedom = np.cov(deviations) / len(seeds), len(seeds) - 1
    else:
        error, freedom = both.errors[kind]
        variances = [part.errors.get(kind, (0.0, 0.0))[0] ** 2 for part in (top, bottom)]
        covariance = (error**2 - sum(variances)) / 2
        covariance = np.array([[variances[0], covariance], [covariance, variances[1]]])
    found = fieller(top.point, bottom.point, covariance, freedom, LEVEL)
    return (found.low, found.high) if found.bounded else None


def _bare(value: Value) -> Value:
    """Without its unit."""
    return value.through(float, 1.0, "")


def _turned(ends: Range | None, sign: int) -> Range | None:
    return ends if ends is None or sign > 0 else (-ends[1], -ends[0])
