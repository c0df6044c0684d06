"""Documents out of text, JSONL, Parquet, Arrow and tar files, one at a time: a file is never held in memory unless it is one document.

Every error names the file, the line or row, the rule, and what to do.
"""

from __future__ import annotations

import codecs
import contextlib
import difflib
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from dataclasses import field as default
from pathlib import Path
from typing import BinaryIO

from ostinato.data.encodings import Utf8, is_utf8, is_utf8_name
from ostinato.data.policies import BOM, clean, encoded
from ostinato.data.unpack import Meter, Recoded, kind_of, opened
from ostinato.errors import DataError

_PACKED = {
    b"\x1f\x8b": ("gzip", "let its name end with .gz, as .txt.gz or .jsonl.gz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "let its name end with .zst, as .txt.zst or .jsonl.zst"),
    b"\xfd7zXZ\x00": ("xz", "let its name end with .xz, as .txt.xz or .jsonl.xz"),
    b"BZh": ("bzip2", "let its name end with .bz2, as .txt.bz2 or .jsonl.bz2"),
    b"PK\x03\x04": ("zip", "unpack it, and name what was in it"),
    b"PAR1": ("Parquet", "let its name end with .parquet"),
    b"ARROW1": ("Arrow", "let its name end with .arrow"),
}
"""How files that are no text begin, and what to do. Read as text, they would become U+FFFD and noise."""
_CHUNK = 1 << 20
_START = 4096  # bytes that tell what a file is
_JSON = json.JSONDecoder(strict=False)  # control characters inside text are text


@dataclass
class Reading:
    """How files are read, and what was met on the way: policies in `counts`, members of tar files that hold no text in `left_out`."""

    field: str = "text"
    separator: str | None = None
    encoding: str | None = None
    join: int | None = None
    counts: Counter[str] = default(default_factory=Counter)
    left_out: Counter[str] = default(default_factory=Counter)
    meter: Meter = default(default_factory=Meter)


def documents(file: Path, how: Reading) -> Iterator[bytes]:
    """The documents of a file as UTF-8, after the policies; what these met is added to the reading's counts."""
    for text in joined(raw_rows(file, how), how.join):
        document = clean(text, how.counts)
        if document is not None:
            yield document


def joined(rows: Iterable[bytes], least: int | None) -> Iterator[bytes]:
    """Consecutive rows as lines of documents of at least so many bytes, the last perhaps shorter; as they are when `least` is None."""
    if least is None:
        yield from rows
        return
    lines, size = [], 0
    for row in rows:
        lines.append(row if row.endswith(b"\n") else row + b"\n")
        size += len(lines[-1])
        if size >= least:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)


def raw_rows(file: Path, how: Reading) -> Iterator[bytes]:
    """What a file holds as documents or as lines of them: UTF-8, before the other policies."""
    kind, packing = kind_of(file.name)
    try:
        if kind == "Parquet":
            from ostinato.data.columns import parquet

            yield from parquet(file, how)
        elif kind == "Arrow":
            from ostinato.data.columns import arrow

            yield from arrow(file, how)
        elif kind == "tar":
            from ostinato.data.tars import members

            yield from members(file, packing, how)
        else:
            yield from (_jsonl if kind == "JSONL" else _text)(file, packing, how)
    except OSError as error:
        raise DataError(
            f"{file} cannot be read: {error.strerror or error}", "every file of a corpus is readable", "check the path and its permissions"
        ) from None


@contextlib.contextmanager
def _stream(file: Path, packing: str | None, how: Reading) -> Iterator[tuple[BinaryIO, Utf8]]:
    """The bytes of a text file as UTF-8 may be read from them, and what makes them so."""
    named = how.encoding is not None and not is_utf8_name(how.encoding)
    recoded = named and not is_utf8(file, packing)
    with opened(file, packing, how.meter) as stream:
        fix = Utf8(file, how.counts, forgive=is_utf8_name(how.encoding))
        if not recoded:
            if packing is None:
                _refuse_other_files(file, stream.peek(_START)[:_START])
            yield stream, fix
        else:
            try:
                yield io.BufferedReader(Recoded(stream, how.encoding), _CHUNK), fix
            except UnicodeError as error:
                raise DataError(
                    f"{file} is neither UTF-8 nor {how.encoding} ({getattr(error, 'reason', error)})",
                    "a text file is in one encoding",
                    "name another encoding, or move this file elsewhere",
                ) from None
        fix.end()


