"""Many fits of the law at once: a damped Newton method over a batch of problems, each with its own start, weights and held parameters.

Starts of one fit, resamples of a bootstrap, tables with a cell left out and points of a profile are all the same problem with other
weights or another start, so numpy takes a step of all of them in one go. A step solves (H + mu diag) d = -g. H is first that of
iteratively reweighted least squares, which points downhill from anywhere (Holland and Welsch, Commun. Stat. A6, 1977), and from
`SETTLE` steps on the exact second derivative where it is positive, which ends it. mu is raised when a step does not lower the objective
and lowered when it does (Marquardt, J. SIAM 11, 1963). A parameter at its bound that wants to leave it stays there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ostinato.scaling.law import ALPHA, BETA, DELTA, LOG_A, LOG_B, LOG_E, PHI, Rows, curvature, huber, huber_slope, jacobian, terms

SETTLE, MOST = 8, 2000
LARGEST = 400_000
"""Rows times problems that are in memory at once: about 200 MB."""
PHI_BOUNDS = (-3.0, 3.0)
POWER_BOUNDS = (0.0, 3.0)
TRACE = 12.0
"""A term of the law is at least exp(-12) of the smallest loss, in the units of the table: less is nothing, and a slope to nowhere."""


def bounds(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest theta, (6,) each, in the units of the table."""
    low, high = np.empty(6), np.empty(6)
    low[[ALPHA, BETA]], high[[ALPHA, BETA]] = POWER_BOUNDS
    low[PHI], high[PHI] = PHI_BOUNDS
    for place in (LOG_A, LOG_B, LOG_E):
        low[place], high[place] = rows.log_loss.min() - TRACE, rows.log_loss.max() + 3.0
    return low, high


@dataclass(frozen=True)
class Problems:
    """S problems over n rows. theta: starts (S, 6).  weights: (S, n).  held: parameters that stay, (S, 6).

    log_loss: (S, n), where problems differ in it too.
    """

    theta: np.ndarray
    weights: np.ndarray
    held: np.ndarray
    log_loss: np.ndarray

    @classmethod
    def of(cls, rows: Rows, theta: np.ndarray, weights: np.ndarray | None = None, held: np.ndarray | None = None,
           log_loss: np.ndarray | None = None) -> Problems:  # fmt: skip
        """Problems that share what is not given: every row once, nothing held, the losses of the table."""
        count, n = len(theta), len(rows)
        return cls(np.array(theta, dtype=float), np.broadcast_to(1.0 if weights is None else weights, (count, n)),
                   np.broadcast_to(False if held is None else held, (count, 6)),
                   np.broadcast_to(rows.log_loss if log_loss is None else log_loss, (count, n)))  # fmt: skip

    def some(self, chosen: np.ndarray | slice) -> Problems:
        return Problems(self.theta[chosen], self.weights[chosen], self.held[chosen], self.log_loss[chosen])


@dataclass(frozen=True)
class Solved:
    """theta: (S, 6).  value: the objective, (S,).  done: whether no step would lower it further, (S,)."""

    theta: np.ndarray
    value: np.ndarray
    done: np.ndarray


