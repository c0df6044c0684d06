"""`ostinato fit`: what one recurrence is worth, from a table of runs or a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ostinato.cli.common import Json, Size, StorePath, print_json


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def fit(
        source: Annotated[
            str,
            typer.Argument(metavar="TABLE|STUDY", help="A CSV, TSV or Parquet file with columns N_once, N_rec, r, D, loss; or a study."),
        ],
        column: Annotated[
            list[str] | None,
            typer.Option(
                "--column", metavar="NAME=COLUMN", help="A column of another name or unit: loss=val_loss, D=tokens_in_billions*1e9."
            ),
        ] = None,
        unit: Annotated[str, typer.Option("--unit", metavar="nats|bits", help="Of losses, a token.")] = "nats",
        level: Annotated[
            float | None, typer.Option("--E", metavar="LOSS", help="State E (nats a token) instead of fitting it.")
        ] = None,
        alpha: Annotated[float | None, typer.Option("--alpha", metavar="NUMBER", help="State alpha.")] = None,
        beta: Annotated[float | None, typer.Option("--beta", metavar="NUMBER", help="State beta.")] = None,
        base: Annotated[
            str | None, typer.Option("--base", metavar="TREATMENT", help="Which of the column `treatment` the others are compared with.")
        ] = None,
        size: Size = None,
        beside: Annotated[
            list[str] | None,
            typer.Option("--beside", metavar="NAME", help="Another size of the study, whose runs are a treatment; give it several times."),
        ] = None,
        out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also write a page with figures.")] = None,
        store: StorePath = None,
        as_json: Json = False,
    ) -> None:
        """Fit L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta, and say what a further pass is worth.

        phi 0: nothing. phi 1: as much as parameters of its own. Refuses, with what is missing, where the table does not identify phi.
        """
        from rich.console import Console

        from ostinato import api
        from ostinato.report.fit_page import page_path

        if out is not None:
            page_path(out, source)  # refused before anything is fitted
        held = {name: value for name, value in (("E", level), ("alpha", alpha), ("beta", beta)) if value is not None}
        with Console(stderr=True).status(f"fitting {source}: a second or two, more for thousands of runs"):
            sheet = api.fit(source, columns=column or (), unit=unit, held=held, base=base, size=size, beside=beside or (), store=store)
        page = sheet.write(out) if out is not None else None
        if as_json:
            print_json(sheet.record() | ({"page": str(page)} if page else {}))
            return
        console = Console(highlight=False)
        console.print(sheet)
        if page:
            console.print(f"page: {page}", soft_wrap=True)
