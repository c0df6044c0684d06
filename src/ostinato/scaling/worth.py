"""What a fit tells a user: the model without loops that a looped one equals, what both cost, and where looping pays.

A looped model of (N_once, N_rec, r) stands where N = N_once + r^phi N_rec unique parameters would. It owns N_once + N_rec, and trains and
runs at the cost of N_once + r N_rec: 6 FLOPs an applied parameter and token to train, 2 to run (attention and head apart). As r^phi lies
between 1 and r, it is more than it owns and less than it costs: looping pays where parameters or memory are fixed, and not where FLOPs are.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ostinato.scaling.law import applied, equivalent

if TYPE_CHECKING:
    from ostinato.scaling.findings import Findings

SHOWN = (1, 2, 4, 8)
MOST_SHOWN = 6
TRAIN, RUN = 6, 2
"""FLOPs an applied parameter and token."""


@dataclass(frozen=True)
class Model:
    """One looped model beside the one without loops that reaches its loss. owned, equal, cost: unique parameters, those of the other, and
    those that a token passes through.  train, run: FLOPs a token; *_equal: of the other."""

    N_once: float
    N_rec: float
    r: float
    owned: float
    equal: float
    cost: float
    train: float
    run: float
    train_equal: float
    run_equal: float


def model(once: float, rec: float, r: float, phi: float) -> Model:
    """As published: N_once 219.4M, N_rec 190.6M, r 4 at phi 0.46 own 410M, stand where 580M would, and cost what 982M do."""
    equal, cost = float(equivalent(once, rec, r, phi)), float(applied(once, rec, r))
    return Model(once, rec, r, once + rec, equal, cost, TRAIN * cost, RUN * cost, TRAIN * equal, RUN * equal)


@dataclass(frozen=True)
class Curve:
    """Loss for each r: at equal training FLOPs, at the best size for them; at equal unique parameters and the same tokens.

    known: whether the table has runs of this r.
    """

    r: float
    known: bool
    flops: np.ndarray
    at_flops: np.ndarray
    parameters: np.ndarray
    at_parameters: np.ndarray


@dataclass(frozen=True)
class Worth:
    """models: the largest of the table for each r above 1.  curves: over the reach of the table.  tokens: of `at_parameters`.

    flops, parameters: where the two differences are taken, the middle of the table; by r: loss less that of r = 1, nats.
    """

    models: tuple[Model, ...]
    curves: tuple[Curve, ...]
    tokens: float
    flops: float
    parameters: float
    by_flops: dict[float, float]
    by_parameters: dict[float, float]

    def record(self) -> dict[str, Any]:
        return {"models": [asdict(one) for one in self.models], "flops": self.flops, "parameters": self.parameters, "tokens": self.tokens,
                "loss_at_equal_flops": {f"{r:g}": value for r, value in self.by_flops.items()},
                "loss_at_equal_parameters": {f"{r:g}": value for r, value in self.by_parameters.items()}}  # fmt: skip


def worth(found: Findings, shown: tuple[float, ...] = SHOWN) -> Worth:
    """From the fit and the shapes of the table: how much of a model repeats at each r."""
    table, law = found.table, found.fit.parameters
    largest = []
    for r in sorted(set(table.r[table.r > 1].tolist())):
        at = np.flatnonzero(table.r == r)
        best = at[table.unique[at].argmax()]
        largest.append(model(float(table.N_once[best]), float(table.N_rec[best]), r, law["phi"]))
    reach = np.geomspace(table.flops.min(), table.flops.max(), 41)
    sizes = np.geomspace(table.unique.min(), table.unique.max(), 41)
    tokens = float(np.exp(np.median(np.log(table.D))))
    curves = []
    there = set(table.r.tolist())
    for r in sorted({*shown, *(there if len(there) <= MOST_SHOWN else ())}):
        again = share(found, r)
        gain, cost = 1 + again * (r ** law["phi"] - 1), 1 + again * (r - 1)
        curves.append(Curve(r, r in there, reach, best_loss(law, reach, gain, cost), sizes, loss(law, sizes * gain, tokens)))
    middle = len(reach) // 2
    plain = next(one for one in curves if one.r == 1)
    return Worth(tuple(largest), tuple(curves), tokens, float(reach[middle]), float(sizes[middle]),
                 {one.r: float(one.at_flops[middle] - plain.at_flops[middle]) for one in curves},
                 {one.r: float(one.at_parameters[middle] - plain.at_parameters[middle]) for one in curves})  # fmt: skip


def share(found: Findings, r: float) -> float:
    """The share of unique parameters that repeat in a model of r passes: of the table, or as its nearest r has it at equal depth."""
    table = found.table
    if r == 1:
        return 0.0
    known = np.unique(table.r[table.r > 1])
    nearest = float(known[np.abs(np.log(known / r)).argmin()])
    rows = np.isclose(table.r, nearest)
    ratio = float(np.median(table.N_rec[rows] / np.maximum(table.N_once[rows], 1e-9))) * nearest / r
    return ratio / (1 + ratio)


def loss(law: dict[str, float], size: np.ndarray, tokens: np.ndarray | float) -> np.ndarray:
    """Nats a token of so many (equivalent) parameters after so many tokens."""
    return law["E"] + law["A"] * size ** -law["alpha"] + law["B"] * tokens ** -law["beta"]


def best_loss(law: dict[str, float], flops: np.ndarray, gain: float, cost: float) -> np.ndarray:
    """The lowest at so many training FLOPs, over all sizes: with n unique parameters, N = gain n and D = FLOPs / (6 cost n).

    It is where alpha A (gain n)^-alpha = beta B D^-beta.
    """
    a, alpha, b, beta = law["A"], law["alpha"], law["B"], law["beta"]
    if min(alpha, beta) <= 0:
        return np.full(len(flops), np.nan)
    constant = np.log(alpha * a) - alpha * np.log(gain) - np.log(beta * b) - beta * np.log(TRAIN * cost)
    size = np.exp((constant + beta * np.log(flops)) / (alpha + beta))
    return loss(law, gain * size, flops / (TRAIN * cost * size))
