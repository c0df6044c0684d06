"""Text on its way to shards: a folder in the cache that holds what is done already, so that a preparation that was killed goes on.

`documents` has a record for each document in the order of the corpus: digest and size. `encoded` has another: its tokens, its words and
whether the bytes of its tokens add up; `stream` the tokens themselves. What counts of these files is what `state.json` says, which is
written after they have been flushed; whatever lies beyond is cut off when the work goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ostinato.files import write_atomic

DOCUMENT = np.dtype([("digest", ">u8", 2), ("bytes", "<i8")])
"""The first 128 bits of a document's sha256, and its bytes."""
ENCODED = np.dtype([("tokens", "<i8"), ("words", "<i8"), ("inexact", "u1")])
"""Tokens, BOS included; runs of bytes that are not white space; whether the bytes of the tokens are not those of the document."""
CHUNK = 1 << 16  # records read at a time
_VERSION = 1


class Work:
    """The folder; `state` is what is done. scan: None, or the documents and what they met; encode: documents, tokens and counts so far."""

    def __init__(self, path: Path):
        self.path = path
        self.state: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            self.state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        if self.state.get("version") != _VERSION:
            shutil.rmtree(path, ignore_errors=True)
            self.state = {"version": _VERSION, "scan": None, "encode": {"documents": 0, "tokens": 0, "counts": {}}}
        path.mkdir(parents=True, exist_ok=True)

    def file(self, name: str) -> Path:
        return self.path / name

    def save(self) -> None:
        write_atomic(self.path / "state.json", json.dumps(self.state))

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    @contextlib.contextmanager
    def writing(self, name: str, size: int) -> Iterator[BinaryIO]:
        """A file to be written on from `size` bytes; what lies beyond them is cut off."""
        path = self.file(name)
        path.touch()
        with open(path, "r+b") as handle:
            handle.truncate(size)
            handle.seek(size)
            yield handle

    def records(self, name: str, kind: np.dtype, first: int = 0) -> Iterator[np.ndarray]:
        """The records of `documents` or `encoded` from one on, a chunk at a time."""
        with open(self.file(name), "rb") as handle:
            handle.seek(first * kind.itemsize)
            while content := handle.read(CHUNK * kind.itemsize):
                yield np.frombuffer(content, kind)

    def digests_and_sizes(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """uint64 [n, 2] and int64 [n], a chunk at a time."""
        for records in self.records("documents", DOCUMENT):
            yield records["digest"].astype(np.uint64), records["bytes"].astype(np.int64)


def flush(*handles: BinaryIO) -> None:
    """Onto the disk."""
    for handle in handles:
        handle.flush()
        os.fsync(handle.fileno())
