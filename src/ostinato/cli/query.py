"""`ostinato query`: SQL over everything the store holds."""

from __future__ import annotations

from typing import Annotated

import typer

from ostinato.cli.common import Json, StorePath, print_json


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def query(
        sql: Annotated[str, typer.Argument(metavar="SQL", help="Such as: select arm, seed, nats from results where part = 'validation'")],
        store: StorePath = None,
        limit: Annotated[int, typer.Option("--limit", min=1, help="Rows shown in the table (JSON prints all).")] = 100,
        as_json: Json = False,
    ) -> None:
        """Ask the store in SQL (DuckDB). Views: runs, steps, losses, targets, results."""
        from ostinato import api

        names, rows = api.query(sql, store=store)
        if as_json:
            print_json([dict(zip(names, row, strict=True)) for row in rows])
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*[Text(name) for name in names])
        for row in rows[:limit]:
            table.add_row(*[Text("" if value is None else str(value)) for value in row])
        console = Console(highlight=False)
        console.print(table)
        if len(rows) > limit:
            console.print(f"{limit} of {len(rows)} rows; --limit {len(rows)} shows all")
