"""What the heads of every run look at (measure/heads.py), which of them does most of a kind, and where long matches are resolved.

Heads of two seeds are not the same heads, so each run stands alone and nothing is averaged over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ostinato.analysis.applications import called
from ostinato.analysis.lens import RESOLVED, lenses
from ostinato.analysis.measured import newest
from ostinato.analysis.members import named_classes
from ostinato.store import Store
from ostinato.study.records import Study

SCORES = ("induction", "previous", "duplicate")
REPEATED, WINDOWS = "repeated", "windows"
"""The two texts: random tokens twice over, and the validation windows."""
LONG = "k ≥ 8"


@dataclass(frozen=True)
class Head:
    """One head of one application, which is called `place`.  head: from 0.

    score: mean attention mass.  chance: that of evenly spread attention.  count: queries that saw a key of the kind.
    """

    application: int
    place: str
    head: int
    score: float
    chance: float
    count: int


@dataclass(frozen=True, eq=False)
class Heads:
    """Those of one run.  found: by text and score, heads in order; those that saw no key of the kind are not there.

    error: of the weights against the kernel's own output, relative.  recurrent: applications without heads, by index.
    """

    arm: str
    seed: int
    tokens: int
    found: Mapping[tuple[str, str], tuple[Head, ...]]
    error: float
    recurrent: tuple[int, ...]

    def of(self, score: str, text: str = REPEATED) -> tuple[Head, ...]:
        """Every head with this score, in order of application and head."""
        return self.found.get((text, score), ())

    def strongest(self, score: str, text: str = REPEATED) -> Head | None:
        """The head with the highest score, the first one of equals; None where no head saw a key of the kind."""
        return max(self.of(score, text), key=lambda head: head.score, default=None)

    @property
    def places(self) -> dict[int, str]:
        """The applications that have heads, by index, and how each is called."""
        return dict(sorted({head.application: head.place for heads in self.found.values() for head in heads}.items()))


def heads_of(arm: str, seed: int, tokens: int, rows: list[Mapping[str, Any]], about: Mapping[str, Any]) -> Heads:
    """rows: of the stored table, one a text, application, head and score."""
    places = {label["index"]: called(label) for label in about["applications"]}
    found: dict[tuple[str, str], list[Head]] = {}
    for row in rows:
        if row["count"]:
            head = Head(row["application"], places[row["application"]], row["head"], row["sum"] / row["count"],
                        row["chance"] / row["count"], row["count"])  # fmt: skip
            found.setdefault((row["text"], row["score"]), []).append(head)
    in_order = {key: tuple(sorted(heads, key=lambda head: (head.application, head.head))) for key, heads in found.items()}
    return Heads(arm, seed, tokens, in_order, about["relative_error"], tuple(about["recurrent"]))


def heads(study: Study, store: Store) -> list[Heads]:
    """Of every run that has them, by arm and seed in the order of the study. Raises StoreError for a torn file."""
    return [heads_of(arm, seed, measure.tokens, measure.table().to_pylist(), measure.about)
            for arm, runs in newest(study, store, "heads") for seed, (_, measure) in runs.items()]  # fmt: skip


def resolved(study: Study, store: Store, margin: float = RESOLVED) -> dict[str, tuple[int, str]]:
    """By arm the application, and what it is called, from which on the lens stays within `margin` nats of the loss on targets of `LONG`.

    Arms without a lens, or without such targets, are not in it. Raises StoreError for a torn file.
    """
    (long,) = named_classes(LONG)
    found = {}
    for lens in lenses(study, store, LONG):
        at = lens.resolves(long.name, margin) if long.name in lens.sums.classes else None
        if at is not None:
            found[lens.arm] = at, called(lens.labels[at])
    return found
