"""Two treatments of the same grid: is the loop worth more (phi up), or is the loss lower for another reason?

Both laws are fitted to each draw of cells, the same for both, so that what a cell has in common leaves the difference. Where a treatment
has too few runs for a law of its own, E, alpha and beta are those of the base, which is said; its own runs of r = 1 then still divide what
the loop gains from what training gains, and without them there is no verdict. The change in loss is at equal (N_once, N_rec, r, D): run
beside run where the base has one within 2% in each, else run beside the base's law. Where the table has budgets it is also taken at equal
(N_once, N_rec, r, budget): what makes a token cheaper is paid out in tokens, and lowers the loss there alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ostinato.errors import FitError
from ostinato.scaling.cells import Cells, cells
from ostinato.scaling.fit import Fit, fit_law
from ostinato.scaling.intervals import RESAMPLES, Profile, around, profile, resampled
from ostinato.scaling.law import PHI, Rows, log_loss
from ostinato.scaling.table import RunTable
from ostinato.study.counted import several

NEAR = 0.02
WIDEST = 1.0
LIKE_PUBLISHED = 0.1
"""About half of the published gain of phi by hyper-connections: where the interval allows as much, phi is not shown not to be up."""
FEWEST_CELLS = 3
Span = tuple[float, float]
CAPACITY, TRAINING, NEITHER, OPEN = "capacity gain", "training-side gain", "neither", "not identified"


@dataclass(frozen=True)
class Treatment:
    """phi, and what it is more than the base's; change: loss less the base's at equal (N, r, D), nats (below 0 is better).

    at_budget: the same at equal (N, r, budget), None without budgets.  paired: how many runs had one of the base beside them for
    `change`; 0: it is against the base's law.  stated: what its fit took from the base.  shared: runs of r = 1 that are the base's, too.
    verdict: capacity gain, training-side gain, neither; not identified where loss is lower and phi could be up or not.
    """

    name: str
    base: str
    rows: int
    phi: float
    phi_interval: tuple[float, float]
    more: float
    more_interval: tuple[float, float]
    change: float
    change_interval: tuple[float, float]
    at_budget: float | None
    at_budget_interval: tuple[float, float] | None
    paired: int
    stated: tuple[str, ...]
    shared: int
    verdict: str
    why: str


def split(table: RunTable, base: str | None = None) -> tuple[RunTable, dict[str, RunTable]]:
    """The runs of the base, and those of every other treatment. base: its name (default: `base`, else the first in the table)."""
    names = list(dict.fromkeys(table.treatment))
    if base is not None and base not in names:
        raise FitError(f"--base {base}", f"treatments of the table are {', '.join(filter(None, names)) or 'none'}", "give one of them")
    chosen = base if base is not None else next((name for name in ("base", "") if name in names), names[0])
    of = np.array(table.treatment)
    return table.some(of == chosen), {name: table.some(of == name) for name in names if name != chosen}


def compare_treatment(base: RunTable, base_fit: Fit, table: RunTable, seed: int = 0) -> Treatment:
    """How a treatment's runs differ from the base's. Raises FitError where phi of the treatment is not identified in either way."""
    few = min(len(cells(one.some(one.r > 1))) if (one.r > 1).any() else 0 for one in (table, base))
    if few < FEWEST_CELLS:
        raise FitError(f"{several(few, 'cell')} of looped runs (one of budget and r each)", f"{FEWEST_CELLS} or more", "add runs")
    fit, span, stated = _fit(table, base_fit)
    name, beside = table.treatment[0] or "unnamed", base.treatment[0] or "base"
    draws = _draws(table, base, seed)
    own = resampled(fit, draws[0], span.ends)[:, PHI]
    theirs = resampled(base_fit, draws[1])
    more = around(fit.phi - base_fit.phi, own - theirs[:, PHI], min(len(cells(table)), len(cells(base))))
    change, reach, paired = _change(table, base, base_fit, theirs, seed)
    at_budget = _at_budget(table, base, seed)
    verdict, why = judge(more, reach, at_budget[1] if at_budget else None)
    return Treatment(name, beside, len(table), fit.phi, (span.low, span.high), fit.phi - base_fit.phi, more, change, reach,
                     *(at_budget or (None, None)), paired, stated, _shared(table, base), verdict, why)  # fmt: skip


def judge(more: Span, change: Span, at_budget: Span | None) -> tuple[str, str]:
    """The verdict and why, by intervals: phi up is a capacity gain; a lower loss and phi not up, a gain of training; else neither."""
    better = change[1] < 0 or (at_budget is not None and at_budget[1] < 0)
    verdict = CAPACITY if more[0] > 0 else NEITHER if not better else TRAINING if more[1] <= LIKE_PUBLISHED else OPEN
    said = f"phi is {_told(more)}, and loss {_told(change)} at equal N, r and D"
    said += f", {_told(at_budget)} at equal budget" if at_budget is not None else ""
    return verdict, said + ("; that phi is up as much as has been published is not ruled out" if verdict == OPEN else "")


def _told(span: Span) -> str:
    return "higher" if span[0] > 0 else "lower" if span[1] < 0 else "not distinguishable"


def _shared(table: RunTable, base: RunTable) -> int:
    """How many runs of r = 1 are the same in both: where the treatment is nothing without a loop."""
    theirs = {(size, tokens, loss) for size, tokens, loss in zip(base.unique, base.D, base.loss, strict=True)}
    plain = table.some(table.r == 1)
    return sum((size, tokens, loss) in theirs for size, tokens, loss in zip(plain.unique, plain.D, plain.loss, strict=True))


def _fit(table: RunTable, base: Fit) -> tuple[Fit, Profile, tuple[str, ...]]:
    """A law of its own where the runs tell one, else one with E, alpha and beta of the base; its profile; what it took from the base."""
    if len(table) > 2 * base.free:
        fit = fit_law(table.rows, base.held)
        span = profile(fit)
        if span.bounded and span.width <= WIDEST:
            return fit, span, tuple(base.held)
    if not (table.r == 1).any():
        raise FitError(f"{len(table)} runs, none of r = 1, do not identify phi",
                       "with the base's E, alpha and beta, runs of r = 1 say what is gained without a loop",
                       "add them; where the treatment is nothing at r = 1, list the base's under its name")  # fmt: skip
    values = base.parameters
    held = {**{name: values[name] for name in ("E", "alpha", "beta")}, **base.held}
    if values["E"] <= 0 or min(values["alpha"], values["beta"]) <= 0 or values["E"] >= table.loss.min():
        raise FitError(f"{len(table)} runs do not identify phi", "and the base's E, alpha and beta do not fit them", "add runs")
    fit = fit_law(table.rows, held)
    return fit, profile(fit), tuple(held)


def _draws(table: RunTable, base: RunTable, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """How often each row of both counts in each resample: a cell that both have is drawn for both."""
    mine, theirs = cells(table), cells(base)
    names = list(dict.fromkeys((*theirs.names, *mine.names)))
    together = Cells(np.arange(len(names)), tuple(names), mine.by).draws(RESAMPLES, seed)
    place = {name: at for at, name in enumerate(names)}
    return tuple(together[:, [place[one.names[cell]] for cell in one.of_row]] for one in (mine, theirs))


def _change(table: RunTable, base: RunTable, fit: Fit, laws: np.ndarray, seed: int) -> tuple[float, Span, int]:
    """Loss less the base's at equal (N, r, D), over the runs that loop: the mean, its interval, and the number of pairs."""
    looped = table.some(table.r > 1)
    found = _paired(looped, base, ("N_once", "N_rec", "D"), seed)
    if found is not None and 2 * found[2] >= len(looped):
        return found
    rows = Rows(looped.N_once / fit.rows.unit_n, looped.N_rec / fit.rows.unit_n, np.log(looped.r), np.log(looped.D / fit.rows.unit_d),
                np.log(looped.loss), fit.rows.unit_n, fit.rows.unit_d)  # fmt: skip
    differences = looped.loss - np.exp(log_loss(fit.theta, rows))
    return *_mean(looped, differences, looped.loss - np.exp(log_loss(laws, rows)), seed), 0


