"""`ostinato draw`: a picture of a schedule, in the terminal or as SVG."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from ostinato.cli.common import Arms, Size


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def draw(
        source: Annotated[str, typer.Argument(metavar="STUDY|SCHEDULE", help="A study, or a schedule such as '1..8 1..8:attn'.")],
        arm: Arms = None,
        layers: Annotated[
            int | None, typer.Option("--layers", "-n", min=1, help="With a schedule: layers there are (default: as it names).")
        ] = None,
        passes: Annotated[int | None, typer.Option("--passes", "-r", min=1, help="The value of {r}.")] = None,
        size: Size = None,
        svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Write an SVG instead (one arm).")] = None,
    ) -> None:
        """Draw a schedule: layers are columns, time runs downward, passes are told apart."""
        from ostinato import api
        from ostinato.errors import StudyError
        from ostinato.files import write_atomic

        if layers is None and source[:1] in [*"123456789(["] and not Path(source).exists():
            layers = _layers_named(source)
        if layers is not None:
            drawings = {source: api.draw_schedule(source, layers, passes)}
        else:
            drawings = api.Study.load(source, size=size).draw(arm)
        if svg is None:
            for name, drawing in drawings.items():
                typer.echo(f"{name}\n{drawing.text}\n")
            return
        if len(drawings) != 1:
            raise StudyError(f"{source} has {len(drawings)} arms", "an SVG shows one schedule", "name one with --arm")
        write_atomic(svg, next(iter(drawings.values())).svg)
        typer.echo(f"wrote {svg}")


def _layers_named(schedule: str) -> int:
    """The highest layer of a schedule; the length of a reuse map."""
    if schedule.startswith("["):
        return schedule.count(",") + 1
    return max((int(number) for number in re.findall(r"(?<![x\d])\d+", schedule)), default=1) or 1
