"""`ostinato judge`: what became of every prediction, as it was sealed."""

from __future__ import annotations

import typer

from ostinato.cli.common import Json, Size, StorePath, StudySource, named, print_json


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def judge(study: StudySource, size: Size = None, store: StorePath = None, as_json: Json = False) -> None:
        """Give the verdict on every prediction, the numbers that gave it, by how much, and whether that is clear or within noise.

        A replay, as the shipped replays/loop2, judges a published table, and needs neither size nor store.
        Exits with 0; 10 when a prediction is killed; 20 when a run failed or is missing, a prediction is not estimable, or a
        registration was edited; 30 for both; 2 for a mistake. Held-out gains are shown from here on, and the study's log says when.
        """
        from ostinato.api import Study, judge_replay
        from ostinato.errors import StudyError
        from ostinato.study.replays import is_replay

        if is_replay(study):
            if size is not None:
                raise StudyError(f"--size {size}", "a replay has no sizes", f"ostinato judge {study}")
            sheet = judge_replay(study)
        else:
            sheet = Study.load(study, size=size, store=store).judge()
        if as_json:
            print_json(sheet.record())
        else:
            from rich.console import Console

            console = Console(highlight=False)
            console.print(sheet)
            console.print(f"next: ostinato report {named(study, size)}   (the page, with these verdicts)", markup=False, soft_wrap=True)
        raise typer.Exit(sheet.exit_status)
