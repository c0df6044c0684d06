"""What an application is worth, on the page: bars of the loss without each one and without each pass."""

from __future__ import annotations

from collections.abc import Sequence

from ostinato.analysis import ArmResult
from ostinato.analysis.skips import CLASSES, Skips, skips
from ostinato.report import numbers
from ostinato.report.class_words import classes_of, of_class
from ostinato.report.figures import WIDTH, short
from ostinato.report.looks import Look
from ostinato.report.panels import arm_looks, ranked
from ostinato.report.section import Figure, Section
from ostinato.report.svg import Canvas, Scale, log_ticks
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.store import Store
from ostinato.study.records import Study

MOST_FIGURES, MOST_BARS = 6, 48
SMALLEST = 1e-4
"""Nats: a shorter bar is drawn as long as this."""


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """None where no arm has been measured so. Raises StoreError when a stored file is torn."""
    found = skips(study, store, CLASSES)
    if not found:
        return None
    looks, order = arm_looks(study, results), [study.reference, *(one.name for one in ranked(results))]
    chosen = sorted(found, key=lambda one: order.index(one.arm) if one.arm in order else len(order))[:MOST_FIGURES]
    note = "Nats a token that it costs to leave the application out, on one logarithmic axis; an open bar: the model is better without it."
    axis = _range(chosen)
    drawn = tuple(Figure(f"What each application of {one.arm} is worth", note if place == 0 else "", svg)
                  for place, one in enumerate(chosen) if (svg := worth_bars(f"f-skips-{place}", one, looks[one.arm], axis)))  # fmt: skip
    notes = (f"Drawn are the reference and the arms of the largest gain, {MOST_FIGURES} in all.",) if len(found) > len(chosen) else ()
    return Section("skips", "What each application is worth", _lead(found), drawn, (skips_table(found),), notes)


def worth_bars(name: str, one: Skips, look: Look, axis: tuple[float, float]) -> str:
    """A bar an application, in the order of the schedule, and one a pass; "" where nothing was measured or bars are too many to read.

    axis: nats, from the left edge to the right.
    """
    rows = _worth(one)
    if not rows or len(rows) > MOST_BARS:
        return ""
    sizes = [max(abs(worth), SMALLEST) for _, worth in rows]
    row_height, top, bottom, left, right = 22.0, 12.0, 44.0, 96.0, 70.0
    floor = top + row_height * len(rows)
    canvas, x = Canvas(WIDTH, floor + bottom), Scale(*axis, left, WIDTH - right, log=True)
    for value in log_ticks(*axis):
        canvas.line(x(value), top, x(value), floor, "grid")
        canvas.text(x(value), floor + 18, f"{value:g}", "t num", "middle")
    canvas.text((left + WIDTH - right) / 2, floor + 36, "nats a token lost without it", "t axis-name", "middle")
    for place, ((said, worth), size) in enumerate(zip(rows, sizes, strict=True)):
        y = top + row_height * place
        kind = f"f{look.colour or 0}" if worth > 0 else f"hollow k{look.colour or 0} paper"
        canvas.text(0, y + 15, said, "t tag" if said in one.passes.values() else "t")
        canvas.rect(left, y + 4, max(1.0, x(size) - left), row_height - 8, kind, f"without {said}: {numbers.signed(worth)} nats a token")
        canvas.text(WIDTH, y + 15, numbers.signed(worth), "t num", "end")
    largest = max(rows, key=lambda row: row[1])
    return canvas.render(name, f"What each application of {short(one.arm, 40)} is worth",
                         f"Most: {largest[0]}, {numbers.signed(largest[1])} nats a token")  # fmt: skip


def _worth(one: Skips) -> list[tuple[str, float]]:
    """What is left out, and what that costs in nats a token; [] where no target was measured."""
    found = [(said, one.worth(column)) for column, said in {**one.applications, **one.passes}.items()]
    return [] if None in (worth for _, worth in found) else found


def _range(chosen: Sequence[Skips]) -> tuple[float, float]:
    """From below the shortest bar to above the longest."""
    sizes = [max(abs(worth), SMALLEST) for one in chosen for _, worth in _worth(one)] or [SMALLEST]
    return min(sizes) / 1.6, max(sizes) * 1.2


def skips_table(found: Sequence[Skips]) -> Table:
    """Of every arm the application that is worth most, the one that is worth least, and every pass; by class."""
    classes = classes_of(found)
    columns = (Column("arm", number=False), Column("without", number=False),
               *(Column(class_, of_class("nats a target lost without it", class_)) for class_ in classes))  # fmt: skip
    rows = []
    for one in found:
        alone = sorted(one.applications, key=lambda column: one.worth(column) or 0.0, reverse=True)
        listed = {alone[0]: f"{one.applications[alone[0]]} (worth most)"} if alone else {}
        listed |= {alone[-1]: f"{one.applications[alone[-1]]} (worth least)"} if len(alone) > 1 else {}
        for column, said in (listed | one.passes).items():
            worth = [one.worth(column, class_) if class_ in one.sums.classes else None for class_ in classes]
            cells = (Cell(numbers.signed(each), each, "" if each is not None else "no target of this class was measured") for each in worth)
            rows.append(Row((Cell(one.arm, one.arm), Cell(said, said), *cells)))
    return Table("skips-table", "Loss without an application or a pass, less the loss with all, in nats a target", columns, tuple(rows))


def _lead(found: Sequence[Skips]) -> str:
    looped = [one for one in found if one.passes]
    if not looped:
        return "How much more a target costs when one application is left out."
    said = []
    for one in looped[:3]:
        worth = [f"{numbers.signed(one.worth(column))} without {pass_}" for column, pass_ in one.passes.items()]
        said.append(f"{one.arm} {numbers.listed(worth, 6)}")
    return f"Loss in nats a token: {'; '.join(said)}. A skipped application adds nothing to the stream; nothing is trained anew."
