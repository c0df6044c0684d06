"""States across passes, on the page: how far every application moves the stream, and whether a further pass still does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from ostinato.analysis import ArmResult
from ostinato.analysis.states import Moved, States, states
from ostinato.report import figures, numbers
from ostinato.report.looks import Look
from ostinato.report.panels import arm_looks
from ostinato.report.section import Figure, Section
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.store import Store
from ostinato.study.draws import drawn_passes, trained_to, words
from ostinato.study.records import Passes, Study

_HARDLY = "Where passes are drawn, one that fewer than 1 step in 1,000 runs counts as not trained."


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """None where no arm has been measured so. Raises StoreError when a stored file is torn."""
    found = states(study, store)
    if not found:
        return None
    looks, draws = arm_looks(study, results), drawn_passes(study)
    updates = [figures.Curve(one.arm, looks[one.arm], tuple((float(moved.application + 1), moved.update) for moved in one.applications))
               for one in found]  # fmt: skip
    top = _top([y for line in updates for _, y in line.mean])
    note = "Length of the update over the length of the stream before it."
    note += f" Above {numbers.fixed(top, 2)}, as where a first application begins with a short stream, it is cut off." if top else ""
    drawn = (
        Figure("How far each application moves the stream", note, figures.curves(
            "f-states", "Length of every update, relative to the stream", "The mean over positions.", updates, x_label="application",
            y_label="length of the update, relative", top=top,
        )),
        Figure("Whether a further pass still moves the state", "What a pass has changed of the state where it ends, relative to the state; "
               "to twice those trained, or measured at, where their number is free. 0 is a fixed point.", figures.curves(
            "f-fixed-point", "Change of the state from pass to pass", "The mean over positions.", _changes(found, looks),
            x_label="pass", y_label="change from the pass before, relative", zero="fixed point",
        )),
    )  # fmt: skip
    return Section("states", "Does a further pass still move the state?", _lead(found, draws), tuple(one for one in drawn if one.svg),
                   (states_table(found, draws),))  # fmt: skip


def passes_of(one: States) -> list[tuple[int, list[Moved]]]:
    """The applications of every pass; of a model whose number of passes is free, those of twice the passes trained."""
    ordered = sorted(one.deeper or one.applications, key=lambda moved: (moved.pass_, moved.application))
    return [(pass_, list(moved)) for pass_, moved in groupby(ordered, key=lambda moved: moved.pass_)]


def states_table(found: Sequence[States], draws: Mapping[str, Passes]) -> Table:
    """A row an arm and pass: means over its applications, and the state where it ends.  draws: of the arms whose passes are drawn."""
    columns = (
        Column("arm", number=False), Column("pass"),
        Column("update", "length of an application's update over that of the stream before it, mean over the applications of the pass"),
        Column("cosine", "between an update and that of the same layer one pass before, mean over applications"),
        Column("change", "distance of the state where the pass ends from that one pass before, over its length"),
        Column("distance", "from where the last pass ends, over the length of that state"),
        Column("effective rank", "exp of the entropy of the singular values of the states where the pass ends, centred"),
    )  # fmt: skip
    rows = []
    for one in found:
        trained = trained_to(draws[one.arm]) if one.arm in draws else one.trained
        for pass_, moved in passes_of(one):
            beyond, last = trained is not None and pass_ > trained, _closing(moved)
            values = (_mean([each.update for each in moved]), _mean([each.cosine for each in moved]), last.change, last.distance)
            rows.append(Row((
                Cell(one.arm, one.arm), Cell(f"{pass_}{' (not trained)' if beyond else ''}", pass_, tone="muted" if beyond else ""),
                *(Cell(numbers.fixed(value, 3), value) for value in values), Cell(f"{last.rank:.1f}", last.rank),
            )))  # fmt: skip
    return Table("states-table", "The stream from pass to pass, means over the positions of the measured targets", columns, tuple(rows),
                 (_HARDLY,) if any(draw.poisson for draw in draws.values()) else ())  # fmt: skip


def _closing(moved: Sequence[Moved]) -> Moved:
    """Where a pass ends: its last application that another one of its layer is compared with, or its last one."""
    return next((one for one in reversed(moved) if one.distance is not None), moved[-1])


def _changes(found: Sequence[States], looks: Mapping[str, Look]) -> list[figures.Curve]:
    lines = []
    for one in found:
        points = tuple((float(pass_), change) for pass_, moved in passes_of(one) if (change := _closing(moved).change) is not None)
        if points:
            lines.append(figures.Curve(one.arm, looks[one.arm], points))
    return lines


def _mean(values: Sequence[float | None]) -> float | None:
    """Of applications, which all have the same positions."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _top(heights: Sequence[float]) -> float | None:
    """The first application, whose stream is short, may move it by many times its length."""
    ordered = sorted(heights)
    typical = ordered[len(ordered) // 2]
    return 4 * typical if ordered and ordered[-1] > 8 * typical > 0 else None


def _lead(found: Sequence[States], draws: Mapping[str, Passes]) -> str:
    said = []
    for one in found:
        changes = {pass_: _closing(moved).change for pass_, moved in passes_of(one) if _closing(moved).change is not None}
        if changes:
            listed = [f"{numbers.fixed(change, 2)} in pass {pass_}" for pass_, change in changes.items()]
            drawn = f" ({words(draws[one.arm])})" if one.arm in draws else ""
            said.append(f"{one.arm}{drawn} changes its state by {numbers.listed(listed, 6)}")
    if not said:
        return "How far every application moves the stream."
    return "; ".join(said[:3]) + ", relative to the state where the pass ends."
