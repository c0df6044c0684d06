"""Arguments that several verbs share, said once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

StudySource = Annotated[str, typer.Argument(metavar="STUDY", help="A study file, or the name of a shipped study (see [bold]ostinato list[/]).")]
Size = Annotated[str | None, typer.Option("--size", metavar="NAME", help="A size of the study, such as paper or desk (default: its first).")]
StorePath = Annotated[
    Path | None,
    typer.Option("--store", envvar="OSTINATO_STORE", metavar="FOLDER", help="Where runs and results live (default: ./ostinato-runs)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of a table.")]
Arms = Annotated[
    list[str] | None,
    typer.Option("--arm", metavar="NAME", help="Only this arm; give it several times for several. Needed for contingent arms."),
]


def print_json(value: Any) -> None:
    """One JSON document on standard output, numbers exact."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))
