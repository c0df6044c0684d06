"""What one recurrence is worth, in sentences and a section of a page: the fit, laws within it, residuals, where looping pays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ostinato.analysis import ArmResult
from ostinato.errors import FitError
from ostinato.report import numbers
from ostinato.report import phi_figures as drawn
from ostinato.report.phi_tables import residual_table, spans_table, tables
from ostinato.report.results import verdict
from ostinato.report.section import Figure, Section
from ostinato.scaling.findings import Findings, analyse
from ostinato.scaling.study import finished, runs_table, size_of, varies
from ostinato.scaling.table import RunTable
from ostinato.scaling.worth import worth
from ostinato.store import Store
from ostinato.study.records import Study

TITLE = "What one recurrence is worth"
MOST_NAMED = 6


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """None where the arms are no grid of r and width, or no run is finished. A table that does not identify phi says why, and shows
    its runs.

    It leads the page: arm by arm a grid says little.
    """
    if not varies(study) or not any(map(finished, results)):
        return None
    table, counted = runs_table(study, store, results), beside_plain(results)
    try:
        found = section_of(analyse(table))
        return replace(found, lead=f"{found.lead} {counted}".strip(), leads=True)
    except FitError as error:
        lead = f"phi is not identified: {error.what.removeprefix('phi is not identified by this table: ')}. {counted}".strip()
        return Section("phi", TITLE, lead, (_runs(table),), notes=(f"Asked for: {error.rule}.",), leads=True)


def beside_plain(results: Sequence[ArmResult]) -> str:
    """How the looped arms of a grid compare with those of r = 1 that they are held against, in one sentence; nothing without such."""
    plain = {one.name for one in results if (size := size_of(one.arm)) is not None and size.r == 1}
    compared = [one for one in results if one.name not in plain and one.against in plain and one.seeds and one.seeds.gains]
    told = Counter(verdict(one.words) for one in compared)
    if not told.total():
        return ""
    return (f"Of {numbers.several(told.total(), 'looped arm')}, beside r = 1 of the same width and budget, {told['better']} better, "
            f"{told['zero']} about equal, {told['worse']} worse.")  # fmt: skip


def _runs(table: RunTable) -> Figure:
    lines = " A line joins the runs of one r and one budget." if any(table.budget) else ""
    return Figure("The runs", f"Loss against unique parameters.{lines}", drawn.runs_figure("f-phi-runs", table))


def section_of(found: Findings) -> Section:
    """The fit with its band, residuals, the equivalence curve, the laws within it, and where looping pays."""
    known = worth(found)
    edge = " Crosses: beyond the edge." if drawn.beyond(found).any() else ""
    figures = (
        Figure("Loss against equivalent parameters", "The loss of each run, less the law's term of D. Line: E and the term of N. "
               "Shaded: 95% of the block bootstrap.", drawn.fit_figure("f-phi-fit", found)),
        Figure("What r passes are worth", "In blocks with parameters of their own. Line: r^phi; shaded: its 95%; dotted: its limits, "
               "1 (nothing gained) and r (full equivalence).", drawn.worth_figure("f-phi-worth", found)),
        Figure("At equal training FLOPs", "By the law, at the best size for each budget; an r without runs is extrapolated.",
               drawn.curves_figure("f-phi-flops", known, "flops")),
        Figure("At equal parameters", f"By the law, after {numbers.human(known.tokens)} tokens: memory of weights is fixed, FLOPs are not.",
               drawn.curves_figure("f-phi-params", known, "parameters")),
        _runs(found.table),
        Figure("Residuals by N", "What each run is above the law (below: better than it)." + edge,
               drawn.residuals_figure("f-phi-residuals-n", found, "N")),
        Figure("Residuals by D", "The same, against tokens.", drawn.residuals_figure("f-phi-residuals-d", found, "D")),
        Figure("Residuals by r", "The same, against passes.", drawn.residuals_figure("f-phi-residuals-r", found, "r")),
    )  # fmt: skip
    return Section("phi", TITLE, lead(found), figures, tuple(tables(found)), tuple(notes(found)),
                   (residual_table(found), spans_table(found)))  # fmt: skip


def lead(found: Findings) -> str:
    """phi with its interval, what that is for one model, and where looping pays; and what of the table was left out."""
    low, high = found.phi_interval
    stated = f", given {_stated(found)}" if found.fit.held else ""
    fixed = numbers.fixed
    said = f"phi = {fixed(found.phi, 3)} (95% {fixed(low, 3)} to {fixed(high, 3)}){stated}. " + " ".join(sentences(found))
    for one in found.treatments:
        said += f" {one.name}: {one.verdict} (phi {numbers.signed(one.more, 3)}, 95% {numbers.interval(*one.more_interval, 3)})."
    left = len(found.table.notes)
    return said + (f" {numbers.several(left, 'row or arm', 'rows or arms')} left out, unfinished or counted once." if left else "")


def sentences(found: Findings) -> Iterator[str]:
    """What phi means for the largest looped model, and where looping pays and where not."""
    known = worth(found)
    r = max((one for one in known.by_flops if one > 1), key=lambda one: (one in found.table.r, one <= 4, one))
    chosen = next((one for one in reversed(known.models) if one.r <= 4), known.models[0])
    h = numbers.human
    yield (f"A looped model of {h(chosen.owned)} parameters at r = {chosen.r:g} stands where {h(chosen.equal)} unique parameters would, "
           f"at the training cost of {h(chosen.cost)} parameters.")  # fmt: skip
    by_parameters, by_flops = known.by_parameters[r], known.by_flops[r]
    low, high = found.phi_interval
    fixed = "pays" if low > 0 else "does not pay" if high < 0 else "is not shown to pay"
    better = "lower" if by_parameters < 0 else "higher"
    yield (f"Where parameters (memory of weights) are fixed and compute is not, looping {fixed}: at {h(known.parameters)} parameters and "
           f"{h(known.tokens)} tokens, r = {r:g} is {abs(by_parameters):.3f} nats {better} than r = 1.")  # fmt: skip
    if by_flops == by_flops:
        pays = "does not pay" if high < 1 else "pays" if low > 1 else "is not shown to pay or not"
        way = "lower" if by_flops < 0 else "higher"
        yield (f"Where training FLOPs are fixed it {pays}: at {numbers.power(known.flops)} FLOPs, r = {r:g} at its best size is "
               f"{abs(by_flops):.3f} nats {way} than r = 1 at its own.")  # fmt: skip


def notes(found: Findings) -> Iterator[str]:
    """What was stated, left out, counted once, lies far outside, or looks like a mistake."""
    if found.fit.held:
        yield f"Stated and not fitted: {_stated(found)}. phi and its interval are conditional on that."
    yield from (f"Look again: {one}." for one in found.table.warnings)
    yield from (f"{one}." for one in _first(found.table.notes))
    for at in found.outliers[:MOST_NAMED]:
        loss, law = found.table.loss[at], found.table.loss[at] * math.exp(-found.fit.residuals[at])
        yield (f"Far outside: {found.table.name(at)}, {loss:.4f} nats where the law has {law:.4f}: it stays in the fit, and pulls it no "
               "more than a run that is 0.1% off.")  # fmt: skip
    if len(found.outliers) > MOST_NAMED:
        yield f"{len(found.outliers) - MOST_NAMED} more lie far outside."
    for name, why in found.untold.items():
        yield f"No verdict on {name}: {why}."
    for name in found.at_bound:
        yield f"{name} = {found.fit.parameters[name]:.3g} is a bound of what is looked for: these runs do not identify it."
    if found.contradicted:
        yield "Look again: these runs by themselves rule out what is stated (at 99%)."
    if found.phi_interval != (found.profile.low, found.profile.high):
        low, high = (numbers.fixed(end, 2) for end in (found.profile.low, found.profile.high))
        yield (f"By profile alone the interval is much narrower ({low} to {high}): runs of one budget and r differ from the law "
               "together, or such cells are few. The wider one counts.")  # fmt: skip


def _first(said: Sequence[str]) -> list[str]:
    return [*said[:MOST_NAMED], *([f"{len(said) - MOST_NAMED} more rows are left out or counted once"] if len(said) > MOST_NAMED else [])]


def _stated(found: Findings) -> str:
    return numbers.listed([f"{name} = {value:.4g}" for name, value in found.fit.held.items()])
