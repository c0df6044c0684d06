"""Holding the folder of a run: one process at a time, and in it one thread, which may ask again."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from ostinato.files import lock

_held: dict[tuple[int, str], tuple[int, int]] = {}  # (process, lock file) -> (thread that holds it, depth)


@contextlib.contextmanager
def held(file: Path, wait: float | None = 2.0, holder: str = "") -> Iterator[None]:
    """Hold the lock `file`; the thread that holds it may ask again. Raises InUse when another process has it for `wait` seconds."""
    me = threading.get_ident()
    key = (os.getpid(), str(file.absolute()))
    owner, depth = _held.get(key, (me, 0))
    if depth and owner == me:
        _held[key] = (me, depth + 1)
        try:
            yield
        finally:
            _held[key] = (me, depth)
        return
    with lock(file, wait, holder):
        _held[key] = (me, 1)
        try:
            yield
        finally:
            del _held[key]


def in_use(file: Path) -> bool:
    """Whether a process holds the lock `file` now."""
    try:
        with open(file) as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
