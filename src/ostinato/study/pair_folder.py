"""Where minimal pairs are: named in a study or on the command line, and checked before anything is trained or measured."""

from __future__ import annotations

from pathlib import Path

from ostinato.errors import StudyError
from ostinato.study.derive import expanded

BLIMP = "blimp"


def pair_folder(given: str, base: Path | None = None) -> str:
    """`blimp`, or the absolute path of the folder, relative to `base` (default: here). Raises StudyError when it is not there."""
    if given.strip().lower() == BLIMP:
        return BLIMP
    path = ((base or Path()) / expanded(given)).absolute()
    if not path.is_dir():
        raise StudyError(f"{path} is {'a file' if path.exists() else 'not there'}",
                         f"pairs are {BLIMP}, or a folder of JSONL files with sentence_good and sentence_bad",
                         f"correct the path, or pairs: {BLIMP}")  # fmt: skip
    return str(path)
