"""Intervals of phi: profile likelihood, calibrated for Huber's error, and a bootstrap over whole cells of budget and r.

Profile: Q(phi) is the objective at its best with phi held there. With h the share of rows whose error is within delta (the mean second
derivative of the error) and s the mean square of its first derivative,

    2 (Q(phi) - Q(phi^)) h / s   follows   F(1, n - p)        (Schrader and Hettmansperger, Biometrika 67, 1980)

where the errors of rows are independent: Huber's error is no likelihood of them, and without h / s the interval would be too short. h is
a density of the errors near 0, and is taken from a wider window than delta, which few rows are in.

Bootstrap: cells are drawn with replacement and the law is fitted to each draw (percentiles), as published: it allows for rows of a cell
that stray together, which the profile does not.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ostinato.scaling.cells import Cells
from ostinato.scaling.fit import Fit
from ostinato.scaling.law import ALPHA, DELTA, LOG_A, PHI, Rows, huber_slope, jacobian, terms
from ostinato.scaling.solve import PHI_BOUNDS, Problems, solve

LEVEL, RESAMPLES = 0.95, 200
WINDOW = 0.6
"""Of the window that the density of errors near 0 is taken from, in standard deviations."""


@dataclass(frozen=True)
class Profile:
    """low, high: the interval (an end at -3 or 3: unbounded there).  phi, rise: the curve, 2 (Q - Q^) h / s by its
    critical value."""

    low: float
    high: float
    phi: np.ndarray
    rise: np.ndarray

    @property
    def bounded(self) -> bool:
        return self.low > PHI_BOUNDS[0] and self.high < PHI_BOUNDS[1]

    @property
    def width(self) -> float:
        return self.high - self.low


def error_scale(fit: Fit) -> tuple[float, float]:
    """h and s of the errors."""
    errors, n = fit.residuals, len(fit.rows)
    window = max(DELTA, WINDOW * fit.spread)
    h = max(float((np.abs(errors) <= window).sum()), 1.0) / n * DELTA / window
    s = float((huber_slope(errors) ** 2).sum()) / max(n - fit.free, 1)
    return h, max(s, 1e-24)


def standard_errors(fit: Fit) -> np.ndarray:
    """Of theta, (6,), by the sandwich s / h (J'J)^-1 / h; 0 for what is held, infinite for what the table does not tell."""
    h, s = error_scale(fit)
    free = ~fit.mask
    derivative = jacobian(terms(fit.theta[None], fit.rows), fit.rows)[0][:, free]
    size = np.sqrt((derivative**2).sum(0))
    values, vectors = np.linalg.eigh((derivative / np.maximum(size, 1e-300)).T @ (derivative / np.maximum(size, 1e-300)))
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(vectors**2 > 1e-9, vectors**2 / np.where(values > 1e-10, values, 0.0), 0.0)
        errors = np.sqrt(parts.sum(1) * s) / h / size
    result = np.zeros(6)
    result[free] = np.where(np.isnan(errors), np.inf, errors)
    return result


def with_phi(rows: Rows, theta: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """theta with each phi, (S, 6), and A such that the first term stays as large in the middle of the table."""
    moved = np.repeat(theta[None], len(phi), axis=0)
    moved[:, PHI] = phi
    before = terms(theta[None], rows).log_n.mean()
    moved[:, LOG_A] += theta[ALPHA] * (terms(moved, rows).log_n.mean(-1) - before)
    return moved


def profile(fit: Fit, level: float = LEVEL) -> Profile:
    """The interval of phi by profile likelihood. A fit with phi held has none."""
    from scipy.stats import f as fisher

    step = float(np.clip(standard_errors(fit)[PHI], 1e-4, 1.0))
    mask = fit.mask.copy()
    mask[PHI] = True
    h, s = error_scale(fit)
    critical = float(fisher.ppf(level, 1, max(len(fit.rows) - fit.free, 1)))
    phi, values = np.array([fit.phi]), np.array([fit.value])
    for points in (fit.phi + step * np.linspace(-3, 3, 13), np.linspace(*PHI_BOUNDS, 41)):
        new = np.setdiff1d(points[(points >= PHI_BOUNDS[0]) & (points <= PHI_BOUNDS[1])], phi)
        found = solve(fit.rows, Problems.of(fit.rows, with_phi(fit.rows, fit.theta, new), held=mask)).value
        phi, values = np.concatenate((phi, new)), np.concatenate((values, found))
        order = np.argsort(phi)
        phi, values = phi[order], values[order]
        rise = 2 * np.maximum(values - min(fit.value, values.min()), 0.0) * h / s / critical
        if rise[0] >= 1.0 <= rise[-1]:
            break
    return Profile(_end(phi, rise, fit.phi, -1), _end(phi, rise, fit.phi, 1), phi, rise)


def _end(phi: np.ndarray, rise: np.ndarray, centre: float, way: int) -> float:
    """Where the curve reaches 1 on one side of the centre, by the root of the rise, which is nearly straight."""
    order = np.flatnonzero((phi - centre) * way >= 0)[::way]
    for near, far in itertools.pairwise(order):
        if rise[far] >= 1.0:
            a, b = np.sqrt(rise[near]), np.sqrt(rise[far])
            return float(phi[near] + (phi[far] - phi[near]) * (1 - a) / (b - a)) if a < 1 else float(phi[near])
    return PHI_BOUNDS[0] if way < 0 else PHI_BOUNDS[1]


def resampled(fit: Fit, weights: np.ndarray) -> np.ndarray:
    """theta of every resample, (S, 6).  weights: (S, n), how often each row was drawn."""
    start = np.repeat(fit.theta[None], len(weights), axis=0)
    return solve(fit.rows, Problems.of(fit.rows, start, weights, fit.mask)).theta


def bootstrap(fit: Fit, cells: Cells, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """theta of `resamples` draws of whole cells, (S, 6), in the units of the table."""
    return resampled(fit, cells.draws(resamples, seed)[:, cells.of_row])


def around(point: float, draws: np.ndarray, cells: int, level: float = LEVEL) -> tuple[float, float]:
    """As wide as the middle `level` of the draws, around the point, made wider for few cells: by Student's t over the normal's and by
    (c / (c - 1))^1/2. Percentiles alone call one difference in twelve clear that is none, of 24 cells (docs/decisions/0227)."""
    from scipy.stats import norm, t

    if cells < 2:
        return -np.inf, np.inf
    low, high = percentiles(draws, level)
    tail = 0.5 + level / 2
    half = (high - low) / 2 * float(t.ppf(tail, cells - 1) / norm.ppf(tail)) * np.sqrt(cells / (cells - 1))
    return point - float(half), point + float(half)


def percentiles(values: np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    """The middle `level` of some values."""
    low, high = np.percentile(values, [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)
