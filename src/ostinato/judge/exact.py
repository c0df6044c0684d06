"""Windows won: the exact sign test on how many windows are better under the arm, and how many worse.

J. Arbuthnott, 1710; W. J. Dixon and A. M. Mood, The statistical sign test, Journal of the American Statistical Association 41, 1946: ties
say nothing of the direction and are left out, and counted. It is the binomial test that McNemar's is on pairs
(`analysis.minimal_pairs.McNemar`). Windows of one document are not independent, so its p says less than it seems where documents are long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ostinato.analysis.minimal_pairs import McNemar


@dataclass(frozen=True)
class SignTest:
    """won, lost, tied: windows with a smaller, larger, equal sum of losses under the arm."""

    won: int
    lost: int
    tied: int

    @property
    def p(self) -> float:
        """Two-sided, exact; 1 where every window is tied."""
        return McNemar(self.won, self.lost).p

    @property
    def words(self) -> str:
        """As `won 61 of 100, 2 tied (exact p = 0.021)`."""
        tied = f", {self.tied:,} tied" if self.tied else ""
        return f"won {self.won:,} of {self.won + self.lost + self.tied:,}{tied} (exact p = {self.p:.2g})"

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {**vars(self), "p": self.p, "words": self.words}


def sign_test(gains: np.ndarray) -> SignTest:
    """gains: [W] what each window gains, positive where the arm is better."""
    gains = np.asarray(gains)
    return SignTest(int((gains > 0).sum()), int((gains < 0).sum()), int((gains == 0).sum()))
