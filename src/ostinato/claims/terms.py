"""What a prediction is made of, once it is read: expressions over measures, and conditions on them. Frozen; `str` is canonical text.

Reading that text again gives an equal node. Nodes as the reader makes them are in normal form: no `and` directly within an `and`, no `or`
within an `or`, options sorted and without those at their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ostinato.claims.numbers import written

_SUM, _PRODUCT, _UNARY, _ATOM = range(4)
_PRECEDENCE = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT}
_RAW = re.compile(r"[^\s,()\"'=]+(?: [^\s,()\"'=]+)*")
_RAW_CLASS = re.compile(r"[^\s,()\"']+(?: [^\s,()\"']+)*")
_OUTCOME = re.compile(r"(?!not\b)[\w.-]+|NOT ESTIMABLE", re.IGNORECASE)


def quoted(name: str, bare: re.Pattern[str] = _RAW) -> str:
    """A name as it stands in a text: bare where that reads as the same name, else in double quotes, those within it doubled."""
    return name if bare.fullmatch(name) else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Number:
    """A number that is given, 0 or more: a minus before it is a Negative."""

    value: float

    def __str__(self) -> str:
        return written(self.value)


@dataclass(frozen=True, slots=True)
class Measure:
    """A measured number of an arm.  name: one of MEASURES.  options: sorted (key, value) pairs, without those at their defaults."""

    name: str
    arm: str
    options: tuple[tuple[str, str], ...] = ()

    def option(self, key: str, default: str | None = None) -> str | None:
        """The value of an option that is given."""
        return dict(self.options).get(key, default)

    def __str__(self) -> str:
        given = [f"{key}={quoted(value, _RAW_CLASS if key == 'class' else _RAW)}" for key, value in self.options]
        return f"{self.name}({', '.join([quoted(self.arm), *given])})"


@dataclass(frozen=True, slots=True)
class Negative:
    """An expression with its sign turned."""

    of: Expression

    def __str__(self) -> str:
        return f"-{_within(self.of, _UNARY)}"


@dataclass(frozen=True, slots=True)
class Binary:
    """left op right, op one of + - * /."""

    op: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        own = _PRECEDENCE[self.op]
        return f"{_within(self.left, own)} {self.op} {_within(self.right, own + 1)}"


@dataclass(frozen=True, slots=True)
class Function:
    """abs of one expression, min or max of several."""

    name: str
    args: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.args))})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """left op right, op one of < <= > >=."""

    left: Expression
    op: str
    right: Expression

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " and ".join(f"({part})" if isinstance(part, (All, Any)) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Any:
    """At least one part holds."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " or ".join(f"({part})" if isinstance(part, Any) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """The condition does not hold."""

    of: Condition

    def __str__(self) -> str:
        return f"not ({self.of})" if isinstance(self.of, (All, Any)) else f"not {self.of}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Another prediction came out so.  named: SUPPORTED, KILLED, BETWEEN, NOT ESTIMABLE, or the own name of one of its outcomes."""

    prediction: str
    named: str

    def __str__(self) -> str:
        return f"outcome({quoted(self.prediction)}) is {quoted(self.named, _OUTCOME)}"


Expression = Number | Measure | Negative | Binary | Function
Condition = Comparison | All | Any | Not | Outcome
Node = Expression | Condition


def _within(node: Expression, least: int) -> str:
    """In parentheses where it binds less than its place asks for."""
    own = _PRECEDENCE[node.op] if isinstance(node, Binary) else _UNARY if isinstance(node, Negative) else _ATOM
    return str(node) if own >= least else f"({node})"


def _below(node: Node) -> tuple[Node, ...]:
    match node:
        case Negative() | Not():
            return (node.of,)
        case Binary() | Comparison():
            return (node.left, node.right)
        case Function():
            return node.args
        case All() | Any():
            return node.parts
    return ()


def _walk(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        here = waiting.pop()
        yield here
        waiting.extend(reversed(_below(here)))


def measures(node: Node) -> Iterator[Measure]:
    """Every measure in it, from left to right, as often as it stands there."""
    return (one for one in _walk(node) if isinstance(one, Measure))


def outcomes(node: Node) -> Iterator[Outcome]:
    """Every mention of another prediction's outcome, from left to right."""
    return (one for one in _walk(node) if isinstance(one, Outcome))
