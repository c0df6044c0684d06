"""A fit as a person gets it: printed by rich, shown in a notebook, written as a page, and every number as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.errors import FitError
from ostinato.report.phi import lead, notes, section_of
from ostinato.report.phi_tables import residual_table, tables
from ostinato.report.section import Section
from ostinato.report.tables import as_text, to_rich
from ostinato.scaling.files_of_runs import SUFFIXES
from ostinato.scaling.findings import Findings, analyse
from ostinato.scaling.study import runs_table
from ostinato.scaling.table import RunTable, read_table
from ostinato.store import Store
from ostinato.study import load_study

if TYPE_CHECKING:
    from rich.console import RenderableType


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
    try:
        return FitSheet(analyse(table, held, base))
    except FitError as error:
        raise FitError("\n      ".join((error.what, *_of_the_table(table))), error.rule, error.fix) from None


def _of_the_table(table: RunTable) -> Iterator[str]:
    """What may be why a fit is refused: units that look wrong, rows that are not in it."""
    yield from (f"look again: {one}" for one in table.warnings)
    if table.notes:
        more = f"; and {len(table.notes) - 1} more" if len(table.notes) > 1 else ""
        yield f"left out or counted once: {table.notes[0]}{more}"


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
        """Write one page with the figures, and return its path. Raises FitError where it would replace the table, or what is no page."""
        from ostinato.report.fit_page import write_fit

        return write_fit(self.found, self.section, Path(path))

    def __repr__(self) -> str:
        return as_text(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[RenderableType]:
        from rich.padding import Padding
        from rich.text import Text

        yield Text(lead(self.found), style="bold")
        yield from (Text(note) for note in notes(self.found))
        for table in (*tables(self.found), residual_table(self.found)):
            yield Text("")
            yield to_rich(table, options.max_width)
            for note in table.notes:
                yield Padding(Text(note, style="dim"), (0, 0, 0, 1))

    def _repr_html_(self) -> str:
        from html import escape

        from ostinato.report.page import notebook

        lines = "".join(f'<p class="note">{escape(line)}</p>' for line in (lead(self.found), *notes(self.found)))
        return f'<div class="ostinato">{lines}</div>' + notebook(*tables(self.found))
