"""`ostinato run`: train and measure whatever of a study is still due, then show the table and write the page."""

from __future__ import annotations

from typing import Annotated

import typer

from ostinato.cli.common import Arms, Json, Size, StorePath, StudySource, named, print_json


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def run(
        study: StudySource,
        size: Size = None,
        arm: Arms = None,
        seed: Annotated[list[int] | None, typer.Option("--seed", metavar="N", help="Only this seed; may be repeated.")] = None,
        jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Runs at a time (default: as the study ends first).")] = None,
        threads: Annotated[
            int | None, typer.Option("--threads", min=1, metavar="N", help="CPU threads of a run (default: as the study ends first).")
        ] = None,
        device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
        compiled: Annotated[
            bool | None, typer.Option("--compile/--no-compile", help="Run models through torch.compile (default: where it pays).")
        ] = None,
        track: Annotated[
            list[str] | None,
            typer.Option("--track", metavar="NAME", help="Also draw curves in wandb or trackio; may be repeated (or set OSTINATO_TRACK)."),
        ] = None,
        store: StorePath = None,
        as_json: Json = False,
    ) -> None:
        """Train and measure every arm and seed that is still due, and write the report. After a stop the same command goes on."""
        from rich.console import Console

        from ostinato.api import Study

        loaded = Study.load(study, size=size, store=store)
        console = Console(stderr=as_json, highlight=False)
        if why := loaded.unregistered():
            first = f"ostinato register {named(study, size)}"
            console.print(f"! {why}: these runs come before that. First: {first}", markup=False, soft_wrap=True)
        outcome = loaded.run(arms=arm, seeds=seed, jobs=jobs, threads=threads, device=device, compiled=compiled, track=track or None,
                             console=console)  # fmt: skip
        if outcome.interrupted:
            raise typer.Exit(130)
        results = loaded.results()
        page = loaded.report()
        if as_json:
            print_json({"results": results.rows(), "report": str(page), "failed": outcome.failed})
        else:
            console = Console(highlight=False)
            console.print(results)
            console.print(f"report: {page}", soft_wrap=True)
            if loaded.record.predictions:
                console.print(f"next: ostinato judge {named(study, size)}", markup=False, soft_wrap=True)
        if outcome.failed:
            raise typer.Exit(1)
