"""The sign-flip test: were the two arms the same, every seed's (or document's) difference could as well have had the other sign.

R. A. Fisher, The Design of Experiments, 1935, section 21; E. J. G. Pitman, Significance tests which may be applied to samples from any
populations, 1937. All 2^n signs are tried up to n = 16; beyond, signs are drawn, and the observed ones count as one of the draws, so that p
is never 0 and never too small (B. Phipson and G. K. Smyth, Permutation p-values should never be zero, 2010).

It needs no normal distribution, but few units cannot give a small p: of three seeds the smallest is 0.25, of five 0.0625, of six 0.03125.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ostinato.judge.estimable import NotEstimable

EXACT = 16
DRAWS = 20_000


@dataclass(frozen=True)
class SignFlip:
    """p: two-sided.  smallest: that these units can give at all.  units: with a difference other than 0; draws: None where exact."""

    p: float
    smallest: float
    units: int
    draws: int | None = None

    def words(self, units: str = "seeds") -> str:
        """As `p = 0.25, the smallest that 3 seeds can give`."""
        if self.p <= self.smallest:
            return f"p = {self.p:.3g}, the smallest that {self.units} {units} can give"
        return f"p = {self.p:.3g} (smallest possible {self.smallest:.2g})"

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return dict(vars(self))


def sign_flip(differences: Iterable[float], draws: int = DRAWS, seed: int = 0) -> SignFlip:
    """Whether the sum of paired differences is told from 0.  differences: of each seed or document; a difference of 0 has no sign.

    Raises NotEstimable where there is none.
    """
    values = np.asarray(list(differences), dtype=np.float64)
    if not len(values):
        raise NotEstimable("no paired difference", "signs are flipped of the differences of pairs", "run both arms with the same seeds")
    values = values[values != 0]
    if not len(values):
        return SignFlip(1.0, 1.0, 0)
    observed = abs(values.sum()) * (1 - 1e-12)  # sums of the same values in another order
    if len(values) <= EXACT:
        # The last sign is kept: flipping all of them leaves the absolute sum as it is.
        signs = 1 - 2 * ((np.arange(1 << (len(values) - 1))[:, None] >> np.arange(len(values))) & 1)
        return SignFlip(float(np.mean(np.abs(signs @ values) >= observed)), 2.0 ** (1 - len(values)), len(values))
    random, hits, rows = np.random.Generator(np.random.Philox(seed)), 0, max(1, (1 << 22) // len(values))
    for start in range(0, draws, rows):
        signs = 1.0 - 2 * random.integers(0, 2, (min(rows, draws - start), len(values)), dtype=np.int8)
        hits += int(np.count_nonzero(np.abs(signs @ values) >= observed))
    return SignFlip((1 + hits) / (1 + draws), 1 / (1 + draws), len(values), draws)
