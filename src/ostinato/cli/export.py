"""`ostinato export`: a run as a folder that Hugging Face loads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ostinato.cli.common import RunSource, StorePath


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def export(
        run: RunSource,
        out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; a new one.")],
        tokens: Annotated[
            int | None, typer.Option("--tokens", metavar="N", help="The checkpoint after so many tokens (default: the newest).")
        ] = None,
        store: StorePath = None,
    ) -> None:
        """Write a run for Hugging Face: AutoModelForCausalLM.from_pretrained(DIR, trust_remote_code=True)."""
        from ostinato import api

        typer.echo(f"wrote {api.export_run(run, out, tokens, store)}")
