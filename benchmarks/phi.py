"""The fit of the phi law beside plain restarts of scipy's L-BFGS-B, and its honesty on tables of a known law.

Tables: the published grid (116 runs, arXiv 2604.21106) with losses of the published law and 0.3% noise. A and B, which are not published
for the joint fit, are taken between those of its separate fits.

Peer: the published way, 500 restarts of scipy.optimize's L-BFGS-B on the same objective (Huber of log loss, summed, log-sum-exp form), from
the same distribution of starts, within the same bounds, with the exact gradient: `plain` as scipy comes, `tight` with tolerances that let
it end where it can. Ours is never to be worse than the better of them, and 20 times as fast as the faster.

    python benchmarks/phi.py [--quick] [--json FILE]
"""

from __future__ import annotations

import json
import math
import statistics
import time
from pathlib import Path

import numpy as np
from harness import Row, main

from ostinato.scaling.cells import Cells
from ostinato.scaling.fit import Fit, fit_law, starting_points
from ostinato.scaling.intervals import bootstrap, combined, percentiles, profile
from ostinato.scaling.law import PHI, Rows, huber, huber_slope, jacobian, log_loss, terms
from ostinato.scaling.solve import bounds

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "phi_fit.json"
TRUTH = np.array([math.log(27.0), 0.199, math.log(900.0), 0.369, math.log(1.57), 0.46])
NOISE, RESTARTS, SEED = 0.003, 500, 20_260_421


def grid() -> tuple[np.ndarray, list[str]]:
    """N_once, N_rec, r and D of the 116 runs, (116, 4), and their cells."""
    runs, cells = [], []
    for budget, sizes in json.loads(GOLDEN.read_text(encoding="utf-8"))["iso_depth_grid"]["budgets_flops_and_s"].items():
        for d in (64 * s for s in sizes):
            for r in (1, 2, 4, 8):
                once, rec = 48 * d * d, 12 * d * d * 16 // r + (2 * d * d if r > 1 else 0)
                runs.append((once, rec, r, float(budget) / (6 * (once + 32_064 * d) + 6 * r * rec + 12 * d * 2048 * 20)))
                cells.append(f"{budget}, r {r}")
    return np.array(runs, dtype=float), cells


def table(runs: np.ndarray, seed: int) -> Rows:
    """The grid with losses of the law and noise of its own."""
    rows = Rows.of(*runs.T, np.ones(len(runs)))
    noise = NOISE * np.random.default_rng([SEED, seed]).standard_normal(len(runs))
    return Rows.of(*runs.T, np.exp(log_loss(rows.inside(TRUTH), rows) + noise))


def restarts(rows: Rows, count: int, options: dict[str, float]) -> tuple[float, float]:
    """The best of `count` restarts, and its seconds."""
    from scipy.optimize import minimize

    low, high = bounds(rows)
    limits = list(zip(low, high, strict=True))

    def cost(theta: np.ndarray) -> tuple[float, np.ndarray]:
        at = terms(theta[None], rows)
        error = at.value - rows.log_loss
        return float(huber(error).sum()), (huber_slope(error) @ jacobian(at, rows)[0])[0]

    starts = starting_points(rows, count, seed=1)
    began = time.perf_counter()
    best = min(minimize(cost, start, jac=True, method="L-BFGS-B", bounds=limits, options=options).fun for start in starts)
    return float(best), time.perf_counter() - began


def speed(runs: np.ndarray, quick: bool) -> list[Row]:
    """Turn about, a table a turn."""
    import scipy.optimize  # noqa: F401  what the first fit would wait for

    count, ours, plain, tight, worse = (20 if quick else RESTARTS), [], [], [], []
    fit_law(table(runs, 0))
    for turn in range(1 if quick else 5):
        rows = table(runs, turn)
        began = time.perf_counter()
        fit = fit_law(rows)
        ours.append(time.perf_counter() - began)
        value, seconds = restarts(rows, count, {})
        plain.append(seconds)
        finer, longer = restarts(rows, count // 5, {"ftol": 1e-16, "gtol": 1e-14, "maxiter": 15_000, "maxfun": 30_000})
        tight.append(longer * 5)
        worse.append(float(fit.value / min(value, finer) - 1))
    ratio = statistics.median(theirs / own for own, theirs in zip(ours, plain, strict=True))
    return [
        Row(f"a fit of {len(runs)} runs, beside {count} restarts", statistics.median(ours), statistics.median(plain), "s", ratio, 20.0,
            peer_name="L-BFGS-B", notes={"tight, s (5 times a fifth)": round(statistics.median(tight), 2)}),
        Row("objective above the best of all restarts, at most", max(worse), 0.0, "share", max(worse), 1e-9, True, "L-BFGS-B",
            notes={"of each table": [f"{one:.1e}" for one in worse]}),
    ]  # fmt: skip


def honesty(runs: np.ndarray, names: list[str], quick: bool) -> list[Row]:
    """Errors of phi over 50 tables, coverage over 200."""
    place = {name: at for at, name in enumerate(dict.fromkeys(names))}
    cells = Cells(np.array([place[name] for name in names]), tuple(place), "budget")
    errors, held, drawn, widths = [], [], [], []
    for seed in range(10 if quick else 200):
        fit: Fit = fit_law(table(runs, 1000 + seed), starts=16)
        errors.append(abs(fit.phi - float(TRUTH[PHI])))
        curve = profile(fit)
        draws = bootstrap(fit, cells, curve.ends, seed=seed)[:, PHI]
        (low, high, _), other = combined(curve, draws), percentiles(draws)
        held.append(low <= TRUTH[PHI] <= high)
        drawn.append(other[0] <= TRUTH[PHI] <= other[1])
        widths.append((high - low, other[1] - other[0]))
    middle = statistics.median(errors[:50])
    rows = [Row("median error of phi over 50 tables", middle, 0.02, "", middle, 0.02, at_most=True)]
    for way, found, at in (("the one that is reported", held, 0), ("block bootstrap (as published)", drawn, 1)):
        covered = 100 * statistics.fmean(found)
        width = statistics.fmean(both[at] for both in widths)
        notes = {"covered": f"{covered:.1f}% of {len(found)} tables", "mean width": f"{width:.4f}"}
        off, target = float(abs(covered - 95)), 2.0 if at == 0 else None
        rows.append(Row(f"coverage off 95%: {way}", off, 0.0, "points", off, target, True, notes=notes))
    return rows


def measure(quick: bool) -> list[Row]:
    runs, names = grid()
    return [*honesty(runs, names, quick), *speed(runs, quick)]


if __name__ == "__main__":
    main(measure, __doc__)
