"""Making a cached folder once, whoever asks first: other processes wait for it, and nobody sees a part of it. What it is called."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ostinato.errors import StoreError
from ostinato.files import lock, new_folder


def key_of(given: Any) -> str:
    """The name of something cached: 32 hex digits that follow from all that it follows from (plain data)."""
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:32]


def once(path: Path, make: Callable[[Path], None], waiting: Callable[[], None] | None = None) -> None:
    """Unless the folder `path` exists, `make` it in a scratch folder that then becomes `path`, while holding its lock.

    waiting is called once when another process is at it. A scratch folder left by a process that was killed is removed.
    """
    if path.exists():
        return
    guard = path.with_name(f"{path.name}.lock")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock(guard, wait=0))
        except StoreError:
            if waiting:
                waiting()
            stack.enter_context(lock(guard))
        _make(path, make)


def _make(path: Path, make: Callable[[Path], None]) -> None:
    if path.exists():
        return
    for scratch in path.parent.glob(f".{path.name}.*"):
        shutil.rmtree(scratch, ignore_errors=True)
    with new_folder(path) as folder:
        make(folder)
