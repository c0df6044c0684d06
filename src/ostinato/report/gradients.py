"""The section on gradients: what each use of a shared weight gives to its gradient, and how gradients grow on their way back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ostinato.analysis import ArmResult, mean_line
from ostinato.analysis.gradients import Looked, course, pooled
from ostinato.report import numbers
from ostinato.report.figures import Curve, curves
from ostinato.report.looks import Look
from ostinato.report.panels import TOKENS, arm_looks
from ostinato.report.section import Figure, Section
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.store import Store
from ostinato.study import arm_applications, recipe_steps
from ostinato.study.records import Arm, Study

MOST_SAID, MOST_USES, MOST_APPLICATIONS = 3, 8, 60


@dataclass(frozen=True)
class Gradients:
    """One arm.  runs: what was looked at in each seed.  late: the second half of training, of all seeds together."""

    arm: Arm
    runs: tuple[tuple[Looked, ...], ...]
    late: Looked


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """None where no step was looked at. Raises StoreError when a stored file is torn."""
    found = read(study, store)
    if not found:
        return None
    drawn = arm_looks(study, results)
    shared = [one for one in found if one.late.shares]
    figures = [
        Figure("Share of the first use in the gradient of shared weights",
               "Below the share of a use among equals (½ of two), later passes shape the weights more than the first.",
               first_shares(found, drawn)),
        Figure("Cosine between the gradients of the first use and of the last", "Above 0 both pull a weight the same way.",
               cosines(found, drawn)),
        Figure("Growth of gradients on their way back",
               "How many times longer a random vector is when it has come back through all later applications. The first application is "
               "in the table alone: what it does depends on how long embeddings are.", growth(found, drawn)),
    ]  # fmt: skip
    tables = [arm_table(found), *([application_table(shared)] if shared else [])]
    notes = ("Shares are <G_a, G> / ‖G‖² over all weights that several applications share, of the first rows of a step; they add up to 1.",
             "Numbers in the tables and in the text are of the second half of training: products summed over steps and seeds, "
             "then divided once.")  # fmt: skip
    return Section("gradients", "Gradients by application", lead(found), tuple(one for one in figures if one.svg), tuple(tables), notes)


def read(study: Study, store: Store) -> list[Gradients]:
    """Every arm of which a step was looked at. Raises StoreError when a stored file is torn."""
    folders, found = store.runs_of(study), []
    for arm in study.arms:
        tables = [folders[arm.name, seed].gradients() for seed in arm.seeds if (arm.name, seed) in folders]
        runs = [run for run in map(course, tables) if run]
        if runs:
            looked = [table for table in tables if table.num_rows]
            late = pooled(looked, recipe_steps(arm.recipe).tokens // 2) or pooled(looked)  # a run that is not so far: all of it
            assert late is not None
            found.append(Gradients(arm, tuple(runs), late))
    return found


def lead(found: Sequence[Gradients]) -> str:
    """What is seen, in one or two sentences."""
    shared = [one for one in found if one.late.shares]
    said = [f"in {one.arm.name} the first use of a shared weight gives {one.late.shares[0]:.0%} of its gradient"
            + (f", and the cosine of first and last is {numbers.fixed(_ends(one.late), 2)}" if _ends(one.late) is not None else "")
            for one in shared[:MOST_SAID]]  # fmt: skip
    grown = [(one.arm.name, one.late.growth[1]) for one in found if one.late.growth]
    sentences = [f"In the second half of training, {'; '.join(said)}."] if said else []
    if grown:
        least, most = min(grown, key=lambda pair: pair[1]), max(grown, key=lambda pair: pair[1])
        span = f"{numbers.times(least[1])} in {least[0]}" + (f" to {numbers.times(most[1])} in {most[0]}" if least != most else "")
        sentences.append(f"On its way back to the first application a random vector grows by {span}.")
    return " ".join(sentences) or "The norms of single parameters' gradients are in the store alone."


def first_shares(found: Sequence[Gradients], drawn: Mapping[str, Look]) -> str:
    """Against tokens, one line an arm that shares weights."""
    lines = _lines(found, drawn, lambda looked: looked.shares[0] if looked.shares else None)
    return curves("f-gradient-share", "Share of the first use in the gradient of shared weights", _described(lines), lines,
                  x_label=TOKENS, y_label="share")  # fmt: skip


def cosines(found: Sequence[Gradients], drawn: Mapping[str, Look]) -> str:
    """Of the first use and the last, against tokens, one line an arm that shares weights."""
    lines = _lines(found, drawn, _ends)
    return curves("f-gradient-cosine", "Cosine between the gradients of the first use and of the last", _described(lines), lines,
                  x_label=TOKENS, y_label="cosine", zero="at right angles")  # fmt: skip


def growth(found: Sequence[Gradients], drawn: Mapping[str, Look]) -> str:
    """At the stream after each application, in powers of ten, one line an arm."""
    lines = [Curve(one.arm.name, drawn[one.arm.name], tuple((float(at), math.log10(value)) for at, value in enumerate(after, 1)))
             for one in found if (after := one.late.growth[1:]) and min(after) > 0 and max(after) < math.inf]  # fmt: skip
    return curves("f-gradient-growth", "Growth of gradients on their way back", _described(lines), lines,
                  x_label="after application", y_label="log₁₀ of the growth", zero="unchanged")  # fmt: skip


def _lines(found: Sequence[Gradients], drawn: Mapping[str, Look], value: Callable[[Looked], float | None]) -> list[Curve]:
    lines = []
    for one in found:
        seeds = [tuple((float(looked.tokens), at) for looked in run if (at := value(looked)) is not None) for run in one.runs]
        seeds = [line for line in seeds if line]
        if seeds:
            lines.append(Curve(one.arm.name, drawn[one.arm.name], mean_line(seeds), tuple(seeds)))
    return lines


def _described(lines: Sequence[Curve]) -> str:
    ends = "; ".join(f"{line.arm} {numbers.fixed(line.mean[-1][1], 3)}" for line in lines if line.mean)
    return f"At the right end: {ends}"


def _ends(looked: Looked) -> float | None:
    """The cosine of the first use and the last."""
    return looked.cosines.get((0, len(looked.shares) - 1))


def arm_table(found: Sequence[Gradients]) -> Table:
    """One row an arm, of the second half of training."""
    columns = (
        Column("arm", number=False),
        Column("steps looked at", "over all seeds"),
        Column("share of each use", "of the gradient of shared weights, in the order of the schedule", number=False),
        Column("cosine", "of the gradients of the first use and the last"),
        Column("growth", "‖vᵀJ‖ / ‖v‖ back through all applications but the first, v random"),
        Column("with the first", "the same through all: the first application's factor is that of the length of embeddings, too"),
        Column("gradient at the start", "of the summed nats at the stream before the first application, root mean square over targets"),
        Column("at the end", "the same after the last application"),
    )
    return Table("gradients", "Gradients by arm, second half of training", columns, tuple(map(_arm_row, found)))


def _arm_row(one: Gradients) -> Row:
    late = one.late
    shares = [numbers.fixed(share, 2) for share in late.shares[:MOST_USES]] + ["…"] * (len(late.shares) > MOST_USES)
    ends = _ends(late)

    def cell(value: float | None, digits: int) -> Cell:
        return Cell(numbers.fixed(value, digits), value, "" if value is None else repr(value))

    whole, after = late.growth[:2] or (None, None)
    start, end = (late.loss[0], late.loss[-1]) if late.loss else (None, None)
    return Row((
        Cell(one.arm.name, one.arm.name), Cell(str(steps := sum(map(len, one.runs))), steps),
        Cell(" / ".join(shares) or numbers.NONE, late.shares[0] if late.shares else None), cell(ends, 3),
        Cell(numbers.times(after), after), Cell(numbers.times(whole), whole), cell(start, 4), cell(end, 4),
    ))  # fmt: skip


def application_table(shared: Sequence[Gradients]) -> Table:
    """One row an application that has shared weights, of the second half of training; the first MOST_APPLICATIONS."""
    columns = (
        Column("arm", number=False), Column("application"), Column("layer", number=False), Column("pass"),
        Column("share", "of the gradient of the shared weights that this application uses"),
        Column("gradient after it", "of the summed nats at the stream after it, root mean square over targets"),
        Column("growth", "‖vᵀJ‖ / ‖v‖ from the end to the stream after it"),
    )  # fmt: skip
    rows = []
    for one in shared:
        applications = arm_applications(one.arm.model)
        for index, share in one.late.by_application.items():
            here, loss, grown = applications[index], one.late.loss[index + 1], one.late.growth[index + 1]
            rows.append(Row((
                Cell(one.arm.name, one.arm.name), Cell(str(index + 1), index + 1), Cell(str(here), here.layer),
                Cell(str(here.pass_), here.pass_), Cell(numbers.fixed(share, 3), share, repr(share)),
                Cell(numbers.fixed(loss, 4), loss, repr(loss)), Cell(numbers.times(grown), grown),
            )))  # fmt: skip
    notes = (f"The first {MOST_APPLICATIONS} of {len(rows)} applications.",) if len(rows) > MOST_APPLICATIONS else ()
    return Table("gradients-applications", "Gradients by application of shared weights", columns, tuple(rows[:MOST_APPLICATIONS]), notes)
