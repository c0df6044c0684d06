"""`ostinato calibrate`: what this machine does, measured once and kept, for the seconds of `plan` and the choices of `run`."""

from __future__ import annotations

from typing import Annotated

import typer

from ostinato.cli.common import Json, print_json


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def calibrate(
        device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
        compiled: Annotated[bool, typer.Option("--compile", help="Also what compiling takes and saves (minutes).")] = False,
        as_json: Json = False,
    ) -> None:
        """Measure this machine with training steps of small models (one to three minutes): plans then know seconds, runs use all cores."""
        from rich.console import Console

        from ostinato import api

        made = api.calibrate(device, compiled, console=Console(stderr=as_json, highlight=False))
        if as_json:
            print_json(made.record())
        else:
            typer.echo(str(made))
