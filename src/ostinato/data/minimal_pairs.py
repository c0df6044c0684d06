"""Minimal pairs: two sentences that differ in one respect; a model should find the good one likelier (BLiMP: Warstadt et al., 2020).

A folder of JSONL or Parquet files with `sentence_good` and `sentence_bad`, packed or not, in subfolders or not. Where the other keys are
absent, the paradigm (UID) is the file's name, the term is the paradigm, the field is the name of the file's folder. `blimp` is the data set
of the hub, 67 paradigms of 1,000 pairs, from the cache of huggingface_hub or fetched into it.

BLiMP spells one field in two ways, syntax_semantics and syntax/semantics (principle_A_reconstruction): a slash becomes an underscore.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ostinato.data.network import unreachable
from ostinato.data.policies import BOM, encoded
from ostinato.data.unpack import kind_of, opened
from ostinato.errors import DataError
from ostinato.study.pair_folder import BLIMP

HUB, PARADIGMS = "nyu-mll/blimp", 67  # blimp
GOOD, BAD = "sentence_good", "sentence_bad"
_RULE = f"a line is an object with {GOOD} and {BAD}, and perhaps UID, field and linguistics_term"

Row = tuple[str, str, str, str, str]  # paradigm, field, term, good, bad


@dataclass(frozen=True, eq=False)
class MinimalPairs:
    """N pairs, by paradigm; within one in the order of the files.  pair: the place within the paradigm, from 0.

    id: sha256 of all of them, the same whatever the files are called and packed with.  source: where they were read, in words.
    """

    source: str
    paradigm: tuple[str, ...]
    field: tuple[str, ...]
    term: tuple[str, ...]
    good: tuple[str, ...]
    bad: tuple[str, ...]
    pair: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.pair)

    @cached_property
    def id(self) -> str:
        columns = (self.paradigm, self.field, self.term, self.good, self.bad)
        return hashlib.sha256(json.dumps(list(zip(*columns, strict=True))).encode()).hexdigest()

    @property
    def identical(self) -> list[bool]:
        """Whether both sentences of a pair are the same text, so that no model can tell them apart: such a pair counts for nothing."""
        return [good == bad for good, bad in zip(self.good, self.bad, strict=True)]


def read_pairs(where: str | Path) -> MinimalPairs:
    """The pairs of a folder or one file, or of `blimp`.  Raises DataError naming the file and the line that cannot be read."""
    if str(where) == BLIMP:
        return _blimp()
    place = Path(where).expanduser()
    if not (files := _files(place)):
        what = f"{place} {'has no file of pairs' if place.is_dir() else 'is no file of pairs' if place.exists() else 'does not exist'}"
        raise DataError(what, "pairs are in .jsonl or .parquet files, packed or not", "name their folder, or: blimp")
    rows = [row for file in files for row in _reader(file)(file)]
    if not rows:
        raise DataError(f"{place} holds no pairs", _RULE, "fetch or write its files again")
    return _gathered(rows, str(where))


def read_once(where: str | Path) -> MinimalPairs:
    """`read_pairs`, remembered until other pairs are asked for, or a file of the folder has changed."""
    files = [] if str(where) == BLIMP else _files(where)
    return _remembered(str(where), tuple((file, file.stat().st_size, file.stat().st_mtime_ns) for file in files))


@lru_cache(maxsize=1)
def _remembered(where: str, files: tuple[tuple[Path, int, int], ...]) -> MinimalPairs:
    return read_pairs(where)


def _files(where: str | Path) -> list[Path]:
    place = Path(where).expanduser()
    return sorted(file for file in (place.rglob("*") if place.is_dir() else [place]) if _reader(file) and file.is_file())


def _gathered(rows: list[Row], source: str) -> MinimalPairs:
    rows = sorted(rows, key=lambda row: row[0])
    seen: Counter[str] = Counter()
    pair = []
    for row in rows:
        pair.append(seen[row[0]])
        seen[row[0]] += 1
    paradigm, field, term, good, bad = zip(*rows, strict=True)
    return MinimalPairs(source, paradigm, field, term, good, bad, tuple(pair))


def _reader(file: Path):
    return {"JSONL": _jsonl, "Parquet": _parquet}.get(kind_of(file.name)[0] or "")


def _jsonl(file: Path) -> Iterator[Row]:
    names = _names(file)
    try:
        with opened(file, kind_of(file.name)[1]) as stream:
            for number, line in enumerate(stream, 1):
                line = line.removeprefix(BOM) if number == 1 else line
                if line and not line.isspace():
                    where = f"{file}, line {number}"
                    yield _row(_parsed(line, where), names, where)
    except OSError as error:
        raise _unreadable(file, error.strerror or error) from None


def _parsed(line: bytes, where: str) -> Any:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        cut = "" if line.endswith(b"\n") else ": the file may be cut off here"
        raise DataError(f"{where}: not JSON ({error}){cut}", _RULE, "mend or remove that line, or fetch the file again") from None


def _parquet(file: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as table:
            wanted = [GOOD, BAD, "UID", "field", "linguistics_term"]
            rows = table.read([name for name in wanted if name in table.schema_arrow.names]).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, str(error).splitlines()[0][:200]) from None
    names = _names(file)
    for number, row in enumerate(rows, 1):
        yield _row(row, names, f"{file}, row {number}")


def _names(file: Path) -> tuple[str, str]:
    """The paradigm and the field of rows that do not say."""
    return file.name.partition(".")[0], file.resolve().parent.name


def _unreadable(file: Path, why: object) -> DataError:
    return DataError(f"{file} cannot be read: {why}", "a file of pairs is readable and whole", "check its permissions, or fetch it again")


def _row(row: Any, names: tuple[str, str], where: str) -> Row:
    if not isinstance(row, dict):
        raise DataError(f"{where}: {json.dumps(row)[:60]} is not an object", _RULE, "mend or remove that line")
    for key in (GOOD, BAD):
        if key not in row:
            raise DataError(f"{where}: no {key}; it has {', '.join(row) or 'no keys'}", _RULE, "name the sentences so, or remove that line")
        if not isinstance(row[key], str) or not row[key].strip():
            raise DataError(f"{where}: {key} is {json.dumps(row[key])[:60]}", f"{key} is a sentence", "mend or remove that line")
    paradigm = _named(row, "UID", names[0], where)
    field = _named(row, "field", names[1], where).replace("/", "_")
    term = _named(row, "linguistics_term", paradigm, where)
    good, bad = (encoded(row[key], Counter()).decode() for key in (GOOD, BAD))  # a lone surrogate is U+FFFD, as in a corpus
    return paradigm, field, term, good, bad


def _named(row: dict[str, Any], key: str, absent: str, where: str) -> str:
    value = row.get(key)
    if value is None:
        return absent
    if not isinstance(value, str) or not value:
        raise DataError(f"{where}: {key} is {json.dumps(value)[:60]}", f"{key} is a name", f"mend that line, or leave {key} out")
    return value


def _blimp() -> MinimalPairs:
    """From the hub, or from huggingface_hub's cache where there is no network. Raises DataError when not all of it is here."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    why, quiet = unreachable(), are_progress_bars_disabled()
    fetch = f"where there is a network: hf download {HUB} --repo-type dataset --local-dir blimp   then name that folder"
    disable_progress_bars()
    try:
        kinds = ["*.parquet", "*.jsonl"]
        place = Path(snapshot_download(HUB, repo_type="dataset", allow_patterns=kinds, local_files_only=bool(why)))
    except Exception as error:  # the libraries below have no common one for a line that broke; what came is kept
        said = why or (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise DataError(f"BLiMP cannot be fetched ({said}), and is not on this machine", f"blimp is {HUB} on the hub", fetch) from None
    finally:
        if not quiet:
            enable_progress_bars()
    try:
        found = read_pairs(place)
    except DataError as error:
        raise DataError(error.what, error.rule, f"delete {place} and give the same command again, or {fetch}") from None
    if (count := len(set(found.paradigm))) != PARADIGMS:
        raise DataError(f"{place} has {count} of BLiMP's {PARADIGMS} paradigms", f"blimp is all of {HUB}", fetch)
    return MinimalPairs(f"{BLIMP} ({HUB} at {place.name[:12]})", *(getattr(found, name) for name in
                        ("paradigm", "field", "term", "good", "bad", "pair")))  # fmt: skip
