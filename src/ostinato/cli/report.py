"""`ostinato report`: the table and the page of a study, from what the store holds now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ostinato.cli.common import Json, Size, StorePath, StudySource, print_json


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def report(
        study: StudySource,
        size: Size = None,
        out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where the page goes (default: the store).")] = None,
        held_out: Annotated[bool, typer.Option("--held-out", help="Show the held-out part's table too; the study's log says so.")] = False,
        store: StorePath = None,
        as_json: Json = False,
    ) -> None:
        """Write the report page of a study, finished or half done, and show its table; of a replay, write its page."""
        from ostinato.api import Study, report_replay
        from ostinato.errors import StudyError
        from ostinato.study.replays import is_replay

        if is_replay(study):
            if size is not None or held_out:
                raise StudyError("--size" if size else "--held-out", "a replay has one table and no sizes", f"ostinato report {study}")
            path = report_replay(study, out, store)
            if as_json:
                print_json({"report": str(path)})
            else:
                typer.echo(f"report: {path}")
            return
        loaded = Study.load(study, size=size, store=store)
        results, page = loaded.results(), loaded.report(out)
        hidden = loaded.results(part="held_out") if held_out else None
        if as_json:
            print_json({"results": results.rows(), "report": str(page)} | ({"held_out": hidden.rows()} if hidden else {}))
            return
        from rich.console import Console

        console = Console(highlight=False)
        console.print(results)
        if hidden:
            console.print(hidden)
        console.print(f"report: {page}", soft_wrap=True)
