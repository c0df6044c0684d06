"""The log of training steps: one JSON object a line while a run goes on, one Parquet file when it is done.

A line is {step, tokens, loss, lr, grad_norm, seconds}: `step` counts from 1, `tokens` are those trained on so far, `loss` is nats per token
of the whole step (float64 sum over int64 count). A process killed while it appends leaves at most one torn last line, which readers skip.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.files import write_atomic
from ostinato.store.tables import read_parquet, torn, write_parquet

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = {"step": "int64", "tokens": "int64", "loss": "float64", "lr": "float64", "grad_norm": "float64", "seconds": "float64"}
_MEND = "delete it and give `ostinato run` again: the losses of the evaluation points do not depend on it"


def append_step(path: Path, record: dict[str, Any]) -> None:
    """Add one step to the log at `path` (steps.jsonl). Numbers keep every digit."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def read_steps(path: Path) -> list[dict[str, Any]]:
    """The steps in the log at `path`, [] when there is none. Raises StoreError for a line that is torn before the last one."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise torn(path, error, _MEND) from None
    steps = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            steps.append(json.loads(line))
        except ValueError as error:
            raise torn(path, f"line {number}: {error}", _MEND) from None
    return steps


def keep_steps(path: Path, last: int) -> None:
    """Drop what comes after step `last` (a resumed run trains those steps again), and a torn last line."""
    if path.exists():
        write_log(path, (step for step in read_steps(path) if step["step"] <= last))


def write_log(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Replace the log at `path` (steps.jsonl) by `records`, atomically."""
    write_atomic(path, "".join(json.dumps(record) + "\n" for record in records))


def steps_table(records: Iterable[dict[str, Any]]) -> pa.Table:
    """The records as columns; a column that a record lacks is null there, and columns beyond COLUMNS are kept."""
    import pyarrow as pa

    records = list(records)
    extra = sorted({key for record in records for key in record} - set(COLUMNS))
    columns = {name: pa.array([record.get(name) for record in records], kind) for name, kind in COLUMNS.items()}
    columns |= {key: pa.array([record.get(key) for record in records]) for key in extra}
    return pa.table(columns)


def write_steps(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write the finished log at `path` (steps.parquet)."""
    write_parquet(path, steps_table(records))


def read_finished(path: Path) -> pa.Table:
    """The finished log. Raises StoreError when it is torn."""
    return read_parquet(path, _MEND)
