"""One fit of the law: many starts at once, the best few polished by scipy, and how many starts ended at the same place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ostinato.errors import FitError
from ostinato.scaling.law import ALPHA, BETA, DELTA, LOG_E, NAMES, PHI, Rows, huber, huber_slope, jacobian, log_loss, terms
from ostinato.scaling.solve import Problems, bounds, solve

STARTS, POLISHED = 64, 3
AGREE = 1e-4
"""Starts agree whose objective is within this share of the best one."""
LARGER = 1e4
"""The objective is about 1e-4, and L-BFGS-B stops at changes that are small beside 1."""
HOLDABLE = {"E": LOG_E, "alpha": ALPHA, "beta": BETA, "phi": PHI}


@dataclass(frozen=True)
class Fit:
    """theta: (6,) in the units of the table (rows.outside gives parameters and tokens).  held: what was stated and not fitted, by name.

    value: the objective.  starts, agreeing: how many there were, and how many of them ended at the best objective.
    """

    rows: Rows
    theta: np.ndarray
    held: Mapping[str, float]
    value: float
    starts: int
    agreeing: int

    @property
    def phi(self) -> float:
        return float(self.theta[PHI])

    @property
    def parameters(self) -> dict[str, float]:
        """E (nats), A, alpha, B, beta, phi, for parameters and tokens."""
        return named(self.rows.outside(self.theta))

    @property
    def free(self) -> int:
        """How many parameters were fitted."""
        return len(NAMES) - len(self.held)

    @property
    def residuals(self) -> np.ndarray:
        """log loss, less the law's, (n,): above 0 is worse than the law."""
        return self.rows.log_loss - log_loss(self.theta, self.rows)

    @property
    def spread(self) -> float:
        """A robust standard deviation of the residuals: 1.4826 times their median absolute value, for the parameters that were fitted."""
        n = len(self.rows)
        return 1.4826 * float(np.median(np.abs(self.residuals))) * math.sqrt(n / max(n - self.free, 1))

    @property
    def mask(self) -> np.ndarray:
        """Which parameters were held, (6,)."""
        return held_mask(self.held)


def named(theta: np.ndarray) -> dict[str, float]:
    """E, A, alpha, B, beta and phi of theta for parameters and tokens."""
    a, alpha, b, beta, e, phi = (float(value) for value in theta)
    return {"E": math.exp(e), "A": math.exp(a), "alpha": alpha, "B": math.exp(b), "beta": beta, "phi": phi}


def held_mask(held: Mapping[str, float]) -> np.ndarray:
    mask = np.zeros(6, dtype=bool)
    mask[[HOLDABLE[name] for name in held]] = True
    return mask


def starting_points(rows: Rows, count: int = STARTS, seed: int = 0, held: Mapping[str, float] | None = None) -> np.ndarray:
    """Laws that pass through the middle of the table, (count, 6): E a share of the lowest loss, the rest divided between N and D."""
    draw = np.random.Generator(np.random.Philox(seed))
    low, middle = math.exp(rows.log_loss.min()), math.exp(float(np.median(rows.log_loss)))
    level = draw.uniform(0.1, 0.98, count) * low
    if held and "E" in held:
        level[:] = held["E"]
    rest, share = np.maximum(middle - level, 0.02 * middle), draw.uniform(0.05, 0.95, count)
    theta = np.stack((np.log(share * rest), draw.uniform(0.05, 1.0, count), np.log((1 - share) * rest), draw.uniform(0.05, 1.0, count),
                      np.log(level), draw.uniform(-1.0, 2.0, count)), axis=1)  # fmt: skip
    for name, value in (held or {}).items():
        theta[:, HOLDABLE[name]] = math.log(value) if name == "E" else value
    return theta


def fit_law(rows: Rows, held: Mapping[str, float] | None = None, starts: int = STARTS, seed: int = 0, delta: float = DELTA) -> Fit:
    """The law of least summed Huber error.  held: values that are stated instead of fitted, of E (nats), alpha, beta, phi.

    Raises FitError for a stated value that cannot be, and for fewer rows than parameters.
    """
    held = dict(held or {})
    _check(rows, held)
    theta = starting_points(rows, starts, seed, held)
    mask = held_mask(held)
    found = solve(rows, Problems.of(rows, theta, held=mask), delta)
    best = np.argsort(found.value)[:POLISHED]
    polished = [polish(rows, found.theta[at], mask, delta) for at in best]
    candidates = [*zip(found.theta[best], found.value[best], strict=True), *polished]
    chosen, value = min(candidates, key=lambda one: one[1])
    agreeing = int((found.value <= value * (1 + AGREE) + 1e-12).sum())
    return Fit(rows, chosen, held, float(value), starts, agreeing)


def polish(rows: Rows, theta: np.ndarray, mask: np.ndarray, delta: float = DELTA) -> tuple[np.ndarray, float]:
    """L-BFGS-B from `theta` over what is not held: the last word, by another method."""
    from scipy.optimize import minimize

    free = ~mask
    low, high = bounds(rows)
    whole = theta.copy()

    def cost(part: np.ndarray) -> tuple[float, np.ndarray]:
        whole[free] = part
        at = terms(whole[None], rows)
        error = at.value - rows.log_loss
        slope = (huber_slope(error, delta) @ jacobian(at, rows)[0])[0]
        return LARGER * float(huber(error, delta).sum()), LARGER * slope[free]

    done = minimize(cost, theta[free], jac=True, method="L-BFGS-B", bounds=list(zip(low[free], high[free], strict=True)))
    whole[free] = done.x
    return whole.copy(), float(done.fun) / LARGER


def _check(rows: Rows, held: Mapping[str, float]) -> None:
    lowest = math.exp(rows.log_loss.min())
    for name, value in held.items():
        wrong = not math.isfinite(value) or (name != "phi" and value <= 0) or (name == "E" and value >= lowest)
        if wrong or (name in ("alpha", "beta") and value > 3):
            rule = (
                f"E is above 0 and below every loss (the lowest is {lowest:.4g} nats)" if name == "E" else f"{name} is above 0, at most 3"
            )
            raise FitError(f"{name} = {value:g}", rule, "state what a fit of the same data and tokenizer gave")
    free = len(NAMES) - len(held)
    if len(rows) <= free:
        raise FitError(f"{len(rows)} rows for {free} parameters", "a fit needs more rows than it has parameters",
                       "add runs, or state what another fit on the same text gave: --E, --alpha, --beta")  # fmt: skip
