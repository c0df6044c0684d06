"""The lens on the page: what the head would lose after every application, a curve an arm, and a table at three places of the schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ostinato.analysis import ArmResult
from ostinato.analysis.applications import called
from ostinato.analysis.lens import CLASSES, RESOLVED, Lens, lenses
from ostinato.analysis.measured import ALL
from ostinato.report import figures, numbers
from ostinato.report.class_words import classes_of, words
from ostinato.report.looks import Look
from ostinato.report.panels import arm_looks
from ostinato.report.section import Figure, Section
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.store import Store
from ostinato.study.records import Study

DRAWN = (ALL, "new", "k ≥ 8")
TOP = 12.0
"""Nats: a stream that the head cannot read at all may cost any number."""


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """None where no arm has a lens. Raises StoreError when a stored file is torn."""
    found = lenses(study, store, CLASSES)
    if not found:
        return None
    looks = arm_looks(study, results)
    drawn = [(class_, lens_figure(found, looks, class_)) for class_ in DRAWN]
    note = ("What the head would lose if it read the stream after so many applications; 0 is the input. "
            "A first pass that is no predictor leaves its curve high until a later one.")  # fmt: skip
    shown = tuple(Figure(f"The lens: {words(class_)}", note if class_ == ALL else "", svg) for class_, svg in drawn if svg)
    return Section("lens", "Where along the schedule a target is resolved", _lead(found), shown, (lens_table(found),))


def lens_figure(found: Sequence[Lens], looks: Mapping[str, Look], class_: str) -> str:
    """Nats a target against applications, a curve an arm; "" where no arm has a target of the class."""
    lines = [figures.Curve(one.arm, looks[one.arm], tuple((float(place), nats) for place, nats in enumerate(one.curve(class_))))
             for one in found if class_ in one.sums.classes]  # fmt: skip
    lines = [line for line in lines if line.mean]
    if not lines:
        return ""
    said = "; ".join(f"{line.arm} {numbers.fixed(line.mean[-1][1])}" for line in lines)
    high = max(nats for line in lines for _, nats in line.mean) > TOP
    return figures.curves(
        f"f-lens-{DRAWN.index(class_) if class_ in DRAWN else class_}", f"The lens on {words(class_)}", f"At the end: {said}", lines,
        x_label="applications", y_label="nats a target through the head", marks=_ends(found), top=TOP if high else None,
    )  # fmt: skip


def lens_table(found: Sequence[Lens], layer: int | None = None) -> Table:
    """A row an arm; by class the loss after the application in the middle of the first pass (or the first of `layer`), at the end of the
    first pass, and at the end."""
    classes = classes_of(found)
    columns = (Column("arm", number=False), Column("in the middle", "the application that the first number is read after", number=False),
               *(Column(class_, f"nats a target through the head, {words(class_)}: after the application named / at the end of the first "
                                "pass / at the end") for class_ in classes))  # fmt: skip
    rows = []
    for one in found:
        places = (one.middle(layer), one.first_pass, len(one.labels) - 1)
        cells = [_cell([one.after(place, class_) for place in places]) if class_ in one.sums.classes else Cell(numbers.NONE)
                 for class_ in classes]  # fmt: skip
        middle = f"{called(one.labels[places[0]])} ({places[0] + 1} of {len(one.labels)})"
        rows.append(Row((Cell(one.arm, one.arm, _measured(one)), Cell(middle, places[0]), *cells)))
    sums = max((one.sums for one in found), key=lambda sums: len(sums.classes))
    counted = zip(sums.classes[1:], sums.count_K[1:], strict=True)
    shares = ", ".join(f"{class_} {numbers.percent(count / max(1, sums.count_K[0]), 1)}" for class_, count in counted)
    note = f"Shares of the measured targets: {shares}." if shares else "The classes of these targets are not stored."
    return Table("lens-table", "The lens at three places: in the middle of the first pass / at its end / at the end", columns, tuple(rows),
                 (note,))  # fmt: skip


def _measured(one: Lens) -> str:
    targets = int(one.sums.count_K[0]) // len(one.seeds)
    return f"{numbers.several(len(one.seeds), 'seed')}, {targets:,} targets, after {one.tokens:,} tokens of training"


def _cell(nats: Sequence[float | None]) -> Cell:
    if None in nats:
        return Cell(numbers.NONE, title="no target of this class was measured")
    return Cell(" / ".join(numbers.fixed(each, 2) for each in nats), nats[-1], " / ".join(numbers.fixed(each, 6) for each in nats))


def _ends(found: Sequence[Lens]) -> tuple[tuple[str, float], ...]:
    """Where the first pass ends in the arms that have a second one."""
    ends: dict[int, list[str]] = {}
    for one in found:
        if one.first_pass < len(one.labels) - 1:
            ends.setdefault(one.first_pass + 1, []).append(one.arm)
    return tuple((f"pass 1 of {numbers.listed(arms, 2)} ends", float(end)) for end, arms in sorted(ends.items()))


def _lead(found: Sequence[Lens]) -> str:
    looped = [one for one in found if one.first_pass < len(one.labels) - 1]
    if not looped:
        return "The loss that the head would have after every application."
    one = max(looped, key=lambda one: one.after(one.first_pass, ALL) - one.after(len(one.labels) - 1, ALL))
    said = (f"After its first pass the head of {one.arm} would lose {numbers.fixed(one.after(one.first_pass, ALL), 2)} nats a token, "
            f"at the end it loses {numbers.fixed(one.after(len(one.labels) - 1, ALL), 2)}")  # fmt: skip
    long = one.curve("k ≥ 8") if "k ≥ 8" in one.sums.classes else ()
    if not long:
        return said + "."
    place = one.resolves("k ≥ 8")
    return (f"{said}; on targets that continue a match of 8 tokens or more {numbers.fixed(long[one.first_pass + 1], 2)} and "
            f"{numbers.fixed(long[-1], 2)}, and from application {place + 1} of {len(one.labels)} on ({called(one.labels[place])}) "
            f"within {RESOLVED} nats of the end.")  # fmt: skip
