"""What a step costs with every number of passes that is drawn, from a few of them: a draw of mean 100 reaches beyond a thousand.

With r passes a schedule runs each of its layers, and begins and ends each of its passes, a number of times that is a polynomial in r, of
the degree to which {r} stands within {r}. With the last K passes learned from it is one from r = K on, and with half of them one for even
r and one for odd r. So it is for all that is added up over applications: a few values give the others exactly (tested).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from ostinato.schedule.terms import Group, Term
from ostinato.study.derive import arm_schedule
from ostinato.study.records import Model

Values = tuple[Fraction, ...]


def at_every_number(model: Model, numbers: Iterable[int], value: Callable[[int], Values]) -> dict[int, Values]:
    """value(r), sums over the applications of a step of r passes, for each of these numbers."""
    points = 1 + max(_degree(term) for term in arm_schedule(model).terms)
    first = max(1, model.backprop if isinstance(model.backprop, int) else 1)
    known: dict[int, Values] = {}

    def of(r: int) -> Values:
        if r not in known:
            known[r] = value(r)
        return known[r]

    found = {}
    for r in numbers:
        places = [first + (r - first) % 2 + 2 * step for step in range(points)]
        found[r] = of(r) if r <= places[-1] else _through(places, [of(place) for place in places], r)
    return found


def _degree(term: Term) -> int:
    inside = max(_degree(inner) for inner in term.terms) if isinstance(term, Group) else 0
    return inside + (term.times is None)


def _through(places: list[int], values: list[Values], at: int) -> Values:
    """Lagrange's polynomial through these points."""
    weights = []
    for one in places:
        weight = Fraction(1)
        for other in places:
            weight *= Fraction(at - other, one - other) if other != one else 1
        weights.append(weight)
    together = zip(*values, strict=True)
    return tuple(sum((weight * part for weight, part in zip(weights, parts, strict=True)), Fraction()) for parts in together)
