"""`ostinato plan`: what every arm costs, and what is matched."""

from __future__ import annotations

from typing import Annotated

import typer

from ostinato.cli.common import Json, Size, StudySource, named, print_json


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def plan(
        study: StudySource,
        size: Size = None,
        full: Annotated[bool, typer.Option("--full", help="Of a grid of arms all costs and comparisons, too.")] = False,
        as_json: Json = False,
    ) -> None:
        """Show what every arm costs, which axes equal those of the arm it is compared with, and what could confound the comparison."""
        from dataclasses import replace

        from ostinato.api import Study

        loaded = Study.load(study, size=size)
        result = loaded.plan()
        if as_json:
            print_json(result.rows())
            return
        from rich.console import Console

        console = Console(highlight=False)
        console.print(replace(result, full=full))
        if why := loaded.unregistered():
            this = named(study, size)
            console.print(f"next: ostinato register {this}   ({why}), then ostinato run {this}", markup=False, soft_wrap=True)
