"""Pictures of a fit of the law: runs beside it, what r passes are worth between its limits, loss at equal cost, and residuals."""

from __future__ import annotations

import numpy as np

from ostinato.report import numbers
from ostinato.report.figures import BASE, EDGE, HEIGHT, LEFT, TOP, WIDTH, Curve, curves, x_axis, y_axis
from ostinato.report.looks import COLOURS, Look
from ostinato.report.svg import MARKERS, Canvas, Scale, padded, spread
from ostinato.scaling.findings import Findings
from ostinato.scaling.law import ALPHA, LOG_A, LOG_E, equivalent
from ostinato.scaling.table import RunTable
from ostinato.scaling.worth import Worth

POINTS = 60
CLIP = 5.0
"""Residuals beyond so many standard deviations stand at the edge."""


def r_looks(values: list[float]) -> dict[float, Look]:
    """r = 1 in ink, the others in colours with markers of their own."""
    others = [value for value in sorted(set(values)) if value != 1]
    found = {value: Look(at % COLOURS + 1, MARKERS[(at + 1) % len(MARKERS)], (at + 1) % 4) for at, value in enumerate(others)}
    return {1.0: Look(0, MARKERS[0], 0), **found}


def fit_figure(name: str, found: Findings) -> str:
    """Each run's loss without the term of D, against its equivalent parameters; the law, and its band over resamples."""
    table, law = found.table, found.fit.parameters
    sizes = equivalent(table.N_once, table.N_rec, table.r, law["phi"])
    levels = table.loss - law["B"] * table.D ** -law["beta"]
    grid = np.geomspace(sizes.min() * 0.9, sizes.max() * 1.1, POINTS)
    drawn = found.resamples
    bundle = np.exp(drawn[:, LOG_E, None]) + np.exp(drawn[:, LOG_A, None]) * grid ** -drawn[:, ALPHA, None]
    # levels are taken at one E: what is uncertain of E is common to all sizes, and no part of the shape
    bundle += (law["E"] + law["A"] * grid ** -law["alpha"]).mean() - bundle.mean(1, keepdims=True)
    low, high = np.percentile(bundle, [2.5, 97.5], axis=0)
    line = law["E"] + law["A"] * grid ** -law["alpha"]
    far = set(found.outliers.tolist())
    near = [float(value) for at, value in enumerate(levels) if at not in far]
    y = Scale(*padded([*near, *low, *high], 0.06), BASE, TOP)
    x = Scale(float(grid[0]), float(grid[-1]), LEFT, EDGE, True)
    canvas = Canvas(WIDTH, HEIGHT)
    y_axis(canvas, y, "nats a token, less the term of D", LEFT, EDGE, numbers.fixed)
    x_axis(canvas, x, "equivalent unique parameters, N_once + r^phi N_rec", BASE, numbers.tick)
    _band(canvas, [(x(a), y(b)) for a, b in zip(grid, low, strict=True)], [(x(a), y(b)) for a, b in zip(grid, high, strict=True)])
    canvas.path([(x(a), y(b)) for a, b in zip(grid, line, strict=True)], "line k0", "the law")
    looks = r_looks(table.r.tolist())
    for at in range(len(table)):
        look, level = looks[float(table.r[at])], float(np.clip(levels[at], y.low, y.high))
        title = f"{table.name(at)}: r {table.r[at]:g}, {table.loss[at]:.4f} nats, {100 * found.fit.residuals[at]:+.2f}% off the law"
        canvas.marker(
            "cross" if at in far else look.marker, x(float(sizes[at])), y(level), 3.0, "dot other" if at in far else look.dot, title
        )
    _legend(canvas, looks, set(table.r.tolist()))
    return canvas.render(name, "Loss against equivalent parameters", f"{len(table)} runs and the fitted law")


def runs_figure(name: str, table: RunTable) -> str:
    """Each run's loss against its unique parameters, with a line for each r of each budget; the budget's name where its line of r = 1
    begins."""
    x = Scale(float(table.unique.min()) * 0.9, float(table.unique.max()) * 1.1, LEFT, EDGE, True)
    y = Scale(*padded(table.loss.tolist(), 0.06), BASE, TOP)
    canvas, looks = Canvas(WIDTH, HEIGHT), r_looks(table.r.tolist())
    y_axis(canvas, y, "nats a token", LEFT, EDGE, numbers.fixed)
    x_axis(canvas, x, "unique parameters, N_once + N_rec", BASE, numbers.tick)
    budgets = np.array(table.budget)
    for budget in filter(None, dict.fromkeys(table.budget)):
        for r in sorted(set(table.r[budgets == budget].tolist())):
            here = (budgets == budget) & (table.r == r)
            means = [(float(size), float(table.loss[here & (table.unique == size)].mean())) for size in np.unique(table.unique[here])]
            points = [(x(size), y(loss)) for size, loss in means]
            canvas.path(points, looks[r].line, f"{budget}, r = {r:g}")
            if r == table.r[budgets == budget].min():
                canvas.text(points[-1][0] + 8, points[-1][1] + 4, budget, "t small")
    for at in range(len(table)):
        look, place = looks[float(table.r[at])], (x(float(table.unique[at])), y(float(table.loss[at])))
        canvas.marker(look.marker, *place, 3.2, look.dot, f"{table.name(at)}: r {table.r[at]:g}, {table.loss[at]:.4f} nats")
    _legend(canvas, looks, set(table.r.tolist()))
    return canvas.render(name, "The runs", f"{len(table)} runs: loss against unique parameters, by r and budget")


