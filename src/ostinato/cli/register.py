"""`ostinato register`: a study's predictions sealed before its runs, and registrations verified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ostinato.cli.common import Json, Size, StorePath, print_json
from ostinato.errors import StudyError


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def register(
        study: Annotated[
            str | None, typer.Argument(metavar="STUDY", help="A study file, or a shipped study (see [bold]ostinato list[/]).")
        ] = None,
        size: Size = None,
        check: Annotated[
            Path | None,
            typer.Option("--check", metavar="FOLDER", help="Verify registrations instead: one, a folder of them, a study's, a store."),
        ] = None,
        store: StorePath = None,
        as_json: Json = False,
    ) -> None:
        """Seal a study with its predictions: text, time, versions, commit, which results existed already, and a fingerprint of it all.

        Exits with 0; --check with 1 when something is not as it was sealed, and with 2 when there is nothing.
        """
        if (study is None) == (check is None):
            raise StudyError("neither a study nor --check" if study is None else f"both study {study} and --check {check}",
                             "a study is registered, or registrations are verified",
                             "ostinato register STUDY, or ostinato register --check FOLDER")  # fmt: skip
        if check is not None:
            _check(check, as_json)
            return
        from ostinato.api import Study
        from ostinato.report.registration import registration_lines
        from ostinato.store.registrations import backwards

        loaded = Study.load(study, size=size, store=store)
        made = loaded.register()
        if as_json:
            print_json(made.record())
            return
        chain = loaded.store.study_folder(made.study.name).registrations()
        for line in registration_lines(made, study, backwards([(one.number, one.at) for one in chain])):
            typer.echo(line)


def _check(folder: Path, as_json: bool) -> None:
    from ostinato.api import check_registration
    from ostinato.report.registration import check_lines

    checked = check_registration(folder)
    if as_json:
        print_json(checked.record())
    else:
        for line in check_lines(checked):
            typer.echo(line)
    if checked.faults:
        raise typer.Exit(1)
