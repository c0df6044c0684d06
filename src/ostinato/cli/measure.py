"""`ostinato measure`: everything but losses, of a run, of a study's runs, or of somebody else's model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ostinato.cli.common import Json, Size, StorePath, print_json

NAMES = "lens, skips, depths, states, heads, speed, pairs"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command()
    def measure(
        source: Annotated[
            str,
            typer.Argument(metavar="RUN|STUDY|HF-FOLDER", help="A run (see [bold]ostinato list --runs[/]) or STUDY/ARM/SEED; a study, for "
                           "all of its trained runs; or a Hugging Face folder with somebody else's model."),
        ],
        only: Annotated[
            list[str] | None, typer.Option("--only", metavar="NAME", help=f"Only this measure, and anew; may be repeated: {NAMES}.")
        ] = None,
        pairs: Annotated[str | None, typer.Option("--pairs", metavar="FOLDER", help="Minimal pairs: a folder, or blimp (the hub).")] = None,
        targets: Annotated[
            int | None, typer.Option("--targets", min=1, metavar="N", help="On about so many validation targets (default: the study's).")
        ] = None,
        tokens: Annotated[int | None, typer.Option("--tokens", metavar="N", help="Which checkpoint (default: the newest).")] = None,
        passes: Annotated[
            int | None, typer.Option("--passes", metavar="N", help="The same weights with N passes, where their number is free.")
        ] = None,
        device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
        study: Annotated[
            str | None, typer.Option("--study", metavar="STUDY", help="For a HF-FOLDER: score it on this study's validation documents.")
        ] = None,
        size: Size = None,
        trust_remote_code: Annotated[bool, typer.Option("--trust-remote-code", help="Run the code that a HF-FOLDER brings.")] = False,
        store: StorePath = None,
        as_json: Json = False,
    ) -> None:
        """Take the measures that are missing: lens, skipped applications, depths, states, heads, speed, minimal pairs."""
        from rich.console import Console

        from ostinato import api

        measured = api.take_measures(source, only, pairs, targets, tokens, device, study, size, store, trust_remote_code,
                               Console(stderr=as_json, highlight=False), passes)  # fmt: skip
        if as_json:
            print_json({"measures": measured.rows, "models": [one.record() for one in measured.models]})
        else:
            _show(measured.rows, measured.models, Console(highlight=False))
        if measured.failed:
            raise typer.Exit(1)


def _show(rows: list[dict[str, Any]], models: list[Any], console: Any) -> None:
    """One line a run, and one for each measure that has something to say."""
    from rich.text import Text

    from ostinato.report.numbers import listed, several

    runs: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["state"] != "untrained":
            runs.setdefault(row["run"], []).append(row)
    for found in runs.values():
        first = found[0]
        by_state = {state: [row["measure"] for row in found if row["state"] == state and row["measure"]]
                    for state in ("taken", "stored", "left out")}  # fmt: skip
        said = "; ".join(f"{state.replace('stored', 'there already')}: {listed(names)}" for state, names in by_state.items() if names)
        name = first["arm"] if first["seed"] is None else f"{first['arm']}, seed {first['seed']}"
        console.print(Text(f"{name} ({first['run']}): {said}" if said else f"{name} ({first['run']})"), soft_wrap=True)
        for row in found:
            if row["state"] in ("failed", "elsewhere"):
                console.print(Text(f"  {' '.join(filter(None, (row['measure'], row['state'])))}: {row['why']}"), soft_wrap=True)
    if untrained := [row for row in rows if row["state"] == "untrained"]:
        console.print(Text(f"{several(len(untrained), 'run')} without a checkpoint: not measured"), soft_wrap=True)
    for one in models:
        rate = "not estimable" if one.bits_per_byte is None else f"{one.bits_per_byte:.4f}"
        compared = one.pairing.words if one.pairing else one.problem
        said = f"{one.name}: {rate} bits per byte of {one.documents:,} validation documents; against the reference: {compared}"
        console.print(Text(said), soft_wrap=True)
