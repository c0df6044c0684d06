"""One prediction as a line of the page: its shape, its outcome, the number that decided, and all that the line opens to.

A kind is told by a shape, by a word and by a colour (templates/page.css): a filled disc with a check, a cross, a half disc, a ring with a
question mark; a dashed ring for what is not judged yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from ostinato.judge.verdicts import BETWEEN, KILLED, NOT_ESTIMABLE, SUPPORTED, Clause, Judgement, Verdict
from ostinato.report import numbers
from ostinato.report import verdict_words as words
from ostinato.report.judgement import guess_table
from ostinato.report.margin_figures import margins, signed
from ostinato.report.page import table_html
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.store.registrations import Registration
from ostinato.study.records import Prediction

NOT_YET = "NOT JUDGED YET"
SLUGS = {SUPPORTED: "supported", KILLED: "killed", BETWEEN: "between", NOT_ESTIMABLE: "unknown", NOT_YET: "waiting"}
_DRAWN = {
    SUPPORTED: '<circle class="fill" cx="12" cy="12" r="10"/><path class="on" d="M7 12.5l3.4 3.5L17 8.6"/>',
    KILLED: '<path class="thick" d="M4.5 4.5l15 15M19.5 4.5l-15 15"/>',
    BETWEEN: '<circle class="ring" cx="12" cy="12" r="9"/><path class="fill" d="M12 3a9 9 0 0 0 0 18z"/>',
    NOT_ESTIMABLE: '<circle class="ring" cx="12" cy="12" r="9"/><text x="12" y="16.6" text-anchor="middle">?</text>',
    NOT_YET: '<circle class="ring dashed" cx="12" cy="12" r="9"/>',
}

@dataclass(frozen=True)
class Condition:
    """One condition as it was sealed. said: whether it holds, in words."""

    kind: str
    name: str
    text: str
    said: str


@dataclass(frozen=True)
class Line:
    """One prediction, ready for the template.

    word: the outcome in the user's own word, else the kind; own: whether it is theirs.  clause: the comparison that decided, None without.
    number: what was measured; by: against what, and by how much it holds or not; why: where there is no number.  rest: on noise and p.
    """

    id: str
    verdict: Verdict
    kind: str
    glyph: Markup
    word: str
    own: bool
    clause: Clause | None
    number: str
    by: str
    why: str
    conditions: tuple[Condition, ...]
    sealed: tuple[tuple[str, str], ...]
    rest: tuple[str, ...]
    clauses: Markup
    guesses: Markup
    figure: Markup

    @property
    def slug(self) -> str:
        return SLUGS[self.kind]

    @property
    def strength(self) -> str:
        return words.standing(self.verdict) if self.kind != NOT_YET else ""


def glyph(kind: str) -> Markup:
    """The shape of a kind, drawn inline in the colour of its line, and named for who hears it."""
    return Markup(f'<svg class="glyph" viewBox="0 0 24 24" role="img" aria-label="{kind.lower()}"><title>{kind.lower()}</title>'
                  f"{_DRAWN[kind]}</svg>")  # fmt: skip


def line(place: str, verdict: Verdict, prediction: Prediction | None, sealed: Mapping[int, Registration] | None, later: str) -> Line:
    """sealed: None where the registrations are not as they were sealed.  later: why it is not judged yet, "" where it is."""
    kind = NOT_YET if later else verdict.kind
    own = "" if later else words.outcome(verdict)
    clause = None if later else words.deciding_clause(verdict)
    number, by = "", ""
    if clause is not None and clause.margin is not None:
        unit = f" {clause.unit}" if clause.unit else ""
        number = words.number(clause.left) + unit
        by = f"against {words.number(clause.right)}, {'holds' if clause.holds else 'does not hold'} by {words.number(abs(clause.margin))}"
    clauses = clause_table(f"{place}-clauses", verdict)
    figure = margins(f"{place}-margins", f"Margins of {verdict.name}", [one for one, _ in _clauses(verdict).values()])
    return Line(
        place, verdict, kind, glyph(kind), own or kind, bool(own), clause, number, by, later or verdict.reason,
        tuple(_conditions(verdict, prediction, bool(later))), tuple(_sealed(verdict, sealed)), tuple(_rest(verdict, bool(later))),
        table_html(clauses) if clauses.rows and not later else Markup(""),
        _guesses(f"{place}-guesses", verdict) if verdict.guesses else Markup(""),
        Markup(figure),
    )  # fmt: skip


def _guesses(name: str, verdict: Verdict) -> Markup:
    """The table of guesses of one prediction, without its name in every row."""
    found = guess_table(Judgement("", 0, (verdict,)))
    return table_html(Table(name, found.caption, found.columns[1:], tuple(Row(row.cells[1:]) for row in found.rows)))


def _conditions(verdict: Verdict, prediction: Prediction | None, later: bool) -> Iterator[Condition]:
    """All that was written, also what did not have to be read."""
    read = {(one.kind, one.name): one for one in verdict.conditions}
    written = [(one.kind, one.name, one.text) for one in verdict.conditions]
    if prediction is not None:
        groups = ((SUPPORTED, prediction.supported), (KILLED, prediction.killed), (BETWEEN, prediction.between))
        written = [(kind, name, text) for kind, group in groups for name, text in group.items()]
    for kind, name, text in written:
        one = read.get((kind, name))
        said = "" if later else "not needed, as another decided"
        if one is not None and not later:
            said = "not estimable" if one.holds is None else "holds" if one.holds else "does not hold"
            said += "" if one.holds is None else ", clear" if one.clear else ", within noise"
        yield Condition(kind, "" if name == kind else name, text, said)


def _sealed(verdict: Verdict, sealed: Mapping[int, Registration] | None) -> Iterator[tuple[str, str]]:
    if sealed is None:
        alone = f"; it reads so {words.UNSEALED_TEXT.removeprefix('as it stands ')}, and not in the study file" if verdict.withdrawn else ""
        yield "sealed", f"no, so it is exploratory: the registrations are not as they were sealed{alone}"
        return
    one = sealed.get(verdict.registered or 0)
    if one is None:
        newest = sealed.get(max(sealed, default=0))
        named = newest is not None and any(other.name == verdict.name for other in newest.study.predictions)
        what = f"another text under this name is, in registration {newest.number}" if newest and named else "nothing under this name is"
        yield "sealed", f"no, so it is exploratory: {what}"
    else:
        file = ", and no longer in the study file" if verdict.withdrawn else ""
        yield "sealed", f"in registration {one.number}, {words.moment(one.at)}, fingerprint `{one.fingerprint[:12]}`{file}"
    if verdict.after_results:
        yield "after results", numbers.listed(list(verdict.after_results), 8)
    elif one is not None:
        yield "after results", "none of the arms that it rests on"
    if one is not None:
        yield "changed since", "; ".join(verdict.changed) or "nothing that bears on it"


def _rest(verdict: Verdict, later: bool) -> Iterator[str]:
    if later:
        return
    if verdict.reason:
        yield f"{(verdict.strength or 'not estimable').capitalize()}: {verdict.reason}."
    if verdict.p is not None:
        holm = "" if verdict.holm is None else f"; by Holm over all predictions of the study, p = {verdict.holm:.2g}"
        yield f"p = {verdict.p:.2g}{holm}."


def clause_table(name: str, verdict: Verdict) -> Table:
    """A row a comparison of a prediction, under the name of the condition that it is in; one that several conditions share stands once."""
    columns = (
        Column("condition", number=False), Column("comparison", number=False), Column("holds", number=False),
        Column("left", "what was measured on its left"), Column("right"), Column("margin", "how far from its border; positive: it holds"),
        Column("95% over documents", "of the margin"), Column("95% over seeds", "of the margin: Student's t, paired by seed"),
        Column("by seed", "the margin of each seed", number=False), Column("p", "two-sided, the larger of documents and seeds"),
        Column("unit", number=False),
    )  # fmt: skip
    rows = [Row((Cell(", ".join(conditions), place), *_clause_cells(clause)))
            for place, (clause, conditions) in enumerate(_clauses(verdict).values())]  # fmt: skip
    notes = dict.fromkeys(f"{clause.text}: {clause.reason}." for clause, _ in _clauses(verdict).values() if clause.reason)
    return Table(name, "Every comparison and its numbers", columns, tuple(rows), tuple(notes))


def _clauses(verdict: Verdict) -> dict[str, tuple[Clause, list[str]]]:
    found: dict[str, tuple[Clause, list[str]]] = {}
    for one in verdict.conditions:
        for clause in one.clauses:
            conditions = found.setdefault(clause.text, (clause, []))[1]
            if one.name not in conditions:
                conditions.append(one.name)
    return found


def _clause_cells(clause: Clause) -> tuple[Cell, ...]:
    def number(value: float | None) -> Cell:
        return Cell(words.number(value), value, "" if value is None else repr(value))

    def ends(pair: tuple[float, float] | None) -> Cell:
        return Cell(words.interval(pair), pair and pair[0])

    holds = {True: "yes", False: "no", None: "not estimable"}[clause.holds]
    holds += "" if clause.holds is None else ", clear" if clause.clear else ", within noise"
    tone = "muted" if clause.holds is None else ""
    seeds = ", ".join(f"{seed}:\N{NO-BREAK SPACE}{signed(margin)}" for seed, margin in clause.seeds.items())
    return (
        Cell(clause.text), Cell(holds, None, clause.reason, tone), number(clause.left), number(clause.right),
        Cell(signed(clause.margin), clause.margin, "" if clause.margin is None else repr(clause.margin)), ends(clause.interval_documents),
        ends(clause.interval_seeds), Cell(seeds or numbers.NONE),
        Cell(numbers.NONE if clause.p is None else f"{clause.p:.2g}", clause.p), Cell(clause.unit or numbers.NONE),
    )  # fmt: skip
