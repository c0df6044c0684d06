"""Losses of runs as judging reads them: once, by document, and within a class of targets.

Sums are of float64 over targets, averaged over seeds, as in `analysis.seeds.paired_over_seeds`; the units of an interval are documents.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ostinato.analysis.documents import copies
from ostinato.claims import named_class
from ostinato.data.classes import TokenClasses
from ostinato.errors import StoreError
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.value import Value, document_keys, over_units
from ostinato.store import LossTable, RunFolder, Store, TargetTable

MOST_KEPT = 1 << 28
"""Bytes of losses that are kept in memory, at most; beyond, the ones that were read first are read again when they are asked for."""
DOCUMENT = "document"


@dataclass(frozen=True, eq=False)
class Text:
    """A table of targets by document.  place: [N] which of the K documents each target is in; keys: uint64 [K] of these documents."""

    targets: TargetTable
    place: np.ndarray
    keys: np.ndarray


def text_of(targets: TargetTable) -> Text:
    """A document is known by its text; where no digests were stored, by its number in this table."""
    _, first, place = np.unique(targets.document, return_index=True, return_inverse=True)
    if targets.digest is None:
        return Text(targets, place, document_keys(np.full(len(first), int(targets.id[:15], 16), np.uint64), targets.document[first]))
    digest = targets.digest[first]
    return Text(targets, place, document_keys(digest, copies(digest)))


class Losses:
    """What was read of one store."""

    def __init__(self, store: Store):
        self.store = store
        self._texts: dict[str, Text] = {}
        self._classes: dict[tuple[str, str], TokenClasses | None] = {}
        self._tables: OrderedDict[tuple[str, str, str, int], LossTable] = OrderedDict()

    def text(self, target_id: str) -> Text:
        """The documents of these targets. Raises StoreError when they are missing or torn."""
        if target_id not in self._texts:
            self._texts[target_id] = text_of(self.store.targets(target_id))
        return self._texts[target_id]

    def table(self, folder: RunFolder, part: str, tokens: int) -> LossTable:
        """Raises StoreError when the point is not measured, or torn."""
        key = (folder.name, folder.evaluation, part, tokens)
        if key not in self._tables:
            self._tables[key] = folder.read_losses(part, tokens)
            while len(self._tables) > 1 and sum(table.losses.nbytes for table in self._tables.values()) > MOST_KEPT:
                self._tables.popitem(last=False)
        return self._tables[key]

    def members(self, name: str | None, target_id: str, data_fingerprint: str) -> np.ndarray | slice:
        """Which targets are in the class of this name; all where it is None. Raises NotEstimable where classes are not stored."""
        wanted = named_class(name) if name else None
        if wanted is None:
            return slice(None)
        key = target_id, data_fingerprint
        if key not in self._classes:
            self._classes[key] = self.store.classes(*key)
        if self._classes[key] is None:
            raise NotEstimable("the classes of its targets are not stored", "classes are found when a study is run",
                               "give `ostinato run` again")  # fmt: skip
        return np.flatnonzero(wanted.of(self._classes[key]))


def by_document(
    text: Text, nats: Mapping[int, np.ndarray], members: np.ndarray | slice, size_of: Callable[[np.ndarray], np.ndarray], unit: str
) -> Value:
    """The sum of nats over the sum of sizes, within some targets.  nats: {seed: float64 [N]}, averaged over seeds.

    size_of: of each of these targets, from its bytes: 1 for nats a token, ln 2 bytes for bits a byte.
    """
    place, sizes = text.place[members], size_of(text.targets.bytes[members])
    count = len(text.keys)
    mean = np.mean([values[members] for values in nats.values()], axis=0)
    whole = float(sizes.sum())
    seeds = {seed: float(values[members].sum() / whole) for seed, values in nats.items()} if whole else {}
    held = np.flatnonzero(np.bincount(place, minlength=count))
    sums, weights = np.bincount(place, mean, count), np.bincount(place, sizes, count)
    return over_units(text.keys[held], sums[held], weights[held], seeds, unit, DOCUMENT)


def same(tables: Mapping[int, tuple[LossTable, ...]]) -> str:
    """The id of the targets that all of these are of. Raises NotEstimable where there are two."""
    found = {table.target_id for pair in tables.values() for table in pair}
    if len(found) > 1:
        raise NotEstimable("its losses are not of the same targets", "losses are compared target by target",
                           "give both the same data, windows and context, and measure again")  # fmt: skip
    return found.pop()


def in_words(error: StoreError) -> NotEstimable:
    """A stored file that cannot be read makes its number not estimable, and no other."""
    return NotEstimable(error.what, error.rule, error.fix)
