"""What one recurrence is worth, in tables, sentences and a section of a page: the fit, laws within it, residuals, where looping pays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.analysis import ArmResult
from ostinato.errors import FitError
from ostinato.report import numbers
from ostinato.report import phi_figures as drawn
from ostinato.report.section import Figure, Section
from ostinato.report.tables import Cell, Column, Row, Table, as_text, to_rich
from ostinato.scaling.findings import Findings, analyse
from ostinato.scaling.study import runs_table, varies
from ostinato.scaling.table import SUFFIXES, read_table
from ostinato.scaling.treatments import CAPACITY, TRAINING
from ostinato.scaling.worth import Worth, worth
from ostinato.store import Store
from ostinato.study import load_study
from ostinato.study.records import Study

if TYPE_CHECKING:
    from rich.console import RenderableType

LAW = "L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta"
MOST_NAMED = 6


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """None where the arms are no grid of r and width, or no run is finished. A table that cannot tell phi says why."""
    if not varies(study) or not any(run.state == "done" for result in results for run in result.runs):
        return None
    try:
        return section_of(analyse(runs_table(study, store, results)))
    except FitError as error:
        return Section(
            "phi", "What one recurrence is worth", f"Not told by these runs: {error.what}.", notes=(f"Asked for: {error.rule}.",)
        )


def section_of(found: Findings) -> Section:
    """The fit with its band, residuals, the equivalence curve, the laws within it, and where looping pays."""
    known = worth(found)
    figures = (
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
    return Section("phi", "What one recurrence is worth", lead(found), figures, tuple(tables(found)), tuple(notes(found)),
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


def tables(found: Findings) -> Iterator[Table]:
    """What every reader sees."""
    yield fit_table(found)
    yield laws_table(found)
    yield models_table(worth(found))
    if found.treatments:
        yield treatments_table(found)


def fit_table(found: Findings) -> Table:
    """One row a parameter of the law."""
    values, spans, rows = found.fit.parameters, found.intervals, []
    low, high = found.phi_interval
    rows.append(Row((Cell("phi"), _plain(values["phi"]), _span((low, high)), _span(spans.get("phi")))))
    for name in ("E", "A", "alpha", "B", "beta"):
        held = name in found.fit.held
        rows.append(Row((Cell(name), _plain(values[name]), Cell("stated" if held else numbers.NONE, tone="muted"), _span(spans.get(name)))))
    columns = (Column("", number=False), Column("fitted"), Column("95% by profile", "of the likelihood, calibrated"),
               Column("95% by cells", "percentiles of 200 resamples of whole cells of budget and r"))  # fmt: skip
    note = (f"{numbers.several(len(found.table), 'run')}; {found.fit.agreeing} of {found.fit.starts} starts end at the best objective; "
            f"residuals {100 * found.fit.spread:.2g}% of the loss; {len(found.cells)} cells ({found.cells.by}, r).")  # fmt: skip
    return Table("phi-fit", LAW, columns, tuple(rows), (note,))


def laws_table(found: Findings) -> Table:
    """phi = 0, phi = 1 and phi free."""
    best = min(found.laws, key=lambda law: law.aic)
    columns = (Column("law", number=False), Column("phi"), Column("R²", "of log loss"),
               Column("error of what was left out", "root mean square over rows of cells that were left out, of log loss"),
               Column("AIC", "above the best", spare=1), Column("BIC", "above the best", spare=1))  # fmt: skip
    lowest = min(law.bic for law in found.laws)
    rows = tuple(
        Row((Cell(WORDS[law.name], law.name), _plain(law.fit.phi), Cell(f"{law.r2:.4f}", law.r2),
             Cell(f"{100 * law.left_out:.2f}%", law.left_out),
             Cell(f"+{law.aic - best.aic:.1f}", law.aic), Cell(f"+{law.bic - lowest:.1f}", law.bic)))
        for law in found.laws
    )  # fmt: skip
    note = ("AIC and BIC are of the likelihood whose maximum this fit is: errors of log loss normal within 0.001 and exponential beyond, "
            "of one estimated scale.")  # fmt: skip
    return Table("phi-laws", "Laws within the law", columns, rows, (note,))


WORDS = {"phi = 0": "phi = 0: the law without r", "phi = 1": "phi = 1: full worth", "phi free": "phi free"}


def models_table(known: Worth) -> Table:
    """The largest model of each r, and the one without loops that equals it."""
    columns = (Column("r"), Column("owns", "unique parameters"),
               Column("equals", "unique parameters of the model without loops that reaches its loss"),
               Column("costs", "parameters that a token passes through"), Column("training FLOPs a token"), Column("of its equal", spare=1),
               Column("inference FLOPs a token", spare=2), Column("of its equal", spare=2))  # fmt: skip
    h = numbers.human
    rows = tuple(Row((Cell(f"{one.r:g}", one.r),
                      *(Cell(h(value), value, numbers.exact(round(value))) for value in (one.owned, one.equal, one.cost)),
                      *(Cell(numbers.power(value), value) for value in (one.train, one.train_equal, one.run, one.run_equal))))
                 for one in known.models)  # fmt: skip
    note = "6 FLOPs an applied parameter and token to train, 2 to run; embedding, head and attention over the context apart."
    return Table("phi-models", "The largest model of each r, and the one without loops that it equals", columns, rows, (note,))


def treatments_table(found: Findings) -> Table:
    """One row a treatment."""
    columns = (Column("treatment", number=False), Column("phi"), Column("more than base"), Column("95%"),
               Column("loss at equal N, r, D", "less the base's, nats; below 0 is better"),
               Column("95%", spare=1), Column("loss at equal budget", "less the base's, nats", spare=1),
               Column("verdict", number=False))  # fmt: skip
    rows, said = [], []
    for one in found.treatments:
        tone = "better" if one.verdict == CAPACITY else "" if one.verdict == TRAINING else "muted"
        rows.append(Row((Cell(one.name, one.name), _plain(one.phi), Cell(numbers.signed(one.more, 3), one.more),
                         Cell(numbers.interval(*one.more_interval, 2)), Cell(numbers.signed(one.change), one.change),
                         Cell(numbers.interval(*one.change_interval, 3)), Cell(numbers.signed(one.at_budget), one.at_budget),
                         Cell(one.verdict, None, one.why, tone))))  # fmt: skip
        beside = f"{one.paired} runs beside the base's" if one.paired else "beside the base's law"
        said.append(f"{one.name}: {one.why} ({beside}"
                    + (f"; {', '.join(one.stated)} are the base's" if one.stated else "")
                    + (f"; {one.borrowed} runs of r = 1 are the base's" if one.borrowed else "") + ").")  # fmt: skip
    return Table("phi-treatments", f"Treatments beside {found.treatments[0].base}", columns, tuple(rows), tuple(said))


def residual_table(found: Findings) -> Table:
    """By r, N and D."""
    rows = [Row((Cell(name, name), Cell(group), Cell(str(count), count), Cell(f"{100 * median:+.2f}%".replace("-", numbers.MINUS), median),
                 Cell(f"{100 * rms:.2f}%", rms)))
            for name in ("r", "N", "D") for group, count, median, rms in found.residuals_by(name)]  # fmt: skip
    columns = (Column("by", number=False), Column("group", number=False), Column("runs"), Column("median"), Column("root mean square"))
    return Table("phi-residuals", "Residuals of log loss", columns, tuple(rows))


def spans_table(found: Findings) -> Table:
    """How far the table reaches."""
    rows = tuple(
        Row((Cell(one.name, one.name), Cell(f"{one.span:.3g}×", one.span), Cell(str(one.values), one.values))) for one in found.spans
    )
    columns = (Column("", number=False), Column("largest over smallest"), Column("values"))
    return Table("phi-spans", "What the table spans", columns, rows)


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


def _plain(value: float) -> Cell:
    return Cell(f"{value:.4g}" if abs(value) >= 10 else f"{value:.3f}".replace("-", numbers.MINUS), value, repr(value))


def _span(span: tuple[float, float] | None) -> Cell:
    if span is None:
        return Cell(numbers.NONE)
    digits = 3 if max(map(abs, span)) < 10 else 0
    return Cell(f"{numbers.fixed(span[0], digits)} to {numbers.fixed(span[1], digits)}", span[0])


def fit_source(source: Path | str, columns: Sequence[str], unit: str, held: Mapping[str, float] | None, base: str | None,
               size: str | None, beside: Sequence[str], store: Store) -> FitSheet:  # fmt: skip
    """What a table of runs or a study tells (`api.fit`)."""
    if Path(source).suffix.lower() in SUFFIXES:
        if size is not None or beside:
            raise FitError("--size and --beside for a table of runs", "only a study has sizes", "leave them out")
        table = read_table(source, columns, unit)
    else:
        if columns or unit != "nats":
            raise FitError("--column and --unit for a study", "its store knows every column, in nats", "leave them out")
        table = runs_table(load_study(source, size), store, beside=[load_study(source, other) for other in beside])
    return FitSheet(analyse(table, held, base))


@dataclass(frozen=True, repr=False)
class FitSheet:
    """What a table of runs tells, printed by rich, shown in a notebook; `record()` gives every number, `write` a page."""

    found: Findings

    @property
    def phi(self) -> float:
        return self.found.phi

    @property
    def phi_interval(self) -> tuple[float, float]:
        """95% by profile likelihood."""
        return self.found.phi_interval

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return self.found.record()

    @cached_property
    def section(self) -> Section:
        return section_of(self.found)

    def write(self, path: Path | str) -> Path:
        """Write one page with the figures, and return its path."""
        from ostinato.report.fit_page import write_fit

        return write_fit(self.found, self.section, Path(path))

    def __repr__(self) -> str:
        return as_text(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[RenderableType]:
        from rich.padding import Padding
        from rich.text import Text

        yield Text(lead(self.found), style="bold")
        for table in (*tables(self.found), residual_table(self.found)):
            yield Text("")
            yield to_rich(table, options.max_width)
            for note in table.notes:
                yield Padding(Text(note, style="dim"), (0, 0, 0, 1))
        said = list(notes(self.found))
        if said:
            yield Text("")
            yield from (Text(note) for note in said)

    def _repr_html_(self) -> str:
        from html import escape

        from ostinato.report.page import notebook

        lines = "".join(f'<p class="note">{escape(line)}</p>' for line in (lead(self.found), *notes(self.found)))
        return notebook(*tables(self.found)) + f'<div class="ostinato">{lines}</div>'
