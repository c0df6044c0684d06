"""Documents out of one column of a Parquet or an Arrow file, a few hundred rows at a time.

Files are read, not mapped: one that is cut short while it is mapped ends the process with a bus error instead of an error that can be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ostinato.data.encodings import Utf8, is_utf8_name
from ostinato.data.readers import Reading, no_field
from ostinato.errors import DataError

_ROWS = 256
_BUFFER = 1 << 20


def parquet(file: Path, how: Reading) -> Iterator[bytes]:
    """The rows of a Parquet file. Raises DataError for one that is not whole, naming the row at which it is not."""
    size = file.stat().st_size  # what cannot be found or opened is told by the caller; what follows is about the content
    how.meter.start(None, size)
    row = 0
    try:
        with pq.ParquetFile(file, buffer_size=_BUFFER) as table:
            plain = _text_type(file, table.schema_arrow, how.field)
            fix, total = Utf8(file, how.counts, forgive=is_utf8_name(how.encoding), recodes=False), max(1, table.metadata.num_rows)
            for batch in table.iter_batches(batch_size=_ROWS, columns=[how.field]):
                yield from _values(_bytes(batch.column(0), plain), row, fix, how)
                row += batch.num_rows
                how.meter.known = row / total
            fix.end()
    except (pa.ArrowException, OSError) as error:
        raise _not_whole(file, row, error, "a Parquet file is complete: it ends with its table of contents") from None


def arrow(file: Path, how: Reading) -> Iterator[bytes]:
    """The rows of an Arrow file, in the stream or in the file format. Raises DataError for one that is not whole."""
    how.meter.start(None, file.stat().st_size)
    row = 0
    try:
        with pa.OSFile(str(file)) as source:
            batches = _batches(source)
            plain = _text_type(file, next(batches), how.field)
            fix = Utf8(file, how.counts, forgive=is_utf8_name(how.encoding), recodes=False)
            for batch in batches:
                for start in range(0, batch.num_rows, _ROWS):
                    piece = batch.slice(start, _ROWS)
                    column = _bytes(piece.column(how.field), plain)
                    column.validate(full=True)  # Arrow has no checksums, and what is read here would be read from anywhere
                    yield from _values(column, row, fix, how)
                    row += piece.num_rows
                how.meter.known = source.tell() / max(1, source.size())
            fix.end()
    except (pa.ArrowException, OSError) as error:
        raise _not_whole(file, row, error, "an Arrow file is complete, to its end mark") from None


def _not_whole(file: Path, row: int, error: Exception, rule: str) -> DataError:
    what = f"{file}, from row {row + 1}: not whole ({str(error).splitlines()[0][:200]})"
    return DataError(what, rule, "fetch or write the file again: it was probably cut off")


def _batches(source: pa.OSFile) -> Iterator[Any]:
    """The schema, then every batch."""
    if source.size() >= 6 and source.read(6) == b"ARROW1":
        source.seek(0)
        table = pa.ipc.open_file(source)
        yield table.schema
        for number in range(table.num_record_batches):
            yield table.get_batch(number)
        return
    source.seek(0)
    stream = pa.ipc.open_stream(source)
    yield stream.schema
    yield from stream
    end = source.size()  # a stream that was cut between two batches reads like a whole one
    if end < 8 or source.read_at(8, end - 8) != b"\xff\xff\xff\xff\0\0\0\0":
        raise pa.ArrowInvalid("it has no end mark")


def _text_type(file: Path, schema: pa.Schema, field: str) -> pa.DataType:
    """The type of the column, of its values where it is a dictionary. Raises DataError when there is none, or it holds no text."""
    if schema.names.count(field) != 1:
        if field in schema.names:
            raise DataError(
                f"{file} has {schema.names.count(field)} columns {field!r}", "each column has a name of its own", "write it again"
            )
        raise no_field(str(file), field, schema.names)
    kind = schema.field(field).type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not _is_text(plain):
        texts = [name for name in schema.names if _is_text(schema.field(name).type)]
        raise DataError(
            f"{file}: {field!r} holds {kind}, not text",
            f"the columns are {', '.join(schema.names)}",
            f"field: {texts[0]}"
            if len(texts) == 1
            else f"set `field` to the one of {', '.join(texts)} that holds the text"
            if texts
            else "write it again with the text as a column of strings",
        )
    return plain


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _bytes(column: pa.Array, plain: pa.DataType) -> pa.Array:
    """A column of text as one of bytes: what is no UTF-8 is told later, with its row."""
    if pa.types.is_dictionary(column.type):
        column.validate(full=True)
    return column.cast(plain).cast(pa.large_binary() if pa.types.is_large_string(plain) else pa.binary())


def _values(column: pa.Array, row: int, fix: Utf8, how: Reading) -> Iterator[bytes]:
    for number, raw in enumerate(column.to_pylist()):
        if raw is None:
            how.counts["missing"] += 1
        else:
            yield fix(raw, lambda _, number=number: f"row {row + number + 1}")
