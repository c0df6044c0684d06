"""Not worse than by more than a margin: a claim of its own, which a difference that is merely not significant does not give.

G. Piaggio et al., Reporting of noninferiority and equivalence randomized trials, JAMA 308, 2012. The arm is not worse when the whole 95%
interval of its gain is above minus the margin (a one-sided test at 2.5%), and worse when the whole interval is below; else it is open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from ostinato.analysis.intervals import Interval
from ostinato.judge.estimable import NotEstimable

Kind = Literal["not worse", "worse", "open"]
_WORDS = {"not worse": "not worse by more than {:g}", "worse": "worse by more than {:g}",
          "open": "open: whether it is worse by more than {:g}"}  # fmt: skip


@dataclass(frozen=True)
class NonInferiority:
    """kind: what the interval of the gain says of the margin.  p: one-sided, that the arm is worse by the margin or more."""

    gain: float
    margin: float
    kind: Kind
    p: float

    @property
    def words(self) -> str:
        """In words; an arm that is worse, and yet within the margin, is not worse by more than it."""
        return _WORDS[self.kind].format(self.margin)

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {**vars(self), "words": self.words}


def noninferiority(gain: float, interval: Interval, margin: float) -> NonInferiority:
    """gain: positive is better; interval: of it; margin: in its unit. Raises NotEstimable for a margin that is not above 0."""
    from scipy.special import stdtr

    if not margin > 0 or not math.isfinite(margin):
        raise NotEstimable(f"a margin of {margin:g}", "a margin is what may be lost, above 0", "say how much worse is still good enough")
    kind: Kind = "not worse" if interval.low > -margin else "worse" if interval.high < -margin else "open"
    beyond = gain + margin
    p = float(stdtr(interval.freedom, -beyond / interval.error)) if interval.error else float(beyond <= 0)
    return NonInferiority(gain, margin, kind, p)
