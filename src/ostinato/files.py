"""Files: one or a whole folder appears whole or not at all, one process at a time holds a lock; checksums, and strict JSON."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ostinato.errors import InUse


def default_cache() -> Path:
    """Where what can be made again is kept: $OSTINATO_CACHE, or ~/.cache/ostinato."""
    return Path(os.environ.get("OSTINATO_CACHE") or Path.home() / ".cache" / "ostinato")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, content: bytes | str, flush: bool = True) -> None:
    """Replace `path` by `content` in one step; a reader sees the old file or the new one, also after a crash.

    flush: wait until it is on the disk; without, a crash of the machine may lose the newest content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if flush:
        _sync(path.parent)


def sha256(path: Path) -> str:
    """The checksum of a file's content, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def as_json(content: Any) -> str:
    """Indented JSON: numbers exact, null for what is not a finite number (JSON has none), times and the like as text."""
    return json.dumps(_finite(content), indent=1, ensure_ascii=False, allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A scratch folder that becomes `path` when the block ends well and vanishes when it does not.

    An existing `path` is replaced only at that moment. Every file is flushed to disk before the rename.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield scratch
        for file in scratch.rglob("*"):
            _sync(file)
        os.chmod(scratch, 0o755)
        if path.exists():
            shutil.rmtree(path)
        os.replace(scratch, path)
        _sync(path.parent)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


@contextlib.contextmanager
def lock(path: Path, wait: float | None = None, holder: str = "") -> Iterator[None]:
    """Hold an exclusive lock on the file `path`; the system lets go of it when the process dies, however it dies.

    wait: seconds to wait for another holder (None waits as long as it takes). Raises InUse when time is up.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = None if wait is None else time.monotonic() + wait
    with open(path, "a+") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if deadline is not None and time.monotonic() >= deadline:
                    file.seek(0)
                    raise InUse(
                        f"{path.parent} is in use by {file.read().strip() or 'another process'}",
                        "one process at a time writes there",
                        "wait for it to finish, or stop it, then give the same command again",
                    ) from None
                time.sleep(0.1)
        file.truncate(0)
        file.write(holder or f"process {os.getpid()}")
        file.flush()
        yield
