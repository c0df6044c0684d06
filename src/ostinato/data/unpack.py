"""Files by what their names end with: the kind of text in them, and what they are packed with; opened as a stream of plain bytes.

gzip, bzip2 and xz are the standard library's, zstd is pyarrow's, so that nothing more need be installed. A packed file is unpacked as it is
read, never to disk. Each of the four formats knows where it ends, so a file that was cut off is noticed when its last byte is asked for.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ostinato.errors import DataError

TEXT, JSONL, PARQUET, ARROW, TAR = (".txt", ".text"), (".jsonl", ".ndjson"), (".parquet",), (".arrow",), (".tar",)
MARKDOWN = (".md",)
PACKINGS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
_TARS = {".tgz": "gzip", ".tbz2": "bzip2", ".txz": "xz", ".tzst": "zstd"}
KINDS = {"text": TEXT, "JSONL": JSONL, "Parquet": PARQUET, "Arrow": ARROW, "tar": TAR, "Markdown": MARKDOWN}
_KIND_OF = {suffix: kind for kind, suffixes in KINDS.items() for suffix in suffixes}
_UNPACKABLE = ("text", "JSONL", "tar", "Markdown")
_BUFFER = 1 << 20
_PIECE = 1 << 18


def kind_of(name: str) -> tuple[str | None, str | None]:
    """(kind, packing) of a file by its name: ("JSONL", "zstd") for a.jsonl.zst. None for what is not known, or not packed."""
    rest, suffix = _cut(name.lower())
    if suffix in _TARS:
        return "tar", _TARS[suffix]
    packing = PACKINGS.get(suffix)
    kind = _KIND_OF.get(_cut(rest)[1] if packing else suffix)
    return (kind, packing) if not packing or kind in _UNPACKABLE else (None, packing)


def _cut(name: str) -> tuple[str, str]:
    rest, dot, end = name.rpartition(".")
    return (rest, f".{end}") if dot and rest else (name, "")


class Meter:
    """How far reading has come in a file: `share` from 0 to 1."""

    def __init__(self) -> None:
        self.start(None, 0)

    def start(self, raw: BinaryIO | None, size: int) -> None:
        """A file is begun; raw: what its bytes are read from, where they are streamed."""
        self.raw, self.size, self.known = raw, size, 0.0

    @property
    def share(self) -> float:
        """Of the file that is being read."""
        with contextlib.suppress(ValueError, OSError):  # just closed
            if self.raw is not None and self.size:
                return min(1.0, self.raw.tell() / self.size)
        return self.known


@contextlib.contextmanager
def opened(file: Path, packing: str | None, meter: Meter | None = None) -> Iterator[BinaryIO]:
    """The unpacked bytes of a file, as a buffered stream. Raises DataError, from within the block too, for a file that is not whole."""
    try:
        with open(file, "rb", buffering=_BUFFER) as raw:
            if meter:
                meter.start(raw, file.stat().st_size)
            yield _unpacked(raw, packing)
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if packing is None or getattr(error, "errno", None) is not None:
            raise
        raise DataError(
            f"{file} cannot be unpacked ({str(error).strip() or type(error).__name__})",
            f"a file packed with {packing} is whole, to its end mark",
            "fetch or write the file again: it was cut off, or its name ends with the wrong letters",
        ) from None


def _unpacked(raw: BinaryIO, packing: str | None) -> BinaryIO:
    if packing is None:
        return raw
    if packing == "gzip":
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), _BUFFER)
    if packing == "bzip2":
        return io.BufferedReader(bz2.BZ2File(raw), _BUFFER)
    if packing == "xz":
        return io.BufferedReader(lzma.LZMAFile(raw), _BUFFER)
    import pyarrow as pa

    return io.BufferedReader(pa.input_stream(raw, compression="zstd"), _BUFFER)


class Recoded(io.RawIOBase):
    """A stream in another encoding, as UTF-8. Raises UnicodeDecodeError."""

    def __init__(self, stream: BinaryIO, encoding: str):
        self.stream, self.decoder = stream, codecs.getincrementaldecoder(encoding)()
        self.rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        while not self.rest:
            piece = self.stream.read(_PIECE)
            self.rest = self.decoder.decode(piece, final=not piece).encode("utf-8", "surrogatepass")
            if not piece:
                break
        taken = self.rest[: len(buffer)]
        self.rest = self.rest[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)
