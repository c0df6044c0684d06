"""The confidence set of a ratio of two gains (a share of a gain), from what each unit gives both of them.

E. C. Fieller, Some problems in interval estimation, Journal of the Royal Statistical Society B 16, 1954. A ratio c is in the set when
top - c bottom is not told from 0, that is (T - cB)^2 <= t^2 (V_tt - 2c V_tb + c^2 V_bb). The delta method's interval is always bounded and
then covers too little where B is near its noise; Fieller's covers at every B, and says so when the data allow any ratio:
- an interval, where B is told from 0;
- the complement of an interval, or a half line, where B is not told from 0 but the ratio of top and bottom still excludes something;
- everything, where neither is told from 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ostinato.analysis.intervals import LEVEL, cluster_residuals
from ostinato.analysis.words import signed
from ostinato.judge.estimable import NotEstimable

Kind = Literal["interval", "complement", "everything"]
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Ratio:
    """point: top / bottom.  interval: low to high (either may be infinite); complement: all up to low and all from high on; everything."""

    point: float
    kind: Kind
    low: float
    high: float
    freedom: float
    level: float = LEVEL

    def holds(self, value: float) -> bool:
        """Whether the ratio `value` is in the set."""
        inside = self.low <= value <= self.high
        return {"interval": inside, "complement": value <= self.low or value >= self.high, "everything": True}[self.kind]

    @property
    def bounded(self) -> bool:
        """Whether it is an interval with two finite ends."""
        return self.kind == "interval" and math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def words(self) -> str:
        """The set in words."""
        if self.kind == "everything":
            return "any ratio: neither gain is told from 0"
        if self.kind == "complement":
            return f"{signed(self.low)} or less, or {signed(self.high)} or more: the gain divided by is not told from 0"
        if self.bounded:
            return f"{signed(self.low)} to {signed(self.high)}"
        return f"{signed(self.low)} or more" if math.isfinite(self.low) else f"{signed(self.high)} or less"

    def record(self) -> dict[str, Any]:
        """As JSON types; an end that is not there is None."""
        ends = {name: value if math.isfinite(value := getattr(self, name)) else None for name in ("low", "high")}
        return {"point": self.point, "kind": self.kind, **ends, "freedom": self.freedom if math.isfinite(self.freedom) else None,
                "level": self.level, "words": self.words}  # fmt: skip


def fieller(top: float, bottom: float, covariance: np.ndarray, freedom: float, level: float = LEVEL) -> Ratio:
    """covariance: [2, 2] of the estimates top and bottom; freedom: degrees of Student's t (inf: the covariance is known).

    Raises NotEstimable for a bottom of exactly 0, which no ratio is over.
    """
    from scipy.special import stdtrit

    if bottom == 0:
        raise NotEstimable("a ratio over a gain of exactly 0", "a ratio needs something to be divided by", "compare the difference instead")
    (v_tt, v_tb), (_, v_bb) = np.asarray(covariance, dtype=np.float64)
    t2 = float(stdtrit(freedom, (1 + level) / 2)) ** 2
    # a c^2 - 2 b c + d <= 0
    a, b, d = bottom**2 - t2 * v_bb, top * bottom - t2 * v_tb, top**2 - t2 * v_tt
    a, b, d = (float(value) for value in (a, b, d))
    point, inf = top / bottom, math.inf
    if abs(a) <= _ROUNDING * bottom**2:
        if b == 0:
            return Ratio(point, "everything", -inf, inf, freedom, level)
        low, high = (d / (2 * b), inf) if b > 0 else (-inf, d / (2 * b))
        return Ratio(point, "interval", low, high, freedom, level)
    root = b**2 - a * d
    if a < 0 and root <= 0:
        return Ratio(point, "everything", -inf, inf, freedom, level)
    # For a > 0 the point estimate is in the set, so a negative root is rounding of a set of one point.
    half = math.copysign(math.sqrt(max(root, 0.0)), b)
    far = (b + half) / a
    near = d / (b + half) if b + half else far
    low, high = sorted((far, near))
    return Ratio(point, "interval" if a > 0 else "complement", low, high, freedom, level)


def ratio_over_documents(top: np.ndarray, bottom: np.ndarray, sizes: np.ndarray, level: float = LEVEL) -> Ratio:
    """top, bottom: [K] what each document gains in the one comparison and in the other; sizes: [K] its tokens or bytes, of both.

    The error of top - c bottom is that of `over_clusters`, for every c. Raises NotEstimable for fewer than two documents.
    """
    top, bottom, sizes = (np.asarray(values, dtype=np.float64) for values in (top, bottom, sizes))
    if len(sizes) < 2:
        raise NotEstimable(f"{len(sizes)} document", "an interval over documents takes two or more", "measure more documents")
    (above, freedom), (below, _) = (cluster_residuals(gains, sizes) for gains in (top, bottom))
    residuals, whole = np.stack([above, below]), sizes.sum()
    return fieller(top.sum() / whole, bottom.sum() / whole, residuals @ residuals.T, freedom, level)


def ratio_over_seeds(top: Mapping[int, float], bottom: Mapping[int, float], level: float = LEVEL) -> Ratio:
    """top, bottom: {seed: gain}, paired by the seeds that both have. Raises NotEstimable for fewer than two."""
    seeds = sorted(top.keys() & bottom.keys())
    if len(seeds) < 2:
        raise NotEstimable("fewer than two seeds of both gains", "the noise of seeds is known from two seeds on", "run more seeds")
    values = np.array([[gains[seed] for seed in seeds] for gains in (top, bottom)])
    mean = values.mean(axis=1)
    return fieller(float(mean[0]), float(mean[1]), np.cov(values) / len(seeds), len(seeds) - 1, level)

