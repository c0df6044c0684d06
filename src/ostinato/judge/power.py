"""What a study can find: the power of a t test, the smallest difference that it finds, and how many seeds would settle a difference.

The noncentral t distribution: J. Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988, ch. 2; N. L. Johnson, S. Kotz and
N. Balakrishnan, Continuous Univariate Distributions 2, 1995, ch. 31. The test is Student's, two-sided at 5%, on differences paired by seed;
the promised power is 80%. What comes out is as good as the standard deviation that goes in: see `noise` for its degrees of freedom.
"""

from __future__ import annotations

import math

from ostinato.analysis.intervals import LEVEL
from ostinato.judge.estimable import NotEstimable

PROMISED = 0.8
MOST_SEEDS = 1000
_MANY = 1e9


def power(difference: float, error: float, freedom: float, level: float = LEVEL) -> float:
    """The probability that a true difference is told from 0.  error: its standard error, which is estimated with `freedom` degrees."""
    from scipy.special import ncfdtr, stdtrit

    freedom = min(freedom, _MANY)
    if not error:
        return float(difference != 0)
    # t^2 is a noncentral F, whose function in scipy holds where that of t does not; with more than 2 degrees, 30 errors are always found.
    away = (difference / error) ** 2
    return 1.0 if freedom > 2 and away > 900 else float(1 - ncfdtr(1, freedom, away, stdtrit(freedom, (1 + level) / 2) ** 2))


def detectable(error: float, freedom: float, promised: float = PROMISED, level: float = LEVEL) -> float:
    """The smallest true difference that is found with the promised power, in the unit of `error`, its standard error.

    Raises NotEstimable without degrees of freedom: from one seed nothing is known of their noise.
    """
    from scipy.optimize import brentq

    if not freedom > 0:
        raise NotEstimable("one seed: the noise of seeds is not known", "a difference is told from noise that is known", "run more seeds")
    if not error:
        return 0.0
    high = 4.0
    while power(high, 1.0, freedom, level) < promised:
        high *= 2
    return error * float(brentq(lambda away: power(away, 1.0, freedom, level) - promised, 0.0, high))


def seeds_needed(difference: float, sd: float, promised: float = PROMISED, level: float = LEVEL, most: int = MOST_SEEDS) -> int:
    """How many seeds, paired, find a difference as large as this with the promised power, where seeds differ by `sd`: two or more.

    Raises NotEstimable for a difference of 0, and where more than `most` are needed.
    """
    if not difference:
        raise NotEstimable("a difference of exactly 0", "no number of seeds settles that there is none", "ask for not worse than a margin")
    if not sd:
        return 2

    def enough(seeds: int) -> bool:
        return power(difference, sd / math.sqrt(seeds), seeds - 1, level) >= promised

    low, high = 1, 2
    while not enough(high):
        if high >= most:
            raise NotEstimable(f"more than {most:,} seeds would be needed", "", "the difference is far inside the noise of seeds")
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
