"""`ostinato keys`: every key of a study file, with its values, its default and a line of help."""

from __future__ import annotations

from typing import Annotated

import typer

from ostinato.cli.common import Json, print_json


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

        narrow = Column("values", max_width=16), Column("default", max_width=14)
        table = Table(Column("key", overflow="fold"), *narrow, Column("what it is", overflow="fold"), box=None)
        for row in rows:
            table.add_row(*map(Text, row.values()))
        Console(highlight=False).print(table)
