"""The classes of targets as a file: one row a target, in the order of the targets; the footer says of which targets and training text.

They follow from the text alone, so one file serves every run that is measured on these targets and trained on that text.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ostinato.store.tables import read_columns, read_parquet, torn, write_parquet

if TYPE_CHECKING:
    from ostinato.data.classes import TokenClasses

_MEND = "delete it and give `ostinato run` again: it is written anew, and nothing is trained"
COLUMNS = ("match", "in_view", "count", "position", "shown")


def write_classes(path: Path, classes: TokenClasses, target_id: str, data_fingerprint: str) -> None:
    """Write the classes of the targets `target_id`, counted in the training text of this fingerprint."""
    import pyarrow as pa

    table = pa.table({name: pa.array(getattr(classes, name)) for name in COLUMNS})
    write_parquet(path, table, {"target_id": target_id, "data_fingerprint": data_fingerprint, "targets": len(classes)})


def read_classes(path: Path) -> TokenClasses:
    """Raises StoreError when the file is torn, FileNotFoundError when there is none."""
    from ostinato.data.classes import TokenClasses

    if missing := sorted(set(COLUMNS) - set(read_columns(path, _MEND))):
        raise torn(path, f"it lacks {', '.join(missing)}", _MEND)
    table = read_parquet(path, _MEND)
    return TokenClasses(**{name: table[name].to_numpy() for name in COLUMNS})
