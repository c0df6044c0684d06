"""Which trackers a launch has: as asked for by name, less those whose package is not installed. None of them is imported here."""

from __future__ import annotations

import difflib
import importlib.util
import os
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from ostinato.errors import StudyError

TITLES = {"wandb": "Weights & Biases", "trackio": "trackio"}
VARIABLE = "OSTINATO_TRACK"


def asked(track: Iterable[str] | None) -> tuple[str, ...]:
    """The trackers of these names, each of which may be several with commas between; None: those of $OSTINATO_TRACK.

    Raises StudyError for a name that is none, with the near one.
    """
    words = [os.environ.get(VARIABLE, "")] if track is None else track
    names = dict.fromkeys(name.strip().lower() for word in words for name in word.split(",") if name.strip())
    for name in names:
        if name not in TITLES:
            near = difflib.get_close_matches(name, TITLES, 1, 0.5)
            fix = f"did you mean {near[0]}?" if near else f"--track {' or --track '.join(TITLES)}, or leave it out"
            if name == "tensorboard":
                fix = "leave it out"
            rule = f"a tracker is one of {', '.join(TITLES)}; TensorBoard needs no word, only to be installed"
            raise StudyError(f"tracker {name!r}", rule, fix)
    return tuple(names)


def installed(names: Iterable[str], told: Callable[[str], None]) -> tuple[str, ...]:
    """Those whose package is there; of each other one, one line is told."""
    found = []
    for name in names:
        if _has(name):
            found.append(name)
        else:
            told(f"{TITLES[name]}: not installed, so no curves there (pip install {name})")
    return tuple(found)


def places(names: Iterable[str], runs: Path) -> str:
    """Where the curves of the runs in the folder `runs` can be seen, in one line; "" for nowhere."""
    shown = [f"tensorboard --logdir {shlex.quote(os.path.relpath(runs))}"] if _has("tensorboard") else []
    return "; ".join([*shown, *(TITLES[name] for name in names)])


def _has(package: str) -> bool:
    """Whether it can be imported. A mere folder of that name, as W&B itself leaves one, is no package."""
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None
