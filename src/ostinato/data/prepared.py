"""Text that is ready for training: token streams on disk, memory-mapped, with a manifest that says what they are and how they came about.

A folder holds, for each part, `<part>.tokens` (little-endian uint16, or uint32 beyond 65,536 entries; every document begins with BOS) and
`<part>.starts` (int64: where each document begins, and the end), `<part>.digests` (uint64: the first 64 bits of each document's
sha256), `token_bytes` (int32 [V]), `tokenizer.json` and `manifest.json`, which has the size and the sha256 of each of these.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ostinato.data.vocabulary import Vocabulary
from ostinato.errors import DataError
from ostinato.files import sha256, write_atomic
from ostinato.study.points import PARTS
from ostinato.study.records import Data

MANIFEST = "manifest.json"
SMALL = 64 << 20  # bytes: smaller files are checked against their sha256 at every opening, larger ones when their times have changed


@dataclass(frozen=True)
class Prepared:
    """The prepared text of one study's `data`, opened from `path`. Parts are train, validation and held_out.

    `fingerprint` follows from the tokens, the tokenizer and what of `data` shapes training (packing, buffer, document mask, share);
    `text_fingerprint` from the tokens and the tokenizer alone: targets of equal text_fingerprint are the same targets.
    """

    path: Path
    manifest: dict[str, Any]
    data: Data
    cache: Path

    @property
    def vocab(self) -> int:
        return int(self.manifest["vocab"])

    @property
    def bos(self) -> int:
        return int(self.manifest["bos"])

    @property
    def words(self) -> int | None:
        """Words of the training part: runs of characters that are not white space. None for a share of it: they were not counted apart."""
        return int(self.manifest["parts"]["train"]["words"]) if self.data.training_share == 1 else None

    @property
    def sizes(self) -> dict[str, int]:
        """Tokens of every part."""
        return {part: int(about["tokens"]) for part, about in self.manifest["parts"].items()}

    @property
    def text_fingerprint(self) -> str:
        return str(self.manifest["text_fingerprint"])

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the tokens and of how they are put into rows (see above)."""
        shapes = [self.text_fingerprint, self.data.packing, self.data.document_mask]
        if self.data.packing == "best-fit":
            shapes.append(self.data.buffer)
        if self.data.training_share != 1:
            shapes.append(["training_share", self.data.training_share])
        return hashlib.sha256(json.dumps(shapes).encode()).hexdigest()

    def tokens(self, part: str) -> np.ndarray:
        """The token stream of a part: read-only memmap, uint16 or uint32."""
        return np.memmap(self._file(part, "tokens"), np.dtype(self.manifest["dtype"]), "r")

    def doc_starts(self, part: str) -> np.ndarray:
        """Where each document begins in the stream, and the end of the last: int64 [documents + 1]."""
        return np.fromfile(self._file(part, "starts"), "<i8").astype(np.int64)

    def doc_digests(self, part: str) -> np.ndarray:
        """The first 64 bits of the sha256 of each document: uint64 [documents], an order that has nothing to do with the text."""
        return np.fromfile(self._file(part, "digests"), "<u8").astype(np.uint64)

    @cached_property
    def token_bytes(self) -> np.ndarray:
        """Bytes of text that each token stands for: int32 [V], 0 for special tokens."""
        return np.fromfile(self.path / "token_bytes", "<i4").astype(np.int32)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        text = (self.path / "tokenizer.json").read_text(encoding="utf-8")
        return Vocabulary(text, self.bos, bool(self.manifest["tokenizer"]["trained"]), dict(self.manifest["tokenizer"]["policies"]))

    def tokenizer(self) -> Any:
        """The `tokenizers.Tokenizer` itself."""
        return self.vocabulary.engine

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without BOS."""
        return self.vocabulary.encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids; special tokens vanish, bytes that are no character become U+FFFD."""
        return self.vocabulary.decode(ids)

    def _file(self, part: str, kind: str) -> Path:
        if part not in PARTS:
            raise DataError(f"no part {part!r}", f"the parts are {', '.join(PARTS)}", "name one of them")
        return self.path / f"{part}.{kind}"


def open_prepared(path: Path, data: Data, cache: Path) -> Prepared:
    """Open a prepared folder after checking that it is whole. Raises DataError naming the file that is not."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _broken(path, path / MANIFEST, f"cannot be read ({error})") from None
    check_files(path, manifest["files"])
    return Prepared(path, manifest, data, cache)


def checksums(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and sha256 of every file in a folder, by name."""
    sums = {}
    for file in sorted(folder.iterdir()):
        sums[file.name] = {"bytes": file.stat().st_size, "sha256": sha256(file)}
    return sums


def check_files(folder: Path, files: dict[str, dict[str, Any]]) -> None:
    """Compare files with their recorded size and sha256. Raises DataError naming the one that differs.

    A large file that was found whole before is not read again while its size and times are what they were.
    """
    memory = folder / ".checked"
    known = {}
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(memory.read_text())
    checked = dict(known)
    for name, expected in files.items():
        file = folder / name
        try:
            stat = file.stat()
        except OSError:
            raise _broken(folder, file, "is missing") from None
        if stat.st_size != expected["bytes"]:
            raise _broken(folder, file, f"has {stat.st_size:,} bytes, not {expected['bytes']:,}")
        times = [stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
        if stat.st_size > SMALL and known.get(name) == times:
            continue
        if sha256(file) != expected["sha256"]:
            raise _broken(folder, file, "has been changed: its sha256 is not the one in the manifest")
        if stat.st_size > SMALL:
            checked[name] = times
    if checked != known:
        with contextlib.suppress(OSError):  # a cache that may only be read
            write_atomic(memory, json.dumps(checked))


def _broken(folder: Path, file: Path, what: str) -> DataError:
    return DataError(
        f"{file} {what}",
        "prepared text is as its manifest says, to the byte",
        f"rm -r {folder}   then give the same command again: it is prepared anew",
    )
