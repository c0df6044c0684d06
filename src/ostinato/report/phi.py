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
from ostinato.scaling.study import runs_table, size_of, varies
from ostinato.scaling.table import RunTable
from ostinato.scaling.worth import worth
from ostinato.store import Store
from ostinato.study.records import Study

TITLE = "What one recurrence is worth"
MOST_NAMED = 6


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """None where the arms are no grid of r and width, or no run is finished. A table that cannot tell phi says why, and shows its runs.

    It leads the page: arm by arm a grid says little.
    """
    if not varies(study) or not any(run.state == "done" for result in results for run in result.runs):
        return None
    table, counted = runs_table(study, store, results), beside_plain(results)
    try:
        found = section_of(analyse(table))
        return replace(found, lead=f"{found.lead} {counted}".strip(), leads=True)
    except FitError as error:
        lead = f"phi is not told by these runs: {error.what.removeprefix('phi is not told by this table: ')}. {counted}".strip()
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
    return Figure("The runs", "Loss against unique parameters. A line joins the runs of one r and one budget.",
                  drawn.runs_figure("f-phi-runs", table))  # fmt: skip


def section_of(found: Findings) -> Section:
    """The fit with its band, residuals, the equivalence curve, the laws within it, and where looping pays."""
    known = worth(found)
    figures = (
        _runs(found.table),
        Figure("Loss against equivalent parameters", "The loss of each run, less the law's term of D. Line: E and the term of N. "
               "Shaded: 95% over resampled cells.", drawn.fit_figure("f-phi-fit", found)),
        Figure("What r passes are worth", "In blocks with parameters of their own. Line: r^phi; shaded: its 95%; dotted: its limits, "
               "1 (nothing gained) and r (full worth).", drawn.worth_figure("f-phi-worth", found)),
        Figure("At equal training FLOPs", "The best size for each budget, by the law.", drawn.curves_figure("f-phi-flops", known, "flops")),
        Figure("At equal parameters", f"All after {numbers.human(known.tokens)} tokens: memory is fixed, FLOPs are not.",
               drawn.curves_figure("f-phi-params", known, "parameters")),
        Figure("Residuals by N", "What each run is above the law (below: better than it). Crosses: beyond the edge.",
               drawn.residuals_figure("f-phi-residuals-n", found, "N")),
        Figure("Residuals by D", "The same, against tokens.", drawn.residuals_figure("f-phi-residuals-d", found, "D")),
    )  # fmt: skip
    return Section("phi", TITLE, lead(found), figures, tuple(tables(found)), tuple(notes(found)),
                   (residual_table(found), spans_table(found)))  # fmt: skip


def lead(found: Findings) -> str:
    """phi with its interval, what that is for one model, and where looping pays."""
    low, high = found.phi_interval
    stated = f", given {_stated(found)}" if found.fit.held else ""
    fixed = numbers.fixed
    return f"phi = {fixed(found.phi, 3)} (95% {fixed(low, 3)} to {fixed(high, 3)}){stated}. " + " ".join(sentences(found))


def sentences(found: Findings) -> Iterator[str]:
    """What phi means for the largest looped model, and where looping pays and where not."""
    known = worth(found)
    r = max(known.by_flops, key=lambda one: (one in found.table.r, one <= 4, one))
    chosen = next((one for one in reversed(known.models) if one.r <= 4), known.models[0])
    h = numbers.human
    yield (f"A looped model of {h(chosen.owned)} parameters at r = {chosen.r:g} stands where {h(chosen.equal)} unique parameters would, "
           f"at the training cost of {h(chosen.cost)}.")  # fmt: skip
    by_parameters, by_flops = known.by_parameters[r], known.by_flops[r]
    low, high = found.phi_interval
    fixed = "pays" if low > 0 else "does not pay" if high < 0 else "is not told to pay"
    better = "lower" if by_parameters < 0 else "higher"
    yield (f"Where parameters or memory are fixed looping "
           f"{fixed}: at {h(known.parameters)} parameters and "
           f"{h(known.tokens)} tokens, r = {r:g} is {abs(by_parameters):.3f} nats {better} than r = 1.")  # fmt: skip
    if by_flops == by_flops:
        pays = "does not pay" if high < 1 else "pays" if low > 1 else "is not told to pay or not"
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
    cells, profile = found.phi_bootstrap, found.phi_interval
    if cells[1] - cells[0] > 1.5 * (profile[1] - profile[0]):
        low, high = (numbers.fixed(end, 2) for end in cells)
        yield (f"Over cells the interval is much wider ({low} to {high}): runs of a cell stray together, or cells are few; that one is the "
               "safer.")  # fmt: skip


def _first(said: Sequence[str]) -> list[str]:
    return [*said[:MOST_NAMED], *([f"{len(said) - MOST_NAMED} more rows are left out or counted once"] if len(said) > MOST_NAMED else [])]


def _stated(found: Findings) -> str:
    return numbers.listed([f"{name} = {value:.4g}" for name, value in found.fit.held.items()])