def _text(file: Path, packing: str | None, how: Reading) -> Iterator[bytes]:
    with _stream(file, packing, how) as (stream, fix):
        lines = 1
        for piece in between(stream, how.separator):
            yield fix(piece, lambda at, piece=piece, lines=lines: f"line {lines + piece.count(10, 0, at)}")
            lines += piece.count(b"\n") + (how.separator or "").count("\n")


def between(stream: BinaryIO, separator: str | None) -> Iterator[bytes]:
    """What lies between separators; a stream that ends with one does not end with an empty document, an empty stream is one."""
    if separator is None:
        yield stream.read()
        return
    mark, rest, any_yet = separator.encode(), b"", False
    while chunk := stream.read(max(_CHUNK, len(rest))):  # so that a long document is not copied again for every chunk
        *whole, rest = (rest + chunk).split(mark)
        yield from whole
        any_yet = any_yet or bool(whole)
    if rest or not any_yet:
        yield rest


def _refuse_other_files(file: Path, start: bytes) -> None:
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(
            f"{file} begins with the mark of UTF-16",
            "text files are UTF-8",
            f"encoding: utf-16, or iconv -f UTF-16 -t UTF-8 {file} > utf8.txt, and name that file",
        )
    kind, fix = next((told for mark, told in _PACKED.items() if start.startswith(mark)), ("", ""))
    if kind and not _is_utf8(start):
        raise DataError(f"{file} is a {kind} file, not text", "a file is what its name ends with: text, JSONL, Parquet, packed or not", fix)


def _is_utf8(start: bytes) -> bool:
    """Whether the start of a file reads as text; its last character may be cut off."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return b"\0" not in start


def _jsonl(file: Path, packing: str | None, how: Reading) -> Iterator[bytes]:
    with _stream(file, packing, how) as (stream, fix):
        yield from json_lines(stream, str(file), fix, how)


def json_lines(lines: Iterable[bytes], name: str, fix: Utf8, how: Reading) -> Iterator[bytes]:
    """The field of each line; blank lines are skipped."""
    for number, line in enumerate(lines, 1):
        if number == 1 and line.startswith(BOM):
            line = line[len(BOM) :]
        if line.isspace() or not line:
            continue
        where = f"line {number}"
        yield from json_value(fix(line, lambda _, where=where: where), f"{name}, {where}", how, whole=line.endswith(b"\n"))


def json_value(text: bytes, where: str, how: Reading, whole: bool = True, unit: str = "line") -> Iterator[bytes]:
    """The field of one JSON object in UTF-8; nothing for null. whole: its end is there."""
    try:
        row = _JSON.decode(text.decode())
    except (ValueError, RecursionError) as error:
        why = f"{error.msg.removesuffix(' at')} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise DataError(
            f"{where}: not JSON ({why})" if whole else f"{where}, the last: cut off ({why})",
            f"one JSON object a {unit}",
            f"mend or remove that {unit}" if whole else "fetch or write the file again: it stops in the middle of a line",
        ) from None
    if not isinstance(row, dict):
        raise DataError(f"{where}: {_called(row)}, not an object", f"one JSON object a {unit}", f'write {{"{how.field}": "…"}}')
    if how.field not in row:
        raise no_field(where, how.field, list(row))
    value = row[how.field]
    if value is None:
        how.counts["missing"] += 1
    elif isinstance(value, str):
        yield encoded(value, how.counts)
    else:
        texts = [name for name, other in row.items() if isinstance(other, str)]
        raise DataError(
            f"{where}: {how.field} is {_called(value)}, not text",
            f"{how.field} holds the text of a document" + (f"; text here is in {', '.join(texts[:8])}" if texts else ""),
            f"field: {texts[0]}" if len(texts) == 1 else "set `field` to the one that does",
        )


def _called(value: object) -> str:
    """A value of JSON that is no text, in words."""
    words = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object", type(None): "null"}
    return words.get(type(value), "a text")


def no_field(where: str, field: str, fields: list[str]) -> DataError:
    """The error for a row or a file without the field: those that it has, and the nearest."""
    near = difflib.get_close_matches(field, fields, 1, 0.5) or (fields if len(fields) == 1 else [])
    return DataError(
        f"{where}: no field {field!r}",
        f"it has {', '.join(map(repr, fields[:20])) or 'no fields'}{', …' if len(fields) > 20 else ''}",
        f"field: {near[0]}" if near else "set `field` in the study's data to the one that holds the text",
    )
