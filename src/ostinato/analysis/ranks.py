"""Do two metrics order the arms alike? Kendall's tau-b, and the arms that change places (Kendall, Biometrika 33, 1945).

A lower loss need not be a higher accuracy: which of two arms is the better one may depend on what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Ranks:
    """first, second: the arms from best to worst by each metric, ties in the order given.

    tau: 1 where the orders are the same, -1 where one is the other backwards; None where one metric tells no two arms apart.
    swaps: (a, b) where a is better by the first metric and b by the second, the largest changes of place first.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    tau: float | None
    swaps: tuple[tuple[str, str], ...]


def ranks(first: Mapping[str, float], second: Mapping[str, float]) -> Ranks:
    """Two metrics of the same arms, higher is better in both; arms that only one has are left out."""
    arms = [arm for arm in first if arm in second]
    orders = [tuple(sorted(arms, key=lambda arm, metric=metric: -metric[arm])) for metric in (first, second)]
    signs = [(a, b, _sign(first[a] - first[b]), _sign(second[a] - second[b])) for a, b in combinations(arms, 2)]
    told = [sum(pair[place] != 0 for pair in signs) for place in (2, 3)]
    tau = sum(one * other for *_, one, other in signs) / math.sqrt(told[0] * told[1]) if all(told) else None
    swaps = [(a, b) if one > 0 else (b, a) for a, b, one, other in signs if one * other < 0]
    place = [{arm: at for at, arm in enumerate(order)} for order in orders]
    swaps.sort(key=lambda pair: (place[0][pair[0]] - place[0][pair[1]]) + (place[1][pair[1]] - place[1][pair[0]]))
    return Ranks(*orders, tau, tuple(swaps))


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
