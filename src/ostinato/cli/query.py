"""`ostinato query`: SQL over everything the store holds."""

from __future__ import annotations

from typing import Annotated

import typer

from ostinato.cli.common import Json, StorePath, print_json


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def query(
        sql: Annotated[str, typer.Argument(metavar="SQL", help="Such as: select arm, seed, nats from results. Columns: describe results")],
        held_out: Annotated[bool, typer.Option("--held-out", help="Show the held-out part too; the log of every study says so.")] = False,
        store: StorePath = None,
        limit: Annotated[int, typer.Option("--limit", min=1, help="Rows shown in the table (JSON prints all).")] = 100,
        as_json: Json = False,
    ) -> None:
        """Ask the store in SQL (DuckDB).

        Views: runs, steps, gradients, losses, targets, results; measures, pairs, lens, skips, depths, heads, states.
        """
        from ostinato import api

        answer = api.query(sql, held_out=held_out, store=store)
        if as_json:
            print_json(answer.records())
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.measure import Measurement
        from rich.table import Table

        console = Console(highlight=False)
        cells = [["" if value is None else escape(str(value)) for value in row] for row in answer.rows[:limit]]
        table = Table(*map(escape, answer.columns))
        for row in cells:
            table.add_row(*row)
        if Measurement.get(console, console.options.update(max_width=10**6), table).maximum <= console.width:
            console.print(table)
        else:  # a row is a block: no name or number is cut
            for row in cells:
                block = Table.grid(padding=(0, 2, 0, 0))
                for name, cell in zip(answer.columns, row, strict=True):
                    block.add_row(escape(name), cell)
                console.print(block, "")
        if len(answer.rows) > limit:
            console.print(f"{limit} of {len(answer.rows)} rows; --limit {len(answer.rows)} shows all")
