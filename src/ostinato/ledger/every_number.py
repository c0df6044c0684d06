"""What a step costs with every number of passes that is drawn, from a few of them: a draw of mean 100 reaches beyond a thousand.

With r passes a schedule runs each of its layers, and begins and ends each of its passes, a number of times that is linear in r, as no {r}
of a draw stands within another. With the last K passes learned from it is so from r = K on, and with half of them once for even r and once
for odd r. So it is for all that is added up over applications: two values give the others exactly (tested).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from ostinato.study.records import Model

Values = tuple[Fraction, ...]
SETTLED = 3
"""From so many passes on all are alike: what one pass or two begin and end with may be what stands beside the group, too."""


def at_every_number(model: Model, numbers: Iterable[int], value: Callable[[int], Values]) -> dict[int, Values]:
    """value(r), sums over the applications of a step of r passes, for each of these numbers."""
    first = max(SETTLED, model.backprop if isinstance(model.backprop, int) else 1)
    known: dict[int, Values] = {}

    def of(r: int) -> Values:
        if r not in known:
            known[r] = value(r)
        return known[r]

    found = {}
    for r in numbers:
        low = first + (r - first) % 2
        if r > low + 2:
            steps = Fraction(r - low, 2)
            found[r] = tuple(a + steps * (b - a) for a, b in zip(of(low), of(low + 2), strict=True))
        else:
            found[r] = of(r)
    return found
