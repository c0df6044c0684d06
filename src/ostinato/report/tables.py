"""A table once, shown three ways: rich for the terminal, HTML for the page and the notebook.

A cell holds the text that is read, the exact value (what sorting uses and what a title shows) and a tone. What is in a table is
decided in `plan.py` and `results.py`; here is only how it looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Tone = Literal["", "better", "worse", "muted", "warn", "strong"]
_WORDS = 12  # characters of a column of words in a terminal, at least
_STYLES = {"": "", "better": "green", "worse": "red", "muted": "dim", "warn": "yellow", "strong": "bold"}


@dataclass(frozen=True)
class Column:
    """label: the heading, which may break at a space. help: what the number is, for a reader who hovers.

    terminal: whether it is shown there; spare: where it is narrow, columns with the highest spare go first (0: never).
    """

    label: str
    help: str = ""
    number: bool = True
    terminal: bool = True
    page: bool = True
    spare: int = 0


@dataclass(frozen=True)
class Cell:
    """text: as read. value: exact, for sorting. title: the exact value in words, or why there is none."""

    text: str
    value: float | str | None = None
    title: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Row:
    """kind: "" for an arm, "reference" for the reference, "floor" for a line to compare with, "missing" for a run that is not there."""

    cells: tuple[Cell, ...]
    kind: Literal["", "reference", "floor", "missing"] = ""


@dataclass(frozen=True)
class Table:
    """name: unique in a page. notes: sentences under the table."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def on_page(self) -> Table:
        """Without the columns that are for the terminal alone."""
        return self._only([column.page for column in self.columns])

    def in_terminal(self, width: int | None = None) -> Table:
        """Without the columns that are for the page alone, and without those to spare where `width` characters are too few."""
        table = self._only([column.terminal for column in self.columns])
        while width is not None and table.width() > width and any(column.spare for column in table.columns):
            most = max(column.spare for column in table.columns)
            table = table._only([column.spare != most for column in table.columns])
        return table

    def width(self) -> int:
        """Characters that the terminal table takes without breaking a cell (headings break in two)."""
        least = [_WORDS if index and not column.number else 0 for index, column in enumerate(self.columns)]
        lines = (_in_two_lines(column.label).split("\n") for column in self.columns)
        headings = [max(few, *map(len, parts)) for few, parts in zip(least, lines, strict=True)]
        cells = [[len(row.cells[index].text) for row in self.rows] for index in range(len(self.columns))]
        return sum(max([heading, *column]) for heading, column in zip(headings, cells, strict=True)) + 2 * (len(self.columns) - 1)

    def _only(self, kept: list[bool]) -> Table:
        def choose(parts: tuple) -> tuple:
            return tuple(part for part, keep in zip(parts, kept, strict=True) if keep)

        rows = tuple(Row(choose(row.cells), row.kind) for row in self.rows)
        return Table(self.name, self.caption, choose(self.columns), rows, self.notes)


def _in_two_lines(label: str) -> str:
    """A heading broken at the space that leaves the shortest lines."""
    places = [place for place, letter in enumerate(label) if letter == " "]
    if not places:
        return label
    best = min(places, key=lambda place: max(place, len(label) - place - 1))
    return f"{label[:best]}\n{label[best + 1 :]}"


def as_text(thing: Any) -> str:
    """What rich prints of a thing, without colour: its repr where there is neither rich nor a notebook."""
    from rich.console import Console

    console = Console(color_system=None, force_jupyter=False, highlight=False)
    with console.capture() as capture:
        console.print(thing)
    return capture.get().rstrip("\n")


def to_rich(table: Table, width: int | None = None) -> RichTable:
    """The table for a terminal of `width` characters (None: as wide as it needs); readable without colour."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable
    from rich.text import Text

    table = table.in_terminal(width)
    narrow = width is not None and table.width() > width  # then names break as well, and numbers never do
    shown = RichTable(
        title=escape(table.caption),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 0, 0, 1),
    )
    for index, column in enumerate(table.columns):
        words = not column.number and (index > 0 or narrow)
        shown.add_column(
            escape(_in_two_lines(column.label)),
            justify="right" if column.number else "left",
            overflow="fold",
            no_wrap=not words,
            min_width=_WORDS if words else None,
        )
    floors = [row.kind == "floor" for row in table.rows]
    for index, row in enumerate(table.rows):
        style = {"floor": "dim", "missing": "dim"}.get(row.kind, "")
        last_before_floors = index + 1 < len(floors) and floors[index + 1] and not floors[index]
        shown.add_row(*(Text(cell.text, style=_STYLES[cell.tone]) for cell in row.cells), style=style, end_section=last_before_floors)
    return shown
