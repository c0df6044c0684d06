"""The loss law with a recurrence exponent, its derivatives, and the robust error that it is fitted by.

    L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta        (arXiv 2604.21106)

N_once: unique parameters that run once.  N_rec: those that run r times.  D: training tokens.  L: nats a token.  At phi = 0 a further pass
is worth nothing and at phi = 1 as much as parameters of its own: r^phi is what r passes of a block are worth, in blocks.

In logarithms, with theta = (log A, alpha, log B, beta, log E, phi), it is a log-sum-exp of three terms,

    log L = log(exp(log A - alpha log N) + exp(log B - beta log D) + exp(log E)),        N = N_once + r^phi N_rec

and the error of a row is Huber's of the difference of logarithms (delta 0.001), summed over rows (Hoffmann et al., arXiv 2203.15556,
approach 3; a mean makes optimisers stop early). Everything here takes many theta at once: S of them, beside n rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NAMES = ("log_A", "alpha", "log_B", "beta", "log_E", "phi")
LOG_A, ALPHA, LOG_B, BETA, LOG_E, PHI = range(6)
DELTA = 1e-3


@dataclass(frozen=True)
class Rows:
    """What the law is of, n rows: N_once, N_rec (parameters), log r, D (tokens), each float64 (n,), and the loss in logarithms.

    Sizes are in units of `unit_n` and `unit_d` (the middle of the table), where the terms of the law are least alike: `outside` and
    `inside` change log A and log B from parameters and tokens to those units and back.
    """

    once: np.ndarray
    rec: np.ndarray
    log_r: np.ndarray
    log_d: np.ndarray
    log_loss: np.ndarray
    unit_n: float
    unit_d: float

    @classmethod
    def of(cls, once: np.ndarray, rec: np.ndarray, r: np.ndarray, d: np.ndarray, loss: np.ndarray) -> Rows:
        """From columns in parameters, tokens and nats."""
        unit_n = float(np.exp(np.log(once + np.sqrt(r) * rec).mean()))
        unit_d = float(np.exp(np.log(d).mean()))
        return cls(once / unit_n, rec / unit_n, np.log(r), np.log(d / unit_d), np.log(loss), unit_n, unit_d)

    def __len__(self) -> int:
        return len(self.log_loss)

    def outside(self, theta: np.ndarray) -> np.ndarray:
        """theta for parameters and tokens, from theta for the units of the table. (…, 6)"""
        return self._shifted(theta, 1.0)

    def inside(self, theta: np.ndarray) -> np.ndarray:
        """The inverse of `outside`."""
        return self._shifted(theta, -1.0)

    def _shifted(self, theta: np.ndarray, sign: float) -> np.ndarray:
        shifted = np.array(theta, dtype=float)
        shifted[..., LOG_A] += sign * theta[..., ALPHA] * np.log(self.unit_n)
        shifted[..., LOG_B] += sign * theta[..., BETA] * np.log(self.unit_d)
        return shifted


@dataclass(frozen=True)
class Terms:
    """What the value and both derivatives are made of. value: log L.  p: shares of the three terms in L.  Each (S, n).

    log_n: log N.  tilt: d(log of the first term) / d phi = -alpha s log r, where s is the share of the repeated parameters in N.
    share: s.
    """

    value: np.ndarray
    p: tuple[np.ndarray, np.ndarray, np.ndarray]
    log_n: np.ndarray
    share: np.ndarray
    tilt: np.ndarray


def terms(theta: np.ndarray, rows: Rows) -> Terms:
    """theta: (S, 6)."""
    a, alpha, b, beta, e, phi = (theta[:, place : place + 1] for place in range(6))
    grown = np.exp(phi * rows.log_r) * rows.rec
    size = rows.once + grown
    share, log_n = grown / size, np.log(size)
    first, second = a - alpha * log_n, b - beta * rows.log_d
    top = np.maximum(np.maximum(first, second), e)
    parts = np.exp(first - top), np.exp(second - top), np.exp(e - top)
    total = parts[0] + parts[1] + parts[2]
    p = parts[0] / total, parts[1] / total, parts[2] / total
    return Terms(top + np.log(total), p, log_n, share, -alpha * share * rows.log_r)


def log_loss(theta: np.ndarray, rows: Rows) -> np.ndarray:
    """(S, n) from (S, 6), or (n,) from (6,)."""
    return terms(theta, rows).value if theta.ndim == 2 else terms(theta[None], rows).value[0]


def jacobian(at: Terms, rows: Rows) -> np.ndarray:
    """d log L / d theta: (S, n, 6)."""
    first, second, third = at.p
    return np.stack((first, -first * at.log_n, second, -second * rows.log_d, third, first * at.tilt), axis=-1)


def huber(error: np.ndarray, delta: float = DELTA) -> np.ndarray:
    """u^2 / 2 up to delta, then delta (|u| - delta / 2)."""
    size = np.abs(error)
    inner = np.minimum(size, delta)
    return inner * (size - inner / 2)


def huber_slope(error: np.ndarray, delta: float = DELTA) -> np.ndarray:
    """The derivative of `huber`: u, held within delta."""
    return np.clip(error, -delta, delta)


def objective(theta: np.ndarray, rows: Rows, weights: np.ndarray | None = None, delta: float = DELTA) -> np.ndarray:
    """What is minimised: the sum over rows. (S,) from (S, 6).  weights: (n,) or (S, n), how often each row counts (default once)."""
    errors = huber(log_loss(theta, rows) - rows.log_loss, delta)
    return errors.sum(-1) if weights is None else (errors * weights).sum(-1)


def curvature(at: Terms, slope: np.ndarray, bend: np.ndarray, rows: Rows, derivative: np.ndarray) -> np.ndarray:
    """The second derivative of the objective, (S, 6, 6).  slope, bend: first and second derivative of the (weighted) error, (S, n).

    Of a log-sum-exp of z_k with shares p_k: sum p_k (dz_k dz_k' + ddz_k) - J J'; only z_1 = log A - alpha log N bends by itself.
    """
    full = (derivative * (bend - slope)[..., None]).transpose(0, 2, 1) @ derivative
    first, second, third = (share * slope for share in at.p)
    ones = np.ones_like(at.log_n)
    of_n = np.stack((ones, -at.log_n, at.tilt), axis=-1)
    block = (of_n * first[..., None]).transpose(0, 2, 1) @ of_n
    mixed = -(first * at.share * rows.log_r).sum(-1)
    block[:, 1, 2] += mixed
    block[:, 2, 1] += mixed
    block[:, 2, 2] += (first * at.tilt * (1 - at.share) * rows.log_r).sum(-1)
    places = np.array((LOG_A, ALPHA, PHI))
    full[:, places[:, None], places] += block
    moved = second * rows.log_d
    full[:, LOG_B, LOG_B] += second.sum(-1)
    full[:, LOG_B, BETA] -= moved.sum(-1)
    full[:, BETA, LOG_B] -= moved.sum(-1)
    full[:, BETA, BETA] += (moved * rows.log_d).sum(-1)
    full[:, LOG_E, LOG_E] += third.sum(-1)
    return full


def equivalent(once: float | np.ndarray, rec: float | np.ndarray, r: float | np.ndarray, phi: float) -> float | np.ndarray:
    """Unique parameters of the model without recurrence that reaches the same loss: N_once + r^phi N_rec."""
    return once + np.power(r, phi) * rec


def applied(once: float | np.ndarray, rec: float | np.ndarray, r: float | np.ndarray) -> float | np.ndarray:
    """Parameters that a token passes through: N_once + r N_rec, which is what training and inference cost goes by."""
    return once + r * rec
