"""`ostinato list`: the shipped studies and the corpora that have a name, or the runs in the store."""

from __future__ import annotations

from typing import Annotated

import typer

from ostinato.cli.common import Json, StorePath, print_json


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command("list")
    def list_(
        runs: Annotated[bool, typer.Option("--runs", help="List the runs in the store instead.")] = False,
        store: StorePath = None,
        as_json: Json = False,
    ) -> None:
        """List the shipped studies and the corpora by name, or with --runs the runs in the store."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        from ostinato import api

        rows = api.list_runs(store=store) if runs else api.list_studies()
        if as_json:
            print_json(rows)
            return
        if not rows:
            typer.echo("no runs yet: ostinato run quickstart")
            return
        table = Table(*rows[0], box=None)
        for row in rows:
            table.add_row(*[Text("" if value is None else str(value)) for value in row.values()])
        console = Console(highlight=False)
        console.print(table)
        if not runs:
            console.print(Text(f"\ncorpora by name: {', '.join(api.corpora())}"), soft_wrap=True)
