"""What one recurrence is worth, in tables: the law's parameters, the laws within it, equal models, treatments, residuals, spans."""

from __future__ import annotations

from collections.abc import Iterator

from ostinato.report import numbers
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.scaling.findings import Findings
from ostinato.scaling.treatments import CAPACITY, TRAINING
from ostinato.scaling.worth import Worth, worth

LAW = "L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta"


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
    rows.append(Row((Cell("phi"), _plain(values["phi"]), _span((found.profile.low, found.profile.high)), _span(spans.get("phi")))))
    for name in ("E", "A", "alpha", "B", "beta"):
        held = name in found.fit.held
        rows.append(Row((Cell("E, nats" if name == "E" else name), _plain(values[name]),
                         Cell("stated" if held else numbers.NONE, tone="muted"), _span(spans.get(name)))))  # fmt: skip
    columns = (Column("", number=False), Column("fitted"), Column("95%, profile", "profile likelihood, calibrated for Huber's error"),
               Column("95%, block bootstrap", "percentiles of 200 resamples of whole cells of budget and r"))  # fmt: skip
    note = (f"{numbers.several(len(found.table), 'run')}; {found.fit.agreeing} of {found.fit.starts} starts end at the best objective; "
            f"residuals {100 * found.fit.spread:.2g}% of the loss; {len(found.cells)} cells ({found.cells.by}, r).")  # fmt: skip
    return Table("phi-fit", LAW, columns, tuple(rows), (note,))


def laws_table(found: Findings) -> Table:
    """phi = 0, phi = 1 and phi free."""
    best = min(found.laws, key=lambda law: law.aic)
    columns = (Column("law", number=False), Column("phi"), Column("R²", "of log loss"),
               Column("held-out error", "root mean square of log loss, one cell of budget and r left out after the other"),
               Column("ΔAIC", "AIC above the best", spare=1), Column("ΔBIC", "BIC above the best", spare=1))  # fmt: skip
    lowest = min(law.bic for law in found.laws)
    rows = tuple(
        Row((Cell(WORDS[law.name], law.name), _plain(law.fit.phi), Cell(f"{law.r2:.4f}", law.r2),
             Cell(f"{100 * law.left_out:.2f}%", law.left_out),
             Cell(f"+{law.aic - best.aic:.1f}", law.aic), Cell(f"+{law.bic - lowest:.1f}", law.bic)))
        for law in found.laws
    )  # fmt: skip
    note = ("AIC and BIC are of the likelihood whose maximum this fit is: errors of log loss normal within 0.001 and exponential beyond, "
            "of one estimated scale.")  # fmt: skip
    return Table("phi-laws", "Nested laws", columns, rows, (note,))


WORDS = {"phi = 0": "phi = 0: the law without r", "phi = 1": "phi = 1: full equivalence", "phi free": "phi free"}


def models_table(known: Worth) -> Table:
    """The largest model of each r, and the one without loops that equals it."""
    columns = (Column("r"), Column("unique", "N_once + N_rec"),
               Column("equivalent", "N_once + r^phi N_rec: unique parameters of the model without loops that reaches its loss"),
               Column("applied", "N_once + r N_rec: parameters that a token passes through"), Column("training FLOPs a token"),
               Column("of the equivalent", spare=1), Column("inference FLOPs a token", spare=2),
               Column("of the equivalent", spare=2))  # fmt: skip
    h = numbers.human
    rows = tuple(Row((Cell(f"{one.r:g}", one.r),
                      *(Cell(h(value), value, numbers.exact(round(value))) for value in (one.owned, one.equal, one.cost)),
                      *(Cell(numbers.power(value), value) for value in (one.train, one.train_equal, one.run, one.run_equal))))
                 for one in known.models)  # fmt: skip
    note = "6 FLOPs an applied parameter and token to train, 2 to run; embedding, head and attention over the context apart."
    return Table("phi-models", "The largest model of each r, and the one without loops of equal loss", columns, rows, (note,))


def treatments_table(found: Findings) -> Table:
    """One row a treatment."""
    columns = (Column("treatment", number=False), Column("phi"), Column("Δphi", "more than the base's"), Column("95%"),
               Column("Δloss at equal N, r, D", "less the base's, nats; below 0 is better"),
               Column("95%", spare=1), Column("Δloss at equal budget", "less the base's, nats", spare=1),
               Column("verdict", number=False))  # fmt: skip
    rows, said = [], []
    for one in found.treatments:
        tone = "better" if one.verdict == CAPACITY else "" if one.verdict == TRAINING else "muted"
        rows.append(Row((Cell(one.name, one.name), _plain(one.phi), Cell(numbers.signed(one.more, 3), one.more),
                         Cell(numbers.interval(*one.more_interval, 2)), Cell(numbers.signed(one.change), one.change),
                         Cell(numbers.interval(*one.change_interval, 3)), Cell(numbers.signed(one.at_budget), one.at_budget),
                         Cell(one.verdict, None, one.why, tone))))  # fmt: skip
        beside = f"{one.paired} looped runs beside the base's" if one.paired else "beside the base's law"
        said.append(f"{one.name}: {one.why} ({beside}"
                    + (f"; {', '.join(one.stated)} are the base's" if one.stated else "")
                    + (f"; {one.shared} runs of r = 1 are the base's" if one.shared else "") + ").")  # fmt: skip
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


def _plain(value: float) -> Cell:
    return Cell(f"{value:.4g}" if abs(value) >= 10 else f"{value:.3f}".replace("-", numbers.MINUS), value, repr(value))


def _span(span: tuple[float, float] | None) -> Cell:
    if span is None:
        return Cell(numbers.NONE)
    digits = 3 if max(map(abs, span)) < 10 else 0
    return Cell(f"{numbers.fixed(span[0], digits)} to {numbers.fixed(span[1], digits)}", span[0])
