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
        from ostinato.errors import StudyError
        from ostinato.files import write_atomic
        from ostinato.study import template

        if path.is_dir():
            raise StudyError(f"{path} is a folder", "a study is one YAML file", f"ostinato new {path / 'my-study.yaml'}")
        if path.exists() and not force:
            raise StudyError(f"{path} exists already", "a study is never overwritten unasked", "choose another name, or add --force")
        write_atomic(path, template())
        typer.echo(f"wrote {path}\nnext: ostinato plan {path}")
