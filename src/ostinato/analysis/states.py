"""What applications do to the stream, of every arm: means over positions and seeds of what measure/states.py has summed."""

from __future__ import annotations

from dataclasses import dataclass

from ostinato.analysis.applications import called
from ostinato.analysis.measured import newest
from ostinato.store import Store
from ostinato.study.records import Study

SUMS = ("size", "update", "cosine", "change", "distance")
"""What is summed over positions; `size`: the root mean square of the stream after the application."""


@dataclass(frozen=True)
class Moved:
    """One application, means over positions and seeds; None where there is no other application of its layer to compare with.

    rank: the mean over seeds of the effective rank.
    """

    application: int
    layer: int
    pass_: int
    name: str
    size: float
    update: float
    cosine: float | None
    change: float | None
    distance: float | None
    rank: float


@dataclass(frozen=True)
class States:
    """One arm's. trained: its number of passes, None where it is not free.  applications: as trained; deeper: with twice the passes."""

    arm: str
    seeds: tuple[int, ...]
    tokens: int
    trained: int | None
    applications: tuple[Moved, ...]
    deeper: tuple[Moved, ...]


def states(study: Study, store: Store) -> list[States]:
    """Of every arm that has been measured so, in the order of the study. Raises StoreError for a torn file."""
    found = []
    for arm, pairs in newest(study, store, "states"):
        _, first = next(iter(pairs.values()))
        rows = [measure.table().to_pylist() for _, measure in pairs.values()]
        moved = [(each[0]["passes"], _mean(each)) for each in zip(*rows, strict=True)]
        trained = first.about["trained_passes"]
        applications, deeper = (tuple(one for passes, one in moved if (passes == trained) is own) for own in (True, False))
        found.append(States(arm, tuple(pairs), first.tokens, trained, applications, deeper))
    return found


def _mean(rows: tuple[dict, ...]) -> Moved:
    """Of the same application in every seed."""
    first, positions = rows[0], sum(row["positions"] for row in rows)
    means = {name: None if first[name] is None else sum(row[name] for row in rows) / positions for name in SUMS}
    name = called({"layer": first["layer"], "part": first["part"], "pass_": first["pass"]})
    return Moved(first["application"], first["layer"], first["pass"], name, rank=sum(row["rank"] for row in rows) / len(rows), **means)
