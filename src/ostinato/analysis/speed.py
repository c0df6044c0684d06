"""How fast every arm trains, reads and writes, over its seeds: tokens of all runs, then one division by their seconds.

Training is as its log has it, reading and writing as measured (measure/speed.py), each beside what was foretold of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ostinato.analysis.measured import newest
from ostinato.store import Store
from ostinato.study.counted import several
from ostinato.study.records import Study


@dataclass(frozen=True)
class Rate:
    """tokens_per_s: measured.  predicted: by the machine's calibration.  bytes: held at most, or of a cache.  foretold: by the ledger.

    tokens: of a row.  None where it is not known.
    """

    tokens: int
    tokens_per_s: float | None
    predicted: float | None = None
    bytes: int | None = None
    foretold: int | None = None


@dataclass(frozen=True)
class Speed:
    """One arm's. seeds: measured. training: tokens a second that the calibration foretold; None without one.  devices: each once."""

    arm: str
    seeds: tuple[int, ...]
    forward: Rate
    generation: Rate
    training: float | None
    devices: tuple[str, ...]


def speeds(study: Study, store: Store) -> dict[str, Speed]:
    """Of every arm that was measured, by name. Raises StoreError for a torn file."""
    found = {}
    for arm, runs in newest(study, store, "speed"):
        tables = [measure.table().to_pylist() for _, measure in runs.values()]
        abouts = [measure.about for _, measure in runs.values()]
        rows = {what: [row for table in tables for row in table if row["what"] == what] for what in ("forward", "generation")}
        devices = tuple(dict.fromkeys(f"{about['device']}, {about['dtype']}, {several(about['threads'], 'thread')}" for about in abouts))
        training = [about["training"] for about in abouts if about["training"]]
        found[arm] = Speed(arm, tuple(runs), _rate(rows["forward"]), _rate(rows["generation"]), _together(training), devices)
    return found


def _rate(rows: Sequence[dict]) -> Rate:
    """Of several runs of one arm."""
    tokens, seconds = sum(row["rows"] * row["tokens"] for row in rows), sum(row["seconds"] for row in rows)
    most, foretold = ([row[name] for row in rows if row[name] is not None] for name in ("bytes", "predicted_bytes"))
    predicted = _together([row["predicted_tokens_per_s"] for row in rows if row["predicted_tokens_per_s"]])
    return Rate(max(row["tokens"] for row in rows), tokens / seconds if seconds else None, predicted, max(most, default=None),
                max(foretold, default=None))  # fmt: skip


def _together(rates: Sequence[float]) -> float | None:
    """Of the same number of tokens at each of these rates."""
    return len(rates) / sum(1 / rate for rate in rates) if rates else None
