"""A file of runs as columns: CSV, TSV or Parquet, where every row begins, and which rows do not fit under the names.

A cell too many (12,582,912 without quotes) moves those after it under wrong names, and a quote that stays open takes in the rows after
it; both leave numbers that look right. Such a row is left out and named, such a quote refused.
"""

from __future__ import annotations

import csv
import io
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ostinato.errors import FitError

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")
A_ROW = 5
"""Numbers on one line of a cell that make it a row that a quote took in: every run has so many."""


@dataclass(frozen=True)
class FileOfRuns:
    """columns: cells by name, n each.  places: where each row begins, n.  notes: rows that are left out, and why."""

    columns: dict[str, list[Any]]
    places: list[str]
    notes: list[str] = field(default_factory=list)


def read_file(path: Path) -> FileOfRuns:
    """Read by suffix, in capitals or not. Raises FitError for a file that is no table."""
    if not path.is_file():
        raise FitError(f"{path} is a folder" if path.is_dir() else f"{path}: no such file",
                       "a table of runs is a CSV, TSV or Parquet file; anything else is a study",
                       "name a file in it" if path.is_dir() else "check the path; ostinato list names the studies")  # fmt: skip
    return _parquet(path) if path.suffix.lower() == ".parquet" else _text(path)


def number(value: Any) -> float | None:
    """A cell as a number; None where it is none."""
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def _parquet(path: Path) -> FileOfRuns:
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise FitError(f"{path}: {error}", "a Parquet file that can be read", "write it again") from None
    return FileOfRuns(table.to_pydict(), [f"row {at + 1}" for at in range(table.num_rows)])


def _text(path: Path) -> FileOfRuns:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FitError(f"{path} is not UTF-8 text", "a CSV file is text", "save it as UTF-8, or as Parquet") from None
    head = next(filter(str.strip, text.split("\n")), "")
    (_, names), *rows = _rows(path, text, max("\t;,", key=head.count)) or [(1, [])]
    if len(names) < 2 or len(set(names)) < len(names):
        raise FitError(f"{path}: its first line is {head[:80]!r}", "the first line names the columns, each once", "add that line")
    usual = statistics.mode([len(names), *(len(cells) for _, cells in rows)])  # above the names where every row ends with a delimiter
    found = FileOfRuns({name: [] for name in names}, [])
    for line, cells in rows:
        if len(cells) > max(usual, len(names)) or any(cells[len(names):]):
            found.notes.append(f"line {line} is left out: {len(cells)} cells under {len(names)} names")
            continue
        found.places.append(f"line {line}")
        for at, name in enumerate(names):
            found.columns[name].append(cells[at] if at < len(cells) else "")
    return found


def _rows(path: Path, text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """Every row that is not blank, and the line that it begins on."""
    reader, rows, begins = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True), [], 1
    try:
        for row in reader:
            if any(_took_in_rows(cell, delimiter) for cell in row):
                raise csv.Error(f"a quote that opens there closes on line {reader.line_num}, with rows between")
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append((begins, cells))
            begins = reader.line_num + 1
    except csv.Error as error:
        what = "a quote that opens there never closes" if "end of data" in str(error) else error
        raise FitError(f"{path}, line {begins}: {what}",
                       f"a quote that opens a cell closes at its end, and a cell has at most {csv.field_size_limit():,} characters",
                       "correct that line, or write the table as Parquet") from None  # fmt: skip
    return rows


def _took_in_rows(cell: str, delimiter: str) -> bool:
    return any(sum(number(part) is not None for part in line.split(delimiter)) >= A_ROW for line in cell.split("\n")[1:])
