"""Two runs with different tokenizers: compared by document, in bits per byte.

Their targets differ, but the text does not: a document is known by the digest of its text, and all of its bytes are scored whatever the
tokens are. So the unit is the document: gain = (sum of the reference's nats - sum of the arm's) / (ln 2 * sum of bytes), over the
documents that both scored. With one tokenizer on both sides this is the bits per byte of the comparison token by token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ostinato.analysis.intervals import over_clusters
from ostinato.analysis.paired import Paired
from ostinato.analysis.seeds import OverSeeds, over_seeds
from ostinato.analysis.words import BITS, gain_in_words
from ostinato.data.targets import ROWS
from ostinato.errors import StoreError
from ostinato.store import LossTable, Store, TargetTable

_RULE = "with different tokenizers whole documents are compared, byte for byte"


@dataclass(frozen=True)
class Documents:
    """Losses summed by document. key: [K] (digest, which of its copies), unique; nats: float64 [K]; bytes, targets: int64 [K]."""

    key: np.ndarray
    nats: np.ndarray
    bytes: np.ndarray
    targets: np.ndarray

    def take(self, index: np.ndarray) -> Documents:
        """Only these, in this order."""
        return Documents(self.key[index], self.nats[index], self.bytes[index], self.targets[index])


@dataclass(frozen=True)
class Grouping:
    """The documents of a table of targets. place: [N] which of the K documents each target is in; the rest as in Documents."""

    place: np.ndarray
    key: np.ndarray
    bytes: np.ndarray
    targets: np.ndarray

    def sums(self, losses: np.ndarray) -> Documents:
        """losses: [N] nats of the same targets in the same order. Raises StoreError for another number of them."""
        if np.shape(losses) != self.place.shape:
            raise StoreError(
                f"{np.shape(losses)} losses for {self.place.shape} targets", "one loss for each target", "read both from one store"
            )
        return Documents(self.key, np.bincount(self.place, np.asarray(losses, np.float64), len(self.key)), self.bytes, self.targets)


def grouping(targets: TargetTable) -> Grouping:
    """Which document each target is in. Raises StoreError for targets of packed rows, and for those stored without digests."""
    if targets.policy.startswith(ROWS):
        raise StoreError("rows score parts of documents", _RULE, "set evaluate: {windows: documents}")
    if targets.digest is None:
        raise StoreError("measured before documents were stored with their digests", _RULE,
                         "give `ostinato run` again: digests are added, and nothing is trained anew")  # fmt: skip
    _, first, place = np.unique(targets.document, return_index=True, return_inverse=True)
    digest = targets.digest[first]
    key = np.empty(len(digest), dtype=[("digest", np.uint64), ("copy", np.int64)])
    key["digest"], key["copy"] = digest, copies(digest)
    sizes = np.bincount(place, targets.bytes, len(first)).astype(np.int64)
    return Grouping(place, key, sizes, np.bincount(place, minlength=len(first)))


class Groupings:
    """The documents of stored targets, each table read once."""

    def __init__(self, store: Store):
        self.store, self._known = store, {}

    def of(self, target_id: str) -> Grouping:
        """Raises as `grouping`."""
        if target_id not in self._known:
            self._known[target_id] = grouping(self.store.targets(target_id))
        return self._known[target_id]


def copies(digest: np.ndarray) -> np.ndarray:
    """Of each of equal digests, which it is: 0, 1, ... in the order in which they stand; int64 [K]."""
    order = np.argsort(digest, kind="stable")
    ranked = digest[order]
    which = np.empty(len(digest), np.int64)
    which[order] = np.arange(len(digest)) - np.searchsorted(ranked, ranked, "left")
    return which


def shared(reference: Documents, arm: Documents) -> tuple[Documents, Documents]:
    """What both scored, in one order. Raises StoreError when that is nothing, or when a document has other bytes on the two sides."""
    _, ours, theirs = np.intersect1d(reference.key, arm.key, assume_unique=True, return_indices=True)
    reference, arm = reference.take(ours), arm.take(theirs)
    if not len(ours):
        raise StoreError("no document is scored in both", _RULE, "give both the same text, split in the same way")
    differ = np.flatnonzero(reference.bytes != arm.bytes)
    if len(differ):
        one, other = int(reference.bytes[differ[0]]), int(arm.bytes[differ[0]])
        raise StoreError(
            f"{len(differ)} of {len(ours)} documents differ in their bytes ({one:,} against {other:,} in one of them)",
            _RULE,
            "use tokenizers that keep every byte of the text",
        )
    return reference, arm


def paired_documents(reference: Documents, arm: Documents) -> Paired:
    """The comparison over documents that both scored (`shared`), in bits per byte; there are no windows in it."""
    gains, sizes = reference.nats - arm.nats, math.log(2) * arm.bytes
    whole = float(sizes.sum())
    gain = float(gains.sum() / whole) if whole else None
    interval = over_clusters(gains, sizes) if sizes.all() else None
    return Paired(
        gain=gain,
        gain_bits_per_byte=gain,
        interval=interval,
        interval_bits_per_byte=interval,
        targets=int(arm.targets.sum()),
        documents=len(gains),
        documents_won=int((gains > 0).sum()),
        documents_tied=int((gains == 0).sum()),
        windows=0,
        windows_won=0,
        window=0,
        words=gain_in_words(gain, interval, unit=BITS),
        unit=BITS,
    )


def documents_over_seeds(
    tables: Mapping[int, tuple[LossTable, LossTable]], groupings: tuple[Grouping, Grouping]
) -> tuple[Paired, OverSeeds]:
    """`paired_over_seeds` by document: on nats averaged over seeds, and seed by seed.

    tables: {seed: (losses of the reference, losses of the arm)}, one or more; groupings: of their targets. Raises as `shared`.
    """
    pairs = [shared(*(groupings[side].sums(pair[side].losses) for side in (0, 1))) for pair in tables.values()]
    means = [replace(pairs[0][side], nats=np.mean([pair[side].nats for pair in pairs], axis=0)) for side in (0, 1)]
    pairing = paired_documents(*means)
    gains = {seed: gain for seed, pair in zip(tables, pairs, strict=True) if (gain := paired_documents(*pair).gain) is not None}
    return pairing, over_seeds(gains, pairing.interval, BITS)
