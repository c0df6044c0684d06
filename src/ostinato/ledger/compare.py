"""Which axes of an arm equal the reference arm's and which do not, in words. Every axis is printed, matched or not.

Numbers within 1% are "about equal" (a re-applied layer of the loop2 family adds two scalars to 50 million parameters); what a model or
recipe says in words is equal or it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ostinato.ledger.ledger import Ledger
from ostinato.ledger.settings import other_settings
from ostinato.study.pairs import base_of

ABOUT = 0.01
FIXED_CACHE = "bytes of fixed states in the cache"
Relation = Literal["equal", "about equal", "differs"]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a comparison.  value, reference: a number, or words.  ratio: value / reference for numbers."""

    name: str
    value: float | str
    reference: float | str
    relation: Relation
    ratio: float | None

    def __str__(self) -> str:
        if self.ratio is None:
            return f"{self.name}: {self.value}" if self.relation == "equal" else f"{self.name}: {self.value}, not {self.reference}"
        if self.relation == "differs":
            plain = f"{self.name}: {self.value:,.0f}, not {self.reference:,.0f}"
            return f"{self.name}: {self.ratio:.3g} times" if self.value and self.reference else plain
        return f"{self.name}: {self.relation}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """An arm against the arm that it is compared with, on every axis."""

    arm: str
    reference: str
    axes: tuple[Axis, ...]

    @property
    def equal(self) -> tuple[str, ...]:
        """Names of the axes that are equal or about equal."""
        return tuple(axis.name for axis in self.axes if axis.relation != "differs")

    @property
    def different(self) -> tuple[Axis, ...]:
        """The axes that are not matched."""
        return tuple(axis for axis in self.axes if axis.relation == "differs")

    def __str__(self) -> str:
        differ = "; ".join(map(str, self.different)) or "nothing"
        return f"{self.arm} against {self.reference}. Differs in {differ}. Equal: {', '.join(self.equal) or 'nothing'}."


def compare(ledgers: Sequence[Ledger], reference: str) -> dict[str, Comparison]:
    """For every arm but the reference, each axis and whether it equals that of the arm it is compared with (`pairs.base_of`).

    Raises KeyError for an arm that is not among `ledgers`.
    """
    by_name = {ledger.name: ledger for ledger in ledgers}
    pairs = {name: base_of(ledger.arm, reference) for name, ledger in by_name.items()}
    return {name: Comparison(name, base, _axes(by_name[name], by_name[base])) for name, base in pairs.items() if base is not None}


def _axes(ledger: Ledger, base: Ledger) -> tuple[Axis, ...]:
    """Without the cache of fixed size where neither has one: equal it would seem to say that their caches are."""
    numbers = [(axis, other) for axis, other in zip(costs(ledger).items(), costs(base).values(), strict=True)
               if axis[0] != FIXED_CACHE or axis[1] or other]  # fmt: skip
    words = zip(ledger.settings.items(), base.settings.values(), strict=True)
    return (
        *(_number(name, value, other) for (name, value), other in numbers),
        *(_words(name, value, other) for (name, value), other in words),
        _others(other_settings(ledger.arm), other_settings(base.arm)),
    )


def _number(name: str, value: float, other: float) -> Axis:
    ratio = value / other if other else (1.0 if value == other else float("inf"))
    relation: Relation = "equal" if value == other else "about equal" if abs(ratio - 1) < ABOUT else "differs"
    return Axis(name, value, other, relation, ratio)


def _words(name: str, value: str, other: str) -> Axis:
    return Axis(name, value, other, "equal" if value == other else "differs", None)


def _others(mine: dict[str, str], base: dict[str, str]) -> Axis:
    """One axis for every setting without an axis of its own, naming only those that differ."""
    keys = [key for key in sorted({*mine, *base}) if mine.get(key) != base.get(key)]
    if not keys:
        return Axis("other settings", "the same", "the same", "equal", None)
    said = [", ".join(f"{key} {side.get(key, 'not set')}" for key in keys) for side in (mine, base)]
    return Axis("other settings", said[0], said[1], "differs", None)


def costs(ledger: Ledger) -> dict[str, float]:
    """The axes that are numbers, by the words they are printed with."""
    return {
        "parameters": ledger.params_total,
        "parameters outside embeddings": ledger.params_nonembedding,
        "FLOPs per token": ledger.flops_per_token,
        "total FLOPs": ledger.flops_total,
        "tokens": ledger.tokens,
        "effective depth": ledger.effective_depth,
        "unique layers": ledger.unique_layers,
        "training memory": ledger.memory_total,
        "cache bytes per token": ledger.cache_bytes_per_token,
        FIXED_CACHE: ledger.cache_bytes_fixed,  # states of linear attention and convolutions
    }
