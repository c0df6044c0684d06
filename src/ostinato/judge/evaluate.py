"""What an expression is worth and whether a condition holds, on whatever measurements there are; and how sure that is.

Whether a comparison holds is read off the points. How sure it is: m = left - right is told from 0 by every kind of noise (`judge.value`).
A ratio against a fixed number, X / Y >= c, is told by X - c Y, as Fieller has it (`judge.fieller`), so no noise is divided by.

Three values, true, false and not estimable, are combined as Kleene's (Introduction to Metamathematics, 1952, section 64): an `or` with one
true part is true and an `and` with one false part is false, whatever the others are. What decided a condition also says how sure it is:
- a true `and` (a false `or`) needs every part: it is clear if all of them are, and its p is the largest (an intersection-union test;
  Berger, Technometrics 24, 1982);
- a true `or` (a false `and`) needs one: it is clear if one that decided it is, and its p is the number of parts times the smallest
  (Bonferroni), at most 1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ostinato.analysis.intervals import LEVEL
from ostinato.claims import All, Any, Binary, Comparison, Function, Measure, Negative, Not, Number, Outcome
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.fieller import fieller
from ostinato.judge.value import DOCUMENTS, SEEDS, Value, largest, least
from ostinato.judge.verdicts import Clause, Range

_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_FUNCTIONS: Mapping[str, Callable[[list[Value]], Value]] = {"abs": lambda values: abs(values[0]), "min": least, "max": largest}


class Measurements(Protocol):
    """Where the numbers come from: the store of a study (`judge.measurements`) or a published table (`judge.tables`)."""

    arms: Sequence[str]
    reference: str

    def value(self, term: Measure) -> Value:
        """Raises NotEstimable, with the reason in words."""


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
        for side in (node.left, node.right):
            sides.append(evaluate(side, measurements))
        left, right = sides
        sign = 1 if node.op in (">", ">=") else -1  # of left - right, where it holds
        if right.exact:
            found = estimate(node.left, measurements, right)
        elif left.exact:
            found, sign = estimate(node.right, measurements, left), -sign
        else:
            found = _plain(left - right)
    except NotEstimable as error:
        known = [value.point for value in sides] + [None, None]
        return Truth(None, False, None, (Clause(text, None, False, known[0], known[1], reason=error.reason),), error.reason)
    holds, margin, doubt, p = _COMPARE[node.op](left.point, right.point), found.value * sign, found.tested.doubt, found.tested.p
    documents, seeds = (_turned(found.ranges.get(kind), sign) for kind in (DOCUMENTS, SEEDS))
    clause = Clause(text, holds, not doubt, left.point, right.point, margin.point, documents, seeds, margin.unit, p,
                    margin.by_seed(), doubt)  # fmt: skip
    return Truth(holds, not doubt, p, (clause,), doubt)


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
    """Of an expression, with Fieller's intervals where it is a ratio.  fixed: an exact number. Raises NotEstimable."""
    fixed = fixed or Value(0.0)
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
