"""Intervals: over documents for a gain on one text, over seeds for a claim about an architecture.

Tokens of one document are not independent, so the document is the unit. The gain is a ratio, R = sum_d g_d / sum_d m_d, of what a document
d gains and its size m_d (tokens or bytes; h_d = m_d / sum m). Documents differ in size by orders of magnitude; the textbook variance of a
ratio (Cochran, Sampling Techniques, ch. 6) is then too small. So, after Bell and McCaffrey (Survey Methodology 28, 2002),
- each squared residual (g_d - R m_d)^2 is divided by 1 - 2 h_d + sum h^2, its expectation when the tokens of a document share one effect;
- Student's t has the degrees of freedom that match the mean and variance of that estimate when tokens are independent (Satterthwaite).
For documents of one size this is the plain t interval with K - 1 degrees of freedom. docs/decisions/0080 has the measured coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """low to high at `level`, with the standard error and the degrees of freedom it rests on."""

    low: float
    high: float
    error: float
    freedom: float
    level: float = LEVEL

    def holds(self, value: float) -> bool:
        """Whether `value` is inside."""
        return self.low <= value <= self.high


def over_clusters(gains: np.ndarray, sizes: np.ndarray, level: float = LEVEL) -> Interval | None:
    """The interval of sum(gains) / sum(sizes); gains, sizes: [K] sums of one cluster each, sizes > 0. None for fewer than two clusters."""
    if len(gains) < 2:
        return None
    residuals, freedom = cluster_residuals(gains, sizes)
    ratio = float(np.sum(gains, dtype=np.float64) / np.sum(sizes, dtype=np.float64))
    return students(ratio, float(np.linalg.norm(residuals)), freedom, level)


def cluster_residuals(gains: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, float]:
    """What each cluster adds to the error of sum(gains) / sum(sizes): [K], the root of their sum of squares is the standard error.

    Beside them the degrees of freedom of that error. gains, sizes: [K], two clusters or more, sizes > 0.
    """
    gains, sizes = np.asarray(gains, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    whole = sizes.sum()
    ratio, share = gains.sum() / whole, sizes / whole
    shrinkage = 1 - 2 * share + share @ share
    return (gains - ratio * sizes) / np.sqrt(shrinkage) / whole, _freedom(share, share**2 / shrinkage)


def _freedom(share: np.ndarray, weight: np.ndarray) -> float:
    """tr(A)^2 / tr(A^2) for A = S^(1/2) (I - 1h')' diag(w) (I - 1h') S^(1/2), S = diag(1 / h); h = share, w = weight: [K].

    The variance estimate is u'Mu in the mean effects u of documents, A is M in units of their spread, and the traces expand to sums.
    """
    trace = np.sum(weight / share) - weight.sum()
    of_square = np.sum((weight / share) ** 2) - 2 * np.sum(weight**2 / share) + weight.sum() ** 2
    return float(trace**2 / of_square)


def over_values(values: np.ndarray, level: float = LEVEL) -> Interval | None:
    """Student's t interval of the mean of independent values (seeds). None for fewer than two."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2:
        return None
    return students(float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))), len(values) - 1, level)


def students(point: float, error: float, freedom: float, level: float = LEVEL) -> Interval:
    """Student's t interval, two-sided; the normal one where `freedom` is infinite. scipy is imported here: planning needs none of it."""
    from scipy.special import stdtrit

    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    return Interval(point - half, point + half, error, freedom, level)