def _at_budget(table: RunTable, base: RunTable, seed: int) -> tuple[float, Span] | None:
    """The same at equal budget, over the runs that have one of the base beside them; None where fewer than two have."""
    found = _paired(table.some((table.r > 1) & np.array([bool(one) for one in table.budget])), base, ("N_once", "N_rec"), seed)
    return found[:2] if found is not None else None


def _paired(looped: RunTable, base: RunTable, near: tuple[str, ...], seed: int) -> tuple[float, Span, int] | None:
    """Loss less that of the base's run beside it: the mean, its interval, the number of pairs; None where fewer than two have one."""
    beside = [_beside(looped, at, base, near) for at in range(len(looped))]
    pairs = np.array([at for at, other in enumerate(beside) if other is not None], dtype=int)
    if len(pairs) < 2:
        return None
    chosen = looped.some(pairs)
    differences = chosen.loss - np.array([beside[at] for at in pairs])
    return *_mean(chosen, differences, differences[None], seed), len(pairs)


def _mean(table: RunTable, differences: np.ndarray, drawn: np.ndarray, seed: int) -> tuple[float, Span]:
    """The mean over runs and its interval over cells.  drawn: the differences in each resample, or (1, n) where they are the same."""
    of = cells(table)
    weights = of.draws(RESAMPLES, seed + 1)[:, of.of_row]
    mean = float(differences.mean())
    return mean, around(mean, (drawn * weights).sum(-1) / weights.sum(-1), len(of))


def told_without_phi(base: RunTable, others: Mapping[str, RunTable], seed: int = 0) -> list[str]:
    """What treatments say of the base although phi is not identified: the change in loss, where runs stand beside the base's."""
    said = []
    for name, other in others.items():
        found = _paired(other.some(other.r > 1), base, ("N_once", "N_rec", "D"), seed)
        if found is not None:
            mean, (low, high), pairs = found
            said.append(f"{name or 'unnamed'}: loss {_told((low, high))} at equal N, r and D, by {mean:+.4f} nats (95% {low:+.4f} to "
                        f"{high:+.4f}; {pairs} runs beside the base's)")  # fmt: skip
    return said


def _beside(table: RunTable, at: int, base: RunTable, near: tuple[str, ...]) -> float | None:
    """The mean loss of the base's runs like row `at`: near it in these, of its budget where D is not among them, of its seed if any is."""
    same = np.isclose(base.r, table.r[at])
    if "D" not in near:
        same &= np.array(base.budget) == table.budget[at]
    for name in near:
        same &= np.isclose(getattr(base, name), getattr(table, name)[at], rtol=NEAR)
    seeded = same & (np.array(base.seed) == table.seed[at])
    same = seeded if seeded.any() else same
    return float(base.loss[same].mean()) if same.any() else None
