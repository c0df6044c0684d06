"""Seconds from a command to its answer, for every verb that needs no torch: the median of seven, each a process of its own.

    python benchmarks/startup.py [--quick] [--json FILE]

Beside it, as the peer, the seconds in which the interpreter with the same libraries does nothing but import typer, pydantic and rich.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from harness import Row, interleaved, main, medians

SECONDS = 0.5
STUDY = "quickstart"
VERBS = {
    "--help": ["--help"], "--version": ["--version"], "new": ["new", "study.yaml", "--force"], "keys": ["keys"], "list": ["list"],
    "list --runs": ["list", "--runs"], "plan": ["plan", STUDY], "plan loop2, paper size": ["plan", "loop2"],
    "plan ilr, paper size (73 arms)": ["plan", "ilr"], "plan hybrid, paper size": ["plan", "hybrid"], "draw": ["draw", STUDY],
    "query": ["query", "select * from runs"], "report": ["report", STUDY],
}  # fmt: skip
LIBRARIES = "the libraries alone"


def call(command: list[str], folder: Path) -> None:
    """One process to its end. Raises CalledProcessError when it fails."""
    subprocess.run(command, cwd=folder, env=os.environ | {"OSTINATO_CACHE": str(folder / "cache")}, capture_output=True, check=True)


def processor_seconds() -> float:
    """Of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(quick: bool = False) -> list[Row]:
    """A row a verb; in its notes the processor seconds, which what else runs disturbs less."""
    commands = {name: [sys.executable, "-m", "ostinato", *words] for name, words in VERBS.items()}
    commands[LIBRARIES] = [sys.executable, "-c", "import typer, pydantic, rich.console"]
    spent: dict[str, list[float]] = {name: [] for name in commands}

    def run(name: str) -> None:
        before = processor_seconds()
        call(commands[name], Path(folder))
        spent[name].append(processor_seconds() - before)

    with tempfile.TemporaryDirectory() as folder:
        seconds = medians(interleaved({name: partial(run, name) for name in commands}, 2 if quick else 7, 1))
    processor = medians(spent)
    return [
        Row(f"ostinato {name}", seconds[name], seconds[LIBRARIES], "s", seconds[name], SECONDS, at_most=True, peer_name=LIBRARIES,
            notes={"processor seconds": round(processor[name], 3)})
        for name in VERBS
    ]  # fmt: skip


if __name__ == "__main__":
    main(measure, __doc__)
