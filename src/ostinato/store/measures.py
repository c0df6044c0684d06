"""What else is known of a trained model: one table a measure, taken once and analysed from here.

    RUN/measures/NAME/KEY/TOKENS.parquet     NAME: lens, heads, pairs, …   KEY: of the settings   TOKENS: trained on so far

Settings are whatever would make it another measurement (which targets, how many, which pairs); tables of other settings stand beside each
other. They are in the footer, with what a reader needs to know of the columns (`about`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.errors import StoreError
from ostinato.store.tables import now, read_footer, read_parquet, write_parquet

if TYPE_CHECKING:
    import pyarrow as pa

_MEND = "delete it and give `ostinato measure` again: it is taken anew"


@dataclass(frozen=True)
class Measure:
    """One stored table.  tokens: trained on so far.  taken: when, UTC."""

    name: str
    tokens: int
    settings: dict[str, Any]
    about: dict[str, Any] = field(repr=False)
    taken: str
    path: Path = field(repr=False)

    def table(self) -> pa.Table:
        """All columns. Raises StoreError when the file is torn."""
        return read_parquet(self.path, _MEND)


def measure_key(settings: dict[str, Any]) -> str:
    """Eight hex digits that tell settings apart."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


def write_measure(folder: Path, name: str, settings: dict[str, Any], tokens: int, table: pa.Table,
                  about: dict[str, Any] | None = None) -> Path:  # fmt: skip
    """Store a measurement of the run in `folder`, in place of one of the same settings. Raises StoreError for a table without rows."""
    if not table.num_rows:
        raise StoreError(f"the measure {name} found nothing at {tokens:,} tokens", "a stored measure has one row at least",
                         "measure on more text")  # fmt: skip
    path = folder / "measures" / name / measure_key(settings) / f"{int(tokens)}.parquet"
    write_parquet(path, table, {"measure": name, "tokens": int(tokens), "settings": settings, "about": about or {}, "taken": now()})
    return path


def measures(folder: Path, name: str | None = None) -> list[Measure]:
    """Those of one name, or all; by name and tokens, of the same tokens the newest last. A torn file is as one that is not there."""
    found = [one for one in map(_read, folder.glob(f"measures/{name or '*'}/*/*.parquet")) if isinstance(one, Measure)]
    return sorted(found, key=lambda one: (one.name, one.tokens, one.taken, one.path.parent.name))


def torn_measures(folder: Path) -> list[str]:
    """What is wrong with every file that cannot be read."""
    found = (_read(path) for path in sorted(folder.glob("measures/*/*/*.parquet")))
    return [one for one in found if isinstance(one, str)]


def _read(path: Path) -> Measure | str:
    try:
        stat = path.stat()
        return _remembered(path, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    except StoreError as error:
        return error.what
    except KeyError as error:
        return f"{path} cannot be read: its footer lacks {error}"


@lru_cache(maxsize=10_000)
def _remembered(path: Path, *file: int) -> Measure:
    """A footer is read once a process, however many ask what there is; a file that is written anew is another `file`."""
    footer = read_footer(path, _MEND)
    return Measure(footer["measure"], footer["tokens"], footer["settings"], footer["about"], footer["taken"], path)