def solve(rows: Rows, problems: Problems, delta: float = DELTA, most: int = MOST) -> Solved:
    """The minimum of every problem from its start; a start outside the bounds begins at them. Large tables are taken in parts."""
    part = max(1, LARGEST // len(rows))
    if len(problems.theta) > part:
        parts = [solve(rows, problems.some(slice(at, at + part)), delta, most) for at in range(0, len(problems.theta), part)]
        return Solved(*(np.concatenate([getattr(one, name) for one in parts]) for name in ("theta", "value", "done")))
    low, high = bounds(rows)
    theta = np.where(problems.held, problems.theta, np.clip(problems.theta, low, high))
    count = len(theta)
    found, values, done = theta.copy(), np.full(count, np.inf), np.zeros(count, dtype=bool)
    at, now = np.arange(count), replace(problems, theta=theta)
    damping = np.full(count, 1e-2)
    state = _state(rows, now.theta, now, delta)
    for turn in range(most):
        step, slope = _step(rows, now, state, damping, turn >= SETTLE, low, high, delta)
        wanted = np.where(now.held, now.theta, np.clip(now.theta + step, low, high))
        next_state = _state(rows, wanted, now, delta)
        gain = state[2] - next_state[2]
        better = gain >= 0
        promised = -(slope * (wanted - now.theta)).sum(-1)
        damping = np.where(better, np.maximum(damping * 0.15, 1e-12), np.minimum(damping * 6.0, 1e12))
        theta = np.where(better[:, None], wanted, now.theta)
        state = _chosen(better, next_state, state)
        scale = 1e-13 * (state[2] + 1e-9)
        still = (better & (gain <= scale) & (promised <= 10 * scale)) | (~better & (damping >= 1e10)) | (~better & (promised <= scale))
        if turn < SETTLE:
            still[:] = False
        found[at], values[at], done[at] = theta, state[2], still
        keep = ~still
        if not keep.any():
            break
        now = replace(now, theta=theta)
        if not keep.all():
            now, at, damping = now.some(keep), at[keep], damping[keep]
            state = _kept(keep, state)
    return Solved(found, values, done)


def _state(rows, theta, problems, delta):
    at = terms(theta, rows)
    error = at.value - problems.log_loss
    return at, error, (huber(error, delta) * problems.weights).sum(-1)


def _pick(better, new, old):
    return np.where(better[:, None], new, old)


def _chosen(better, new, old):
    (at, error, value), (was, erred, cost) = new, old
    if better.all():
        return new
    p = tuple(_pick(better, one, other) for one, other in zip(at.p, was.p, strict=True))
    parts = {name: _pick(better, getattr(at, name), getattr(was, name)) for name in ("value", "log_n", "share", "tilt")}
    return type(at)(p=p, **parts), _pick(better, error, erred), np.where(better, value, cost)


def _kept(keep, state):
    at, error, value = state
    parts = {name: getattr(at, name)[keep] for name in ("value", "log_n", "share", "tilt")}
    return type(at)(p=tuple(one[keep] for one in at.p), **parts), error[keep], value[keep]


def _step(rows, now, state, damping, exact, low, high, delta):
    """Newton's step, and the slope of what is free to move."""
    at, error, _ = state
    derivative = jacobian(at, rows)
    pull = huber_slope(error, delta) * now.weights
    slope = (derivative.transpose(0, 2, 1) @ pull[..., None])[..., 0]
    stuck = now.held | ((now.theta <= low) & (slope > 0)) | ((now.theta >= high) & (slope < 0))
    slope = np.where(stuck, 0.0, slope)
    reweighted = now.weights * np.minimum(1.0, delta / np.maximum(np.abs(error), 1e-300))
    matrix = (derivative * reweighted[..., None]).transpose(0, 2, 1) @ derivative
    diagonal = np.einsum("sii->si", matrix) + 1e-12
    matrix = matrix + (damping[:, None] * diagonal)[:, :, None] * np.eye(6)
    if exact:
        bend = now.weights * (np.abs(error) <= delta)
        true = curvature(at, pull, bend, rows, derivative) + (damping[:, None] * diagonal)[:, :, None] * np.eye(6)
        true = _without(true, stuck)
        positive = np.linalg.eigvalsh(true)[:, 0] > 0
        matrix = np.where(positive[:, None, None], true, _without(matrix, stuck))
    else:
        matrix = _without(matrix, stuck)
    return -np.linalg.solve(matrix, slope[..., None])[..., 0], slope


def _without(matrix, stuck):
    free = ~stuck
    kept = matrix * (free[:, :, None] & free[:, None, :])
    return kept + stuck[:, :, None] * np.eye(6)
