"""`ostinato generate`: let a trained run write, with a cache indexed by application."""

from __future__ import annotations

from typing import Annotated

import typer

from ostinato.cli.common import RunSource, StorePath


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def generate(
        run: RunSource,
        prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="Text to continue.")] = "",
        tokens: Annotated[int, typer.Option("--tokens", "-n", min=1, help="How many tokens to write.")] = 100,
        temperature: Annotated[float, typer.Option("--temperature", "-t", min=0.0, help="0 takes the likeliest token.")] = 0.8,
        seed: Annotated[int, typer.Option("--seed", help="Seed of the draws.")] = 0,
        store: StorePath = None,
    ) -> None:
        """Continue a prompt with the newest checkpoint of a run."""
        from ostinato import api

        typer.echo(api.generate(run, prompt, tokens=tokens, temperature=temperature, seed=seed, store=store))
