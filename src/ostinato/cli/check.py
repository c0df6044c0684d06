"""`ostinato check`: are the stored losses of a run reproduced by its checkpoint?"""

from __future__ import annotations

from typing import Annotated

import typer

from ostinato.cli.common import Json, RunSource, StorePath, print_json


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def check(
        run: RunSource,
        tokens: Annotated[int | None, typer.Option("--tokens", metavar="N", help="Which checkpoint (default: the newest).")] = None,
        store: StorePath = None,
        as_json: Json = False,
    ) -> None:
        """Measure a run's checkpoint again, and say whether the stored losses are reproduced."""
        from ostinato import api

        outcome = api.check(run, tokens, store=store)
        if as_json:
            print_json(outcome.record())
        else:
            typer.echo(str(outcome))
        if not outcome.reproduced:
            raise typer.Exit(1)