def worth_figure(name: str, found: Findings) -> str:
    """r^phi with its interval, between 1 and r."""
    most = max(8.0, float(found.table.r.max()))
    grid = np.geomspace(1, most, POINTS)
    low, high = found.phi_interval
    x, y = Scale(1.0, most, LEFT, EDGE, True), Scale(0.0, most * 1.04, BASE, TOP)
    canvas = Canvas(WIDTH, HEIGHT)
    y_axis(canvas, y, "blocks that r passes of one are worth", LEFT, EDGE, numbers.fixed)
    _r_axis(canvas, x)
    curve = {power: [(x(float(r)), y(min(float(r**power), y.high))) for r in grid] for power in (low, high, found.phi)}
    _band(canvas, curve[low], curve[high], "f1")
    canvas.path([(x(float(r)), y(float(r))) for r in grid], "line floor", "full equivalence: r")
    canvas.path([(x(1.0), y(1.0)), (x(most), y(1.0))], "line floor", "nothing gained: 1")
    canvas.path(curve[found.phi], "line k1", f"r^{found.phi:.3f}")
    looks = r_looks(found.table.r.tolist())
    for r in sorted(set(found.table.r.tolist())):
        value = float(r**found.phi)
        title = f"r = {r:g}: {value:.2f} ({r**low:.2f} to {r**high:.2f})"
        canvas.marker(looks[r].marker, x(r), y(min(value, y.high)), 3.6, "dot f1", title)
    top = most**found.phi
    labels = [("r: full", y(most), "t tag muted"), (f"r^{found.phi:.2f} = {top:.2f}", y(min(top, y.high)), "t tag f1"),
              ("1: nothing", y(1.0), "t tag muted")]  # fmt: skip
    for (text, _, kind), put in zip(labels, spread([at for _, at, _ in labels], 14.0, TOP, BASE), strict=True):
        canvas.text(EDGE + 10, put + 4, text, kind)
    return canvas.render(name, "What r passes are worth", f"r to the power {found.phi:.3f}, between 1 and r")


def curves_figure(name: str, known: Worth, axis: str) -> str:
    """Loss for each r over training FLOPs (`flops`), or over unique parameters (`parameters`)."""
    looks = r_looks([one.r for one in known.curves])
    lines = []
    for one in known.curves:
        xs, ys = (one.flops, one.at_flops) if axis == "flops" else (one.parameters, one.at_parameters)
        points = tuple((float(a), float(b)) for a, b in zip(xs, ys, strict=True) if np.isfinite(b))
        lines.append(Curve(f"r = {one.r:g}" + ("" if one.known else ", no run"), looks[float(one.r)], points))
    label = "training FLOPs" if axis == "flops" else "unique parameters"
    return curves(name, f"Loss over {label}", f"one line for each r: {', '.join(line.arm for line in lines)}", lines, x_label=label,
                  y_label="nats a token", log_x=True, markers=False)  # fmt: skip


def beyond(found: Findings) -> np.ndarray:
    """Which residuals are beyond the edge of their figures, (n,)."""
    return np.abs(found.fit.residuals) > CLIP * max(found.fit.spread, 1e-5)


def residuals_figure(name: str, found: Findings, by: str) -> str:
    """log loss less the law's, in per cent, against N (unique parameters), D or r, with marks by r."""
    table, residuals = found.table, 100 * found.fit.residuals
    values, label = {"N": (table.unique, "unique parameters"), "D": (table.D, "training tokens"), "r": (table.r, "r, passes")}[by]
    reach = 100 * CLIP * max(found.fit.spread, 1e-5)
    shown = np.clip(residuals, -reach, reach)
    most = max(float(np.abs(shown).max()), 1e-3) * 1.1
    x, y = Scale(float(values.min()) * 0.9, float(values.max()) * 1.1, LEFT, EDGE, True), Scale(-most, most, BASE, TOP)
    canvas = Canvas(WIDTH, HEIGHT)
    y_axis(canvas, y, "per cent above the law", LEFT, EDGE, numbers.signed)
    if by == "r":
        _r_axis(canvas, x)
    else:
        x_axis(canvas, x, label, BASE, numbers.tick)
    canvas.line(LEFT, y(0), EDGE, y(0), "zero")
    looks = r_looks(table.r.tolist())
    for at in range(len(table)):
        look, off = looks[float(table.r[at])], shown[at] != residuals[at]
        title = f"{table.name(at)}: r {table.r[at]:g}, {residuals[at]:+.2f}%"
        canvas.marker(
            "cross" if off else look.marker, x(float(values[at])), y(float(shown[at])), 3.0, "dot other" if off else look.dot, title
        )
    _legend(canvas, looks, set(table.r.tolist()))
    return canvas.render(name, f"Residuals against {label}", f"{len(table)} runs, by r")


def _r_axis(canvas: Canvas, x: Scale) -> None:
    canvas.line(LEFT, BASE, EDGE, BASE, "axis")
    for value in (1, 2, 4, 8, 16, 32, 64):
        if value <= x.high:
            canvas.line(x(value), BASE, x(value), BASE + 4, "axis")
            canvas.text(x(value), BASE + 18, str(value), "t num", "middle")
    canvas.text((LEFT + EDGE) / 2, BASE + 36, "r, passes", "t axis-name", "middle")


def _band(canvas: Canvas, low: list[tuple[float, float]], high: list[tuple[float, float]], fill: str = "f0") -> None:
    canvas.path([*low, *reversed(high)], f"haze {fill}")


def _legend(canvas: Canvas, looks: dict[float, Look], there: set[float]) -> None:
    for place, r in enumerate(sorted(there)):
        canvas.marker(looks[r].marker, EDGE + 16, TOP + 8 + 18 * place, 3.4, looks[r].dot)
        canvas.text(EDGE + 26, TOP + 12 + 18 * place, f"r = {r:g}", "t")
