"""Arguments that several verbs share, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ostinato.files import as_json

StudySource = Annotated[str, typer.Argument(metavar="STUDY", help="A study file, or a shipped study (see [bold]ostinato list[/]).")]
RunSource = Annotated[
    str, typer.Argument(metavar="RUN", help="The beginning of a run's fingerprint (see [bold]ostinato list --runs[/]), or STUDY/ARM/SEED.")
]
Size = Annotated[str | None, typer.Option("--size", metavar="NAME", help="A size of the study, as paper or desk (default: its first).")]
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
    """One JSON document on standard output (`files.as_json`)."""
    typer.echo(as_json(value))


def named(study: str, size: str | None) -> str:
    """The study as the next command names it."""
    return f"{study} --size {size}" if size else study
