"""A section of the page about one kind of measurement: each room of figures makes its own, and the page shows those that there are."""

from __future__ import annotations

from dataclasses import dataclass, field

from ostinato.report.tables import Table


@dataclass(frozen=True)
class Figure:
    """caption: what it is. note: how to read it. svg: inline."""

    caption: str
    note: str
    svg: str


@dataclass(frozen=True)
class Section:
    """id: of the page's anchor.  lead: one or two sentences that say what is seen.  notes: what else a reader should know.

    more: tables that are folded away under `more_title`, for whoever wants all of it.  leads: it stands before everything else.
    """

    id: str
    title: str
    lead: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = field(default=())
    more: tuple[Table, ...] = ()
    more_title: str = "All numbers"
    leads: bool = False
