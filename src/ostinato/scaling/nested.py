"""Laws within the law, compared: no worth of a further pass (phi = 0: the law without r), full worth (phi = 1), and phi free.

By prediction of what was left out, one cell of (budget, r) after the other; and by AIC and BIC under the likelihood that this fit is the
maximum of: errors of log loss independent, with density exp(-huber(u) / s) / Z(s), normal within delta and exponential beyond it, and s
estimated (one parameter more).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ostinato.scaling.cells import Cells
from ostinato.scaling.fit import Fit, fit_law
from ostinato.scaling.law import DELTA, huber, log_loss
from ostinato.scaling.solve import Problems, solve

LAWS = {"phi = 0": 0.0, "phi = 1": 1.0, "phi free": None}


@dataclass(frozen=True)
class Law:
    """name.  fit.  r2: of log loss.  left_out: root mean square of the error of log loss in cells that were left out.  left_out_r2.
    aic, bic: smaller is better; of no meaning beside another table's."""

    name: str
    fit: Fit
    r2: float
    left_out: float
    left_out_r2: float
    aic: float
    bic: float


def compare(fit: Fit, cells: Cells) -> list[Law]:
    """phi = 0, phi = 1 and the fit itself, on the same rows and with the same values held."""
    found = []
    for name, phi in LAWS.items():
        one = fit if phi is None else fit_law(fit.rows, {**fit.held, "phi": phi})
        errors = left_out(one, cells)
        spread = float(((fit.rows.log_loss - fit.rows.log_loss.mean()) ** 2).sum())
        likelihood, n, k = log_likelihood(one), len(one.rows), one.free + 1
        found.append(Law(name, one, 1 - float((one.residuals**2).sum()) / spread, math.sqrt(float((errors**2).mean())),
                         1 - float((errors**2).sum()) / spread, 2 * k - 2 * likelihood, k * math.log(n) - 2 * likelihood))  # fmt: skip
    return found


def left_out(fit: Fit, cells: Cells) -> np.ndarray:
    """log loss of each row less what the law says that is fitted to all other cells, (n,)."""
    weights = (cells.of_row[None] != np.arange(len(cells))[:, None]).astype(float)
    start = np.repeat(fit.theta[None], len(cells), axis=0)
    theta = solve(fit.rows, Problems.of(fit.rows, start, weights, fit.mask)).theta
    said = log_loss(theta, fit.rows)
    return fit.rows.log_loss - said[cells.of_row, np.arange(len(fit.rows))]


def log_likelihood(fit: Fit) -> float:
    """The largest over s, of the errors of the fit."""
    from scipy.optimize import minimize_scalar

    total, n = float(huber(fit.residuals).sum()), len(fit.rows)

    def cost(log_s: float) -> float:
        s = math.exp(log_s)
        tail = 2 * s / DELTA * math.exp(-(DELTA**2) / (2 * s))
        z = math.sqrt(2 * math.pi * s) * math.erf(DELTA / math.sqrt(2 * s)) + tail
        return total / s + n * math.log(z)

    centre = math.log(max(total / n, 1e-16))
    return -float(minimize_scalar(cost, bounds=(centre - 6, centre + 6), method="bounded").fun)
