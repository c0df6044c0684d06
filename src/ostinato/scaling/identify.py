"""Whether a table identifies phi, and if not, why: starts that disagree, an interval that says nothing, columns that hardly vary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ostinato.errors import FitError
from ostinato.scaling.fit import HOLDABLE, Fit
from ostinato.scaling.intervals import Profile, standard_errors
from ostinato.scaling.law import PHI
from ostinato.scaling.solve import PHI_BOUNDS
from ostinato.scaling.table import RunTable
from ostinato.study.counted import several

FEW_AGREE = 0.1
WIDEST = 1.0
"""An interval of phi as wide as the way from no gain (0) to full equivalence (1) says nothing."""
HELPS = 1.5
NARROW = {"r": 2.0, "N": 4.0, "D": 3.0}
"""Spans below which a column is called narrow: the largest over the smallest."""
STATED = "--E, --alpha and --beta, as another fit on the same text and tokenizer gave them"


@dataclass(frozen=True)
class Span:
    """name: r, N or D.  span: the largest over the smallest.  values: how many different ones.  helps: how many times narrower phi would be
    known if what this column tells (of N alpha, of D beta, of both E) were stated; None for r."""

    name: str
    span: float
    values: int
    helps: float | None = None

    @property
    def narrow(self) -> bool:
        return self.span < NARROW[self.name]

    def words(self) -> str:
        said = f"{self.name} spans {self.span:.3g}× ({self.values} values)"
        return said + (f"; with {'alpha' if self.name == 'N' else 'beta'} and E stated, phi would be known {self.helps:.1f}× more narrowly"
                       if self.helps and self.helps >= HELPS else "")  # fmt: skip


def spans(table: RunTable, fit: Fit | None = None) -> list[Span]:
    """How far r, N (unique parameters) and D reach, and what each is short of."""
    found = []
    for name, values in (("r", table.r), ("N", table.unique), ("D", table.D)):
        helps = None
        if fit is not None and name != "r":
            helps = _narrower(fit, ("alpha", "E") if name == "N" else ("beta", "E"))
        found.append(Span(name, float(values.max() / values.min()), len(set(np.round(np.log(values), 2))), helps))
    return found


def _narrower(fit: Fit, stated: tuple[str, ...]) -> float | None:
    """How many times the standard error of phi falls when these are held where the fit has them."""
    whole, values = standard_errors(fit)[PHI], fit.parameters
    less = standard_errors(replace(fit, held={**fit.held, **{name: values[name] for name in stated}}))[PHI]
    return float(whole / less) if less > 0 and np.isfinite(whole) else None


def refuse_early(table: RunTable, held: dict[str, float], others: Mapping[str, RunTable] | None = None) -> None:
    """Raises FitError where no fit could identify phi: one number of passes, fewer rows than parameters.  others: the other treatments."""
    rows = several(len(table), "row")
    if others:
        name = table.treatment[0] or "no treatment"
        rows += f" of {name} ({', '.join(f'{len(one)} of {other}' for other, one in others.items())} are treatments beside it)"
    if not (table.r > 1).any():
        raise FitError(f"r is 1 in all {rows}", "phi is what further passes are worth: r must vary",
                       "add looped runs, of r 2 and more; a table without them identifies E, A, alpha, B and beta alone")  # fmt: skip
    if len(set(np.round(table.r, 9))) < 2:
        raise FitError(f"r is {table.r[0]:g} in all {rows}",
                       "phi shows in models that loop more beside others that loop less: with one r it is part of A",
                       "add runs of r 1")  # fmt: skip
    if not (table.N_rec[table.r > 1] > 0).any():
        raise FitError(
            "N_rec is 0 wherever r is above 1", "N_rec are the parameters that are run r times", "map the column: --column N_rec=COLUMN"
        )
    free = 6 - len(held)
    if len(table) <= free:
        what = "E, alpha and beta stated, A, B and phi are left" if len(held) == 3 else "the law has E, A, alpha, B, beta and phi"
        raise FitError(f"{rows} for {free} parameters", f"a fit needs more rows than parameters: {what}",
                       "add runs" if len(held) == 3 else f"add runs, or state {STATED}: phi is then conditional on them")  # fmt: skip


def refuse(table: RunTable, fit: Fit, profile: Profile, interval: tuple[float, float],
           told_anyway: Callable[[], Sequence[str]] = tuple) -> None:  # fmt: skip
    """Raises FitError, with what is too narrow, where starts disagree or phi could be almost anything.

    interval: the one that would be reported.  told_anyway: what these runs say all the same, which an error says, too.
    """
    low, high = interval
    known = profile.bounded and high - low <= WIDEST
    if known and fit.agreeing >= FEW_AGREE * fit.starts:
        return
    what = (f"only {fit.agreeing} of {fit.starts} starts end at the best objective" if known
            else f"phi is not identified by this table: {fit.phi:.2f}, 95% from {low:.2f} to {high:.2f}")  # fmt: skip
    if not profile.bounded:
        what += f", as far as phi is looked for ({PHI_BOUNDS[0]:g} to {PHI_BOUNDS[1]:g})"
    if len(profile.optima) > 1:
        what += f"; it fits about as well at {' and at '.join(f'{one:.2f}' for one in profile.optima)}"
    what = "\n      ".join((what, *(f"told all the same: {line}" for line in told_anyway())))
    rule = f"an interval narrower than {WIDEST:g}, on which a tenth of the starts agree; {_why(table, fit)}"
    raise FitError(what, rule, _fix(table, fit))


def _why(table: RunTable, fit: Fit) -> str:
    """What is too narrow; else all that the table has."""
    known = spans(table, fit)
    narrow = "; ".join(one.words() for one in known if one.narrow)
    plain = "" if (table.r == 1).any() else "no run has r = 1, and r^phi N_rec can then be alike at two values of phi; "
    if narrow:
        return f"{plain}too narrow: {narrow}"
    reach = "; ".join(one.words() for one in known)
    return (f"{plain}{reach}; residuals of {100 * fit.spread:.2g}%: {several(len(table), 'such run')} do not tell the law's parameters "
            "apart")  # fmt: skip


def _fix(table: RunTable, fit: Fit) -> str:
    """What would help: stating the rest of the law is proposed only where it would."""
    runs = "add runs of r = 1" if not (table.r == 1).any() else "add runs (a larger range of r, N and D; more seeds, for less noise)"
    left = tuple(name for name in HOLDABLE if name not in ("phi", *fit.held))
    helps = _narrower(fit, left) if left else None
    if helps is not None and helps < HELPS:
        return runs
    return f"{runs}, or state {STATED}: phi is then conditional on them" if left else runs
