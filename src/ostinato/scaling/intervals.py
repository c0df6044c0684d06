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

from dataclasses import dataclass

import numpy as np

from ostinato.scaling.cells import Cells
from ostinato.scaling.fit import Fit, starting_points
from ostinato.scaling.law import ALPHA, DELTA, LOG_A, PHI, Rows, huber_slope, jacobian, terms
from ostinato.scaling.solve import PHI_BOUNDS, Problems, solve

LEVEL, RESAMPLES = 0.95, 200
WIDER = 1.5
"""Times the width of the profile, from which on the bootstrap's interval counts: runs of a cell stray together, or cells are few."""
STARTS = 6
"""Of every point of the profile, beside the fit's own place and its neighbours': the objective has local minima away from phi^."""
WINDOW = 0.6
"""Of the window that the density of errors near 0 is taken from, in standard deviations."""


@dataclass(frozen=True)
class Profile:
    """low, high: the outermost ends of what is not ruled out (at -3 or 3: unbounded there).  phi, rise: the curve, 2 (Q - Q^) h / s by its
    critical value.  ends: theta of the points nearest to low and high, (2, 6)."""

    low: float
    high: float
    phi: np.ndarray
    rise: np.ndarray
    ends: np.ndarray

    @property
    def bounded(self) -> bool:
        return self.low > PHI_BOUNDS[0] and self.high < PHI_BOUNDS[1]

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def optima(self) -> list[float]:
        """phi of the best fit of each stretch that is not ruled out: more than one where values between them are."""
        inside = np.flatnonzero(self.rise < 1)
        stretches = np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1)
        return [float(self.phi[one[self.rise[one].argmin()]]) for one in stretches if len(one)]


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
    """The interval of phi by profile likelihood. A fit with phi held has none.

    Taken near phi^ and over all of -3 to 3, for there may be another optimum: without r = 1, r^phi N_rec grows, falls and grows with phi.
    """
    from scipy.stats import f as fisher

    step = float(np.clip(standard_errors(fit)[PHI], 1e-4, 1.0))
    h, s = error_scale(fit)
    critical = float(fisher.ppf(level, 1, max(len(fit.rows) - fit.free, 1)))
    phi = np.union1d(fit.phi + step * np.linspace(-3, 3, 13), np.linspace(*PHI_BOUNDS, 41))
    phi = phi[(phi >= PHI_BOUNDS[0]) & (phi <= PHI_BOUNDS[1]) & (phi != fit.phi)]
    values, theta = _held_at(fit, phi)
    phi, values, theta = np.append(phi, fit.phi), np.append(values, fit.value), np.concatenate((theta, fit.theta[None]))
    order = np.argsort(phi)
    values, theta = _from_neighbours(fit, phi[order], values[order], theta[order])
    phi, values, theta = _with_optima(fit, phi[order], values, theta)
    rise = 2 * np.maximum(values - min(fit.value, values.min()), 0.0) * h / s / critical
    low, high = _end(phi, rise, -1), _end(phi, rise, 1)
    return Profile(low, high, phi, rise, theta[[np.abs(phi - low).argmin(), np.abs(phi - high).argmin()]])


def _with_optima(fit: Fit, phi: np.ndarray, values: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The points, and beside them the optima that their dips lead to with phi free."""
    dips = np.flatnonzero((values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:])) + 1
    if not len(dips):
        return phi, values, theta
    found = solve(fit.rows, Problems.of(fit.rows, theta[dips], held=fit.mask))
    new = ~np.isin(found.theta[:, PHI], phi)
    phi, values = np.append(phi, found.theta[new, PHI]), np.append(values, found.value[new])
    order = np.argsort(phi)
    return phi[order], values[order], np.concatenate((theta, found.theta[new]))[order]


def _held_at(fit: Fit, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least objective with each phi, (S,), and its theta, (S, 6): from the fit's place and from others."""
    others = starting_points(fit.rows, STARTS, 1, fit.held)
    starts = np.concatenate([with_phi(fit.rows, fit.theta, phi), *(with_phi(fit.rows, one, phi) for one in others)])
    return _least(fit, starts, len(phi))


def _from_neighbours(fit: Fit, phi: np.ndarray, values: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each point once more from where the points beside it ended."""
    for shift in (1, -1):
        starts = np.roll(theta, shift, axis=0)
        starts[:, PHI] = phi
        found, at = _least(fit, starts, len(phi))
        better = found < values
        values, theta = np.where(better, found, values), np.where(better[:, None], at, theta)
    return values, theta


def _least(fit: Fit, starts: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Of starts that hold phi, (k * count, 6), the best of each k: objective (count,) and theta (count, 6)."""
    mask = fit.mask.copy()
    mask[PHI] = True
    found = solve(fit.rows, Problems.of(fit.rows, starts, held=mask))
    values = found.value.reshape(-1, count)
    best = values.argmin(0)
    return values.min(0), found.theta.reshape(-1, count, 6)[best, np.arange(count)]


def _end(phi: np.ndarray, rise: np.ndarray, way: int) -> float:
    """The outermost place on one side where the curve reaches 1, by the root of the rise, which is nearly straight."""
    inside = np.flatnonzero(rise < 1)
    near = int(inside[-1] if way > 0 else inside[0])
    far = near + way
    if not 0 <= far < len(phi):
        return PHI_BOUNDS[0] if way < 0 else PHI_BOUNDS[1]
    a, b = np.sqrt(rise[near]), np.sqrt(rise[far])
    return float(phi[near] + (phi[far] - phi[near]) * (1 - a) / (b - a))


def resampled(fit: Fit, weights: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
    """theta of every resample, (S, 6).  weights: (S, n), how often each row was drawn.  others: further places to start from, (k, 6)."""
    starts = fit.theta[None] if others is None else np.concatenate((fit.theta[None], others))
    found = [solve(fit.rows, Problems.of(fit.rows, np.repeat(one[None], len(weights), axis=0), weights, fit.mask)) for one in starts]
    best = np.stack([one.value for one in found]).argmin(0)
    return np.stack([one.theta for one in found])[best, np.arange(len(weights))]


def bootstrap(fit: Fit, cells: Cells, others: np.ndarray | None = None, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """theta of `resamples` draws of whole cells, (S, 6), in the units of the table.  others: as in `resampled`."""
    return resampled(fit, cells.draws(resamples, seed)[:, cells.of_row], others)


def combined(curve: Profile, draws: np.ndarray) -> tuple[float, float, str]:
    """The interval that is reported, and how it was made: by profile; and where resampled cells stray much further, as far as either."""
    low, high = percentiles(draws)
    if high - low <= WIDER * curve.width:
        return curve.low, curve.high, "profile likelihood"
    return min(low, curve.low), max(high, curve.high), "profile likelihood and block bootstrap, as far as either"


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
