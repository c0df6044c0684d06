"""A judgement to look at: for `ostinato judge` and the notebook, from the records of `judge.verdicts`; the page uses the same tables.

First one line a prediction; then what gave each, exploratory ones apart, guesses, quantities, runs, contingent arms, held-out gains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ostinato.judge.verdicts import CLEAR, Judgement, Range, Verdict
from ostinato.report import numbers
from ostinato.report import verdict_words as words
from ostinato.report.page import notebook
from ostinato.report.tables import Cell, Column, Row, Table, as_text, to_rich

if TYPE_CHECKING:
    from rich.console import RenderableType


def verdict_table(verdicts: Sequence[Verdict], name: str, caption: str) -> Table:
    """One row a prediction: verdict, own word, strength, and the numbers of the comparison that decided."""
    own = any(words.outcome(one) for one in verdicts)
    columns = (
        Column("verdict", "evaluated on the point estimate, as it was sealed", number=False),
        Column("prediction", number=False),
        Column("outcome", "in the study's own word", number=False, terminal=own, page=own),
        Column("strength", "clear: seeds and documents both exclude zero; within noise: they do not", number=False),
        Column("measured", "left side of the comparison that decided"),
        Column("against", "its right side", spare=1),
        Column("by", "how far it is from its border"),
        Column("unit", number=False, spare=2),
    )
    return Table(name, caption, columns, tuple(Row(_verdict_cells(one)) for one in verdicts))


def _verdict_cells(verdict: Verdict) -> tuple[Cell, ...]:
    clause, kind = words.deciding_clause(verdict), verdict.kind
    left, right, margin, unit = (clause.left, clause.right, clause.margin, clause.unit) if clause else (None, None, None, "")
    return (
        Cell(words.headline(verdict), kind, verdict.claim, words.TONES[kind]),
        Cell(verdict.name, verdict.name, verdict.claim),
        Cell(words.outcome(verdict), words.outcome(verdict)),
        Cell(words.standing(verdict) or numbers.NONE, verdict.strength, verdict.reason, "" if verdict.strength == CLEAR else "muted"),
        _number(left, unit),
        _number(right, unit),
        _number(None if margin is None else abs(margin), unit),
        Cell(unit or numbers.NONE),
    )


def _number(value: float | None, unit: str = "") -> Cell:
    return Cell(words.number(value), value, "" if value is None else f"{value!r} {unit}".strip())


def _range(range_: Range | None) -> Cell:
    return Cell(words.interval(range_), None, "" if range_ is None else f"{range_[0]!r} to {range_[1]!r}")


def guess_table(judgement: Judgement) -> Table:
    """One row a guess: what was guessed, and what was measured."""
    columns = (Column("guess", number=False), Column("of", number=False), Column("guessed"), Column("measured"),
               Column("95% interval", spare=1), Column("unit", number=False, spare=2))  # fmt: skip
    rows = tuple(
        Row((Cell(verdict.name, verdict.name), Cell(guess.text), _number(guess.guessed, guess.unit),
             Cell("not estimable", None, guess.reason, "muted") if guess.measured is None else _number(guess.measured, guess.unit),
             _range(guess.interval), Cell(guess.unit or numbers.NONE)))
        for verdict in judgement.verdicts for guess in verdict.guesses
    )  # fmt: skip
    return Table("guesses", "Guesses beside what was measured", columns, rows)


def quantity_table(judgement: Judgement) -> Table:
    """One row a named quantity, which is shown and not judged."""
    columns = (Column("quantity", number=False), Column("value"), Column("95% interval"), Column("over seeds", spare=1),
               Column("unit", number=False, spare=2), Column("is", number=False, terminal=False))  # fmt: skip
    rows = tuple(
        Row((Cell(one.name, one.name, one.text),
             Cell("not estimable", None, one.reason, "muted") if one.value is None else _number(one.value, one.unit),
             _range(one.interval), _range(one.interval_seeds), Cell(one.unit or numbers.NONE), Cell(one.text)))
        for one in judgement.quantities
    )  # fmt: skip
    notes = tuple(f"{one.name}: not estimable, {one.reason}." for one in judgement.quantities if one.value is None and one.reason)
    return Table("quantities", "Quantities", columns, rows, notes)


def held_out_table(judgement: Judgement) -> Table:
    """One row an arm that is compared: its gain on the validation part, and on the held-out one. An arm that has neither is left out."""
    known = {arm: one for arm, one in judgement.held_out.items() if one.validation is not None or one.held_out is not None}
    columns = (Column("arm", number=False), Column("validation gain"), Column("95% over documents", spare=1),
               Column("held-out gain"), Column("95% over documents", spare=1), Column("unit", number=False, spare=2))  # fmt: skip
    rows = tuple(
        Row((Cell(arm, arm, one.reason), Cell(numbers.signed(one.validation), one.validation), _range(one.interval_validation),
             Cell(numbers.signed(one.held_out), one.held_out, one.reason, "strong"), _range(one.interval_held_out), Cell(one.unit)))
        for arm, one in known.items()
    )  # fmt: skip
    notes = tuple(f"{arm}: {one.reason}." for arm, one in known.items() if one.reason)
    return Table("held-out-gains", "Held-out gains beside those on the validation part", columns, rows, notes)


def verdict_tables(judgement: Judgement) -> list[Table]:
    """What was sealed, then what was not."""
    sealed = [one for one in judgement.verdicts if not one.exploratory]
    loose = [one for one in judgement.verdicts if one.exploratory]
    given = ((sealed, "verdicts", "Verdicts"), (loose, "exploratory", "Exploratory: not sealed before these results"))
    return [verdict_table(verdicts, name, caption) for verdicts, name, caption in given if verdicts]


def other_tables(judgement: Judgement) -> list[Table]:
    """Guesses, quantities and held-out gains, those that have rows."""
    return [table for table in (guess_table(judgement), quantity_table(judgement), held_out_table(judgement)) if table.rows]


@dataclass(frozen=True, repr=False)
class JudgementSheet:
    """A judgement printed by rich, shown in a notebook; `record()` gives every number. study: as the command line names it."""

    judgement: Judgement
    study: str

    @property
    def exit_status(self) -> int:
        """0; 10 something is killed; 20 something is missing, failed, not estimable or not as it was sealed; 30 both."""
        return self.judgement.exit_status

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return self.judgement.record()

    def __repr__(self) -> str:
        return as_text(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[RenderableType]:
        from rich.padding import Padding
        from rich.text import Text

        judgement = self.judgement
        if judgement.faults:
            yield Text(words.registered_words(judgement), style="bold red")
            yield from (Text.assemble(("✕ ", "bold red"), fault) for fault in judgement.faults)
            yield Text("")
        for table in verdict_tables(judgement):
            yield to_rich(table, options.max_width)
            yield Text("")
        yield Text(words.tally(judgement.verdicts) or "The study makes no prediction.", style="bold")
        if not judgement.faults:
            yield Text(words.registered_words(judgement))
        if not judgement.registrations and not judgement.transcribed and not judgement.faults:
            yield Text(f"next: ostinato register {self.study}   seals its predictions before the runs that are to come")
        for verdict in judgement.verdicts:
            yield Text("")
            yield Text(words.one_line(verdict), style="bold")
            for line in words.lines(verdict):
                yield Padding(Text(line), (0, 0, 0, 2))
        yield Text("")
        for table in other_tables(judgement):
            yield to_rich(table, options.max_width)
            yield from (Text(note, style="dim") for note in table.notes)
            yield Text("")
        yield Text(words.runs_words(judgement))
        for one in judgement.contingent:
            yield Text(f"Contingent arm {words.contingent_words(one)}")
        for note in judgement.notes:
            yield Text.assemble(("! ", "bold yellow"), note)

    def _repr_html_(self) -> str:
        from html import escape

        judgement = self.judgement
        broken = (words.registered_words(judgement), *judgement.faults) if judgement.faults else ()
        sealed = () if broken else (words.registered_words(judgement),)
        said = (words.tally(judgement.verdicts), *sealed, words.runs_words(judgement), *judgement.notes)
        first, last = ("".join(f'<p class="note">{escape(line)}</p>' for line in lines if line) for lines in (broken, said))
        tables = notebook(*verdict_tables(judgement), *other_tables(judgement))
        return (f'<div class="ostinato">{first}</div>' if first else "") + tables + f'<div class="ostinato">{last}</div>'
