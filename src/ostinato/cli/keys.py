"""`ostinato keys`: every key of a study file, with its values, its default and a line of help."""

from __future__ import annotations

from typing import Annotated

import typer

from ostinato.cli.common import Json, print_json

WIDE = 120
"""Characters from which values and defaults have columns of their own; in a narrower terminal they begin what is said of the key."""


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def keys(
        search: Annotated[str, typer.Argument(metavar="WORDS", help="Only keys that contain this, such as recipe or window.")] = "",
        as_json: Json = False,
    ) -> None:
        """List every key that a study file may have."""
        from ostinato import api

        rows = api.keys(search)
        if as_json:
            print_json(rows)
            return
        from rich.console import Console
        from rich.table import Column, Table
        from rich.text import Text

        console = Console(highlight=False)
        key, said = Column("key", no_wrap=True, overflow="ignore"), Column("what it is", overflow="fold")
        if wide := console.width >= WIDE:
            table = Table(key, Column("values", max_width=24), Column("default", max_width=14), said, box=None)
        else:
            table = Table(key, said, box=None)
        for row in rows:
            default = row["default"] if row["default"] in ("", "required") else f"default {row['default']}"
            facts = "; ".join(filter(None, (row["values"], default)))
            cells = row.values() if wide else (row["key"], "\n".join(filter(None, (facts, row["help"]))))
            table.add_row(*map(Text, cells))
        console.print(table)
