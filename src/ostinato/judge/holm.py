"""Holm's step-down adjustment: the p values of a family of predictions, so that the chance of any false one stays below the level.

S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979. It holds whatever the
dependence between the tests, which predictions of one study share runs and documents for, and is never weaker than Bonferroni.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ostinato.judge.estimable import NotEstimable


def holm(ps: Iterable[float]) -> list[float]:
    """The adjusted p of each, in the order given: with p(1) <= ... <= p(m), the largest of (m - j + 1) p(j) over j <= i, at most 1.

    Tests that gave no p are for the caller to leave out. Raises NotEstimable for what is not a probability.
    """
    given = np.array(list(ps), dtype=np.float64)
    bad = [value for value in given if math.isnan(value) or not 0 <= value <= 1]
    if bad:
        raise NotEstimable(f"a p of {bad[0]}", "a p is a probability, from 0 to 1", "leave out what could not be tested")
    order = np.argsort(given, kind="stable")
    adjusted = np.empty(len(given))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1)))
    return [float(value) for value in adjusted]
