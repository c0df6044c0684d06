"""Documents out of text, JSONL and Parquet files, one at a time: a file is never held in memory unless it is one document.

Every error names the file, the line or row, the rule, and what to do.
"""

from __future__ import annotations

import codecs
import json
import mmap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ostinato.data.policies import BOM, clean, encoded, utf8
from ostinato.errors import DataError

TEXT, JSONL, PARQUET = (".txt", ".text"), (".jsonl", ".ndjson"), (".parquet",)
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"PAR1": "Parquet",
}
"""How files that are no text begin. Read as text, they would become U+FFFD and noise."""


def documents(file: Path, field: str, separator: str | None, counts: Counter[str]) -> Iterator[bytes]:
    """The documents of a file as UTF-8, after the policies; what these met is added to `counts`."""
    suffix = file.suffix.lower()
    try:
        if suffix in PARQUET:
            raw = _parquet(file, field, counts)
        elif suffix in JSONL:
            raw = _jsonl(file, field, counts)
        else:
            raw = _text(file, separator, counts)
        for text in raw:
            document = clean(text, counts)
            if document is not None:
                yield document
    except OSError as error:
        raise DataError(
            f"{file} cannot be read: {error.strerror or error}", "every file of a corpus is readable", "check the path and its permissions"
        ) from None


def _text(file: Path, separator: str | None, counts: Counter[str]) -> Iterator[bytes]:
    if file.stat().st_size == 0:
        yield b""
        return
    with open(file, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as view:
        if view[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise DataError(
                f"{file} begins with the mark of UTF-16",
                "text files are UTF-8",
                f"iconv -f UTF-16 -t UTF-8 {file} > utf8.txt, and name that file",
            )
        packed = next((kind for mark, kind in _PACKED.items() if view[: len(mark)] == mark), None)
        if packed and not _is_utf8(view[:4096]):
            raise DataError(
                f"{file} is a {packed} file, not text",
                "a file is UTF-8 text, JSONL or Parquet, as its name ends",
                "let its name end with .parquet" if packed == "Parquet" else "unpack it, and name what was in it",
            )
        if separator is None:
            yield utf8(view[:], counts)
            return
        mark = separator.encode()
        start = 0
        while (end := view.find(mark, start)) >= 0:
            yield utf8(view[start:end], counts)
            start = end + len(mark)
        if start < len(view):  # a file that ends with the separator does not end with an empty document
            yield utf8(view[start:], counts)


def _is_utf8(start: bytes) -> bool:
    """Whether the start of a file reads as text; its last character may be cut off."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return b"\0" not in start


def _jsonl(file: Path, field: str, counts: Counter[str]) -> Iterator[bytes]:
    with open(file, "rb") as handle:
        for number, line in enumerate(handle, 1):
            if number == 1 and line.startswith(BOM):
                line = line[len(BOM) :]
            if line.isspace() or not line:
                continue
            try:
                row = json.loads(utf8(line, counts).decode(), strict=False)
            except (ValueError, RecursionError) as error:
                whole = line.endswith(b"\n")
                raise DataError(
                    f"{file}, line {number}: not JSON ({error})" if whole else f"{file}, line {number}, the last: cut off ({error})",
                    "one JSON object a line",
                    "mend or remove that line" if whole else "fetch or write the file again: it stops in the middle of a line",
                ) from None
            if not isinstance(row, dict):
                raise DataError(
                    f"{file}, line {number}: a {type(row).__name__}, not an object", "one JSON object a line", f'write {{"{field}": "…"}}'
                )
            if field not in row:
                raise _no_field(f"{file}, line {number}", field, list(row))
            yield from _value(row[field], field, f"{file}, line {number}", counts)


def _value(value: Any, field: str, where: str, counts: Counter[str]) -> Iterator[bytes]:
    if value is None:
        counts["missing"] += 1
    elif isinstance(value, str):
        yield encoded(value, counts)
    else:
        raise DataError(
            f"{where}: {field} is a {type(value).__name__}, not text",
            f"{field} holds the text of a document",
            "set `field` to the one that does",
        )


def _no_field(where: str, field: str, fields: list[str]) -> DataError:
    return DataError(
        f"{where}: no field {field!r}",
        f"it has {', '.join(map(repr, fields)) or 'no fields'}",
        "set `field` in the study's data to the one that holds the text",
    )


def _parquet(file: Path, field: str, counts: Counter[str]) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file.stat()  # what cannot be found or opened is told by `documents`; what follows is about the content
    row = 0
    try:
        with pq.ParquetFile(file, memory_map=True) as table:
            if field not in table.schema_arrow.names:
                raise _no_field(str(file), field, table.schema_arrow.names)
            kind = table.schema_arrow.field(field).type
            plain = kind.value_type if pa.types.is_dictionary(kind) else kind
            if not (pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_string_view(plain)):
                raise DataError(
                    f"{file}: {field!r} holds {kind}, not text",
                    f"the columns are {', '.join(table.schema_arrow.names)}",
                    "set `field` to the one that holds the text",
                )
            for batch in table.iter_batches(batch_size=256, columns=[field]):
                column = batch.column(0).cast(plain).cast(pa.large_binary() if pa.types.is_large_string(plain) else pa.binary())
                for value in column:
                    raw = value.as_py()
                    if raw is None:
                        counts["missing"] += 1
                    else:
                        yield utf8(raw, counts)
                    row += 1
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{file}, from row {row + 1}: not whole ({str(error).splitlines()[0][:200]})",
            "a Parquet file is complete: it ends with its table of contents",
            "fetch or write the file again: it was probably cut off",
        ) from None
