"""`ostinato new`: a commented study file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def new(
        path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it, such as my-study.yaml.")],
        force: Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")] = False,
    ) -> None:
        """Write a commented study file to start from."""
        from ostinato import api

        api.new(path, force)
        typer.echo(f"wrote {path}\nnext: ostinato plan {path}")
