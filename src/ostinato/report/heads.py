"""What heads look at: a map of application x head for every arm, and the strongest head of each kind as a table.

In a map the area of a square is the share of its attention that a head puts where the score says, so that no colour has to be read: a
full cell is all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ostinato.analysis import ArmResult
from ostinato.analysis.heads import LONG, REPEATED, SCORES, WINDOWS, Head, Heads, heads, resolved
from ostinato.analysis.lens import RESOLVED
from ostinato.report import numbers
from ostinato.report.figures import WIDTH, short
from ostinato.report.section import Figure, Section
from ostinato.report.svg import Canvas
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.store import Store
from ostinato.study.records import Study

MOST_MAPS = 12
NAMES = {"induction": "induction", "previous": "previous token", "duplicate": "duplicate token"}
LEFT, TOP, GAP, BOTTOM = 96.0, 40.0, 18.0, 22.0
CELL = 24.0


def head_map(name: str, title: str, description: str, found: Heads, resolves: int | None = None) -> str:
    """A panel a score, a row an application with heads, a column a head; squares whose area is the score on repeated tokens.

    resolves: the application that is marked.  "" where there is no head.
    """
    places = found.places
    if not places:
        return ""
    heads_ = 1 + max(head.head for score in SCORES for head in found.of(score))
    wide = (WIDTH - LEFT - GAP * (len(SCORES) - 1)) / len(SCORES)
    cell = min(CELL, wide / heads_)
    rows = {application: TOP + cell * row for row, application in enumerate(places)}
    canvas = Canvas(WIDTH, TOP + cell * len(rows) + BOTTOM)
    for application, y in rows.items():
        canvas.text(LEFT - 10, y + cell / 2 + 4, short(places[application], 13), "t num", "end")
        if application == resolves:
            canvas.marker("triangle", LEFT - 4, y + cell / 2, 3.0, "dot f0", f"{LONG} is resolved after application {application}")
    for panel, score in enumerate(SCORES):
        left = LEFT + panel * (wide + GAP)
        canvas.text(left, TOP - 12, NAMES[score], "t tag f0")
        for row in range(len(rows) + 1):
            canvas.line(left, TOP + cell * row, left + cell * heads_, TOP + cell * row, "grid")
        for column in range(heads_ + 1):
            canvas.line(left + cell * column, TOP, left + cell * column, TOP + cell * len(rows), "grid")
        for head in found.of(score):
            _square(canvas, head, left + cell * head.head, rows[head.application], cell, score)
        for column in sorted({0, heads_ - 1}):
            canvas.text(left + cell * (column + 0.5), TOP + cell * len(rows) + 15, str(column), "t num", "middle")
    canvas.text(0, 12, "application, and head", "t axis-name")
    return canvas.render(name, title, description)


def _square(canvas: Canvas, head: Head, x: float, y: float, cell: float, score: str) -> None:
    side = (cell - 2) * min(1.0, max(0.0, head.score)) ** 0.5
    said = f"{head.place}, head {head.head}: {NAMES[score]} {numbers.fixed(head.score, 3)} (evenly spread: {numbers.fixed(head.chance, 3)})"
    canvas.rect(x + (cell - side) / 2, y + (cell - side) / 2, side, side, "dot f1", said)


def head_table(found: Sequence[Heads], resolves: Mapping[str, tuple[int, str]]) -> Table:
    """One row a run: its strongest head of every kind, and the application that resolves long matches."""
    kinds = [(score, REPEATED) for score in SCORES] + [("induction", WINDOWS)]
    labels = [f"strongest {NAMES[score]}" for score in SCORES] + ["induction in real text"]
    helps = ["attention on what came after the same token the last time", "attention on the token before",
             "attention on the same token, earlier", "the strongest induction head on validation windows"]  # fmt: skip
    columns = (
        Column("arm", number=False), Column("seed"),
        *(Column(label, f"{about}, mean over queries that see such a key; on repeated random tokens" if place < 3 else about)
          for place, (label, about) in enumerate(zip(labels, helps, strict=True))),
        Column(f"{LONG} resolved", f"the application from which on the lens stays within {RESOLVED} nats of the loss, seeds together",
               number=False),
    )  # fmt: skip
    rows = []
    for one in found:
        at, place = resolves.get(one.arm, (None, numbers.NONE))
        strongest = (_strongest(one, *kind) for kind in kinds)
        end = Cell(place, at, "" if at is None else f"application {at}, counted from 0")
        rows.append(Row((Cell(one.arm, one.arm), Cell(str(one.seed), one.seed), *strongest, end)))
    return Table("heads", "The strongest heads of every run", columns, tuple(rows))


def _strongest(found: Heads, score: str, text: str) -> Cell:
    head = found.strongest(score, text)
    if head is None:
        return Cell(numbers.NONE, None, "no query sees a key of the kind")
    exact = f"{head.score!r} over {numbers.exact(head.count)} queries; evenly spread attention: {head.chance!r}"
    return Cell(f"{numbers.fixed(head.score, 2)} ({head.place}, head {head.head})", head.score, exact)


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """Heads of every run that has them; None without any. Raises StoreError when a stored file is torn."""
    found = heads(study, store)
    if not found:
        return None
    resolves = resolved(study, store)
    first = list({one.arm: one for one in reversed(found)}.values())[::-1]
    best = [(one.arm, head) for one in first if (head := one.strongest("induction"))]
    said = "; ".join(f"{arm} {numbers.fixed(head.score, 2)} ({head.place}, head {head.head})" for arm, head in best[:6])
    lead = ("On random tokens that come twice, an induction head looks at what came after the same token the first time. "
            + (f"The strongest of each arm, as the share of its attention: {said}." if best else "No head sees that far."))  # fmt: skip
    figures = []
    for place, one in enumerate(first[:MOST_MAPS]):
        at, _ = resolves.get(one.arm, (None, ""))
        marked = f" The triangle marks where matches of {LONG} are resolved." if at in one.places else ""
        title = f"{one.arm}, seed {one.seed}: what its heads look at"
        svg = head_map(f"heads-{place}", title, f"Scores of every head of {len(one.places)} applications.", one, at)
        if svg:
            figures.append(Figure(title, f"Rows are applications, in order; the area of a square is the score.{marked}", svg))
    table, notes = head_table(found, resolves), _notes(found, first, resolves)
    return Section("heads", "What heads look at", lead, tuple(figures), (table,), tuple(notes))


def _notes(found: Sequence[Heads], first: Sequence[Heads], resolves: Mapping[str, tuple[int, str]]) -> list[str]:
    worst = max(found, key=lambda one: one.error)
    notes = [f"Attention is computed again from q and k; it gives what the model's own kernel gives, to {worst.error:.1g} or better."]
    if len({one.seed for one in found}) > 1:
        notes.append("Heads of two seeds are not the same heads, so each run has a row of its own and a map shows one seed.")
    if without := [one.arm for one in first if one.recurrent]:
        notes.append(f"Gated delta layers have no heads to score: those of {numbers.listed(without)} are left out.")
    if len(first) > MOST_MAPS:
        notes.append(f"The first {MOST_MAPS} arms are drawn; the table has all.")
    if resolves:
        notes.append(f"Targets of {LONG} continue 8 tokens or more that stood earlier in the document. They are resolved from the "
                     f"application on after which the lens stays within {RESOLVED} nats of the loss.")  # fmt: skip
    return notes
