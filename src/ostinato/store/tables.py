"""Reading and writing the two kinds of file in a store: JSON for what a person may open, Parquet for arrays.

Every file is written whole (`ostinato.files`), so a torn one means that something else touched it: the error names the file and how to
mend it. Libraries of arrays are imported where a table is read or written: listing runs needs none.
"""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.errors import StoreError
from ostinato.files import as_json, write_atomic

if TYPE_CHECKING:
    import pyarrow as pa


def now() -> str:
    """The time in UTC, to the second, as ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def torn(path: Path, why: object, mend: str) -> StoreError:
    """The error for a file that is there and cannot be read."""
    return StoreError(f"{path} cannot be read: {why}", "every file of a store is whole and of the kind that its name says", mend)


def write_json(path: Path, content: Any, flush: bool = True) -> None:
    """Write `content` as JSON (`files.as_json`), atomically. flush: see `files.write_atomic`."""
    write_atomic(path, as_json(content) + "\n", flush)


def read_json(path: Path, mend: str, keys: Collection[str] = ()) -> dict[str, Any]:
    """The JSON object in `path`, which has `keys`. Raises StoreError, with `mend` as the next step, when it is torn.

    Raises FileNotFoundError when there is none.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise torn(path, error, mend) from None
    if not isinstance(content, dict):
        raise torn(path, f"it holds a {type(content).__name__}, not an object", mend)
    if missing := [key for key in keys if key not in content]:
        raise torn(path, f"it lacks {', '.join(map(repr, missing))}", mend)
    return content


def write_parquet(path: Path, table: pa.Table, metadata: dict[str, Any] | None = None) -> None:
    """Write a table atomically; `metadata` goes into the footer as JSON under the key `ostinato`."""
    import pyarrow.parquet as pq

    if metadata is not None:
        table = table.replace_schema_metadata({b"ostinato": json.dumps(metadata).encode()})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_atomic(path, buffer.getvalue())


def read_parquet(path: Path, mend: str) -> pa.Table:
    """The whole table. Raises StoreError when the file is torn; FileNotFoundError when it is not there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path).read()
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise torn(path, error, mend) from None


def read_columns(path: Path, mend: str) -> list[str]:
    """The names of the columns, without reading them. Raises as `read_parquet`."""
    return _schema(path, mend).names


def read_footer(path: Path, mend: str) -> dict[str, Any]:
    """The metadata that `write_parquet` put into the footer, without reading the columns. Raises as `read_parquet`."""
    try:
        return json.loads((_schema(path, mend).metadata or {})[b"ostinato"])
    except KeyError:
        raise torn(path, "its footer does not say what it holds", mend) from None
    except ValueError as error:
        raise torn(path, error, mend) from None


def _schema(path: Path, mend: str) -> pa.Schema:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise torn(path, error, mend) from None
