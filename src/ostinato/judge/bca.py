"""The BCa interval of a gain by a bootstrap of whole documents: a second opinion beside the analytic interval, where gains are skewed.

B. Efron, Better bootstrap confidence intervals, Journal of the American Statistical Association 82, 1987: the ends are quantiles of the
bootstrap, moved for its bias (the share of samples below the estimate) and for the acceleration (the skewness of the jackknife over
documents). Bootstrap spreads leave out what a small sample lacks; so, after T. Hesterberg, What teachers should know about the bootstrap,
The American Statistician 69, 2015, the quantiles are widened to Student's t with the degrees of freedom of `over_clusters`, and by the
ratio of its standard error to the plain one. docs/decisions/0199 has the measured coverage, with and without.

Below 40 documents there is none: it covers too little there, and the analytic interval does not.
"""

from __future__ import annotations

import math

import numpy as np

from ostinato.analysis.intervals import LEVEL, Interval, over_clusters
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.resample import DRAWS, ratios

LEAST = 40


def bca(gains: np.ndarray, sizes: np.ndarray, level: float = LEVEL, draws: int = DRAWS, seed: int = 0) -> Interval:
    """Of sum(gains) / sum(sizes); gains, sizes: [K] of each document, sizes > 0. error: the bootstrap's.

    Raises NotEstimable below 40 documents.
    """
    return bca_each(np.asarray(gains)[None], sizes, level, draws, seed)[0]


def bca_each(gains_AK: np.ndarray, sizes: np.ndarray, level: float = LEVEL, draws: int = DRAWS, seed: int = 0) -> list[Interval]:
    """`bca` of A arms on the same documents, with the same samples. Raises NotEstimable below 40 documents."""
    gains_AK, sizes = np.asarray(gains_AK, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    if len(sizes) < LEAST:
        raise NotEstimable(f"{len(sizes)} document{'' if len(sizes) == 1 else 's'}", f"a bootstrap of documents takes {LEAST} or more",
                           "read the analytic interval, or measure more documents")  # fmt: skip
    drawn = ratios(gains_AK, sizes, draws, seed)
    return [_interval(gains, sizes, drawn[:, arm], level) for arm, gains in enumerate(gains_AK)]


def _interval(gains: np.ndarray, sizes: np.ndarray, drawn: np.ndarray, level: float) -> Interval:
    """drawn: the ratio of every sample."""
    from scipy.special import ndtr, ndtri, stdtrit

    ratio, whole = gains.sum() / sizes.sum(), sizes.sum()
    analytic, plain = over_clusters(gains, sizes, level), float(np.linalg.norm(gains - ratio * sizes)) / whole
    if plain <= 1e-14 * float(np.abs(gains).sum()) / whole:  # every document gains the same a token: nothing is left to chance
        return Interval(float(ratio), float(ratio), 0.0, analytic.freedom, level)
    below = (np.count_nonzero(drawn < ratio) + np.count_nonzero(drawn == ratio) / 2) / len(drawn)
    bias = ndtri(min(max(below, 0.5 / len(drawn)), 1 - 0.5 / len(drawn)))
    left_out = (gains.sum() - gains) / (whole - sizes)
    away = left_out.mean() - left_out
    acceleration = np.sum(away**3) / (6 * np.sum(away**2) ** 1.5)
    wide = stdtrit(analytic.freedom, (1 + level) / 2) * analytic.error / plain
    moved = bias + np.array([-wide, wide])
    low, high = np.quantile(drawn, ndtr(bias + moved / (1 - acceleration * moved)))
    return Interval(float(low), float(high), float(drawn.std(ddof=1)), math.inf, level)
