"""The terms that a schedule is made of: how long each one is, how it prints, and which steps it stands for.

A `Run` is a layer or a rising range of layers; a `Group` is several terms. Both may be limited to one sublayer and repeated;
`times` is a number, or None for the free {r}. Terms are kept in a normal form (see `group`), so that their text is canonical:
reading it again gives the same terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from ostinato.schedule.application import Part


@dataclass(frozen=True, slots=True)
class Run:
    """Layers `first` to `last`, in order."""

    first: int
    last: int
    part: Part = "both"
    times: int | None = 1

    def __str__(self) -> str:
        layers = str(self.first) if self.first == self.last else f"{self.first}..{self.last}"
        return _suffixed(f"({layers})" if self.times != 1 and self.first != self.last else layers, self)


@dataclass(frozen=True, slots=True)
class Group:
    """Several terms in a row."""

    terms: tuple[Run | Group, ...]
    part: Part = "both"
    times: int | None = 1

    def __str__(self) -> str:
        return _suffixed(f"({' '.join(map(str, self.terms))})", self)


Term = Run | Group


def _suffixed(text: str, term: Term) -> str:
    times = "" if term.times == 1 else "x{r}" if term.times is None else f"x{term.times}"
    return text + times + ("" if term.part == "both" else f":{term.part}")


def group(terms: tuple[Term, ...], part: Part, times: int | None) -> tuple[Term, ...]:
    """The terms in parentheses with their suffixes, in normal form; several when the parentheses say nothing.

    A part stands as far out as it can: inside a group that has one, no term has its own. A lone term loses its parentheses.
    """
    if part == "both" and len({term.part for term in terms}) == 1:
        part = terms[0].part
    if part != "both":
        terms = tuple(chain.from_iterable(_whole(term) for term in terms))
    if len(terms) == 1 and (times == 1 or terms[0].times == 1):
        return (replace(terms[0], part=part, times=terms[0].times if times == 1 else times),)
    if times == 1 and part == "both":
        return terms
    return (Group(terms, part, times),)


def _whole(term: Term) -> tuple[Term, ...]:
    """The term without any part, in normal form again."""
    if isinstance(term, Run):
        return (replace(term, part="both"),)
    return group(tuple(chain.from_iterable(_whole(inner) for inner in term.terms)), "both", term.times)


def parts(term: Term) -> set[Part]:
    """The parts that the term and the terms inside it are limited to, "both" left out."""
    inner = set().union(*(parts(item) for item in term.terms)) if isinstance(term, Group) else set()
    return (inner | {term.part}) - {"both"}


def free_depth(term: Term) -> int:
    """How many {r} stand within each other: 0 without any, 1 in (1..2)x{r}, 2 in ((1..2)x{r} 3)x{r}."""
    inside = max(map(free_depth, term.terms)) if isinstance(term, Group) else 0
    return inside + (term.times is None)


def length(term: Term, passes: int) -> int:
    """Number of applications when {r} is `passes`, without making them."""
    once = term.last - term.first + 1 if isinstance(term, Run) else sum(length(inner, passes) for inner in term.terms)
    return once * (passes if term.times is None else term.times)


def steps(term: Term, passes: int, part: Part = "both") -> Iterator[tuple[int, Part]]:
    """(layer, part) of each application, in order, when {r} is `passes`; `part` is that of the group around the term."""
    part = term.part if term.part != "both" else part
    for _ in range(passes if term.times is None else term.times):
        if isinstance(term, Run):
            yield from ((layer, part) for layer in range(term.first, term.last + 1))
        else:
            for inner in term.terms:
                yield from steps(inner, passes, part)
