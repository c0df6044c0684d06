"""Two runs on the same targets: what the arm gains over the reference, where, and how sure that is.

gain = reference loss minus the arm's loss, so positive is better. Everything is a function of two arrays of losses and
the targets they belong to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ostinato.analysis.intervals import Interval, over_clusters
from ostinato.analysis.words import NATS, gain_in_words
from ostinato.errors import StoreError
from ostinato.store import LossTable, TargetTable

WINDOW = 256  # targets of a window, unless said otherwise


@dataclass(frozen=True)
class Paired:
    """gain and interval: in `unit`, nats a token unless documents are compared (`documents.py`); gain is None when there is no target.

    Intervals are over documents, None when fewer than two hold a target.
    documents_won counts documents whose summed loss is smaller under the arm, documents_tied those with equal sums; windows are the
    packed rows where rows are measured, else blocks of consecutive targets (the last may be shorter); `window`: targets of a full one.
    """

    gain: float | None
    gain_bits_per_byte: float | None
    interval: Interval | None
    interval_bits_per_byte: Interval | None
    targets: int
    documents: int
    documents_won: int
    documents_tied: int
    windows: int
    windows_won: int
    window: int
    words: str
    unit: str = NATS

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        pairs = {name: getattr(self, name) for name in ("interval", "interval_bits_per_byte")}
        return {**vars(self), **{name: value and [value.low, value.high] for name, value in pairs.items()}}


def paired(
    reference: np.ndarray, arm: np.ndarray, document: np.ndarray, target_bytes: np.ndarray | None = None, window: int = WINDOW,
    row: np.ndarray | None = None,
) -> Paired:
    """reference, arm: [N] nats of the same targets in the same order; document: [N] which document each is in; target_bytes: [N] or None.
    row: [N] which packed row each is in, or None for windows of `window` targets.

    Raises StoreError when the lengths differ.
    """
    reference, arm, document = np.asarray(reference), np.asarray(arm), np.asarray(document)
    if not reference.shape == arm.shape == document.shape or (target_bytes is not None and np.shape(target_bytes) != arm.shape):
        shapes = f"{reference.shape} reference losses, {arm.shape} of the arm, {document.shape} documents"
        raise StoreError(shapes, "paired losses are of the same targets", "read all of them from one store")
    difference = np.subtract(reference, arm, dtype=np.float64)
    if not len(difference):
        return Paired(None, None, None, None, 0, 0, 0, 0, 0, 0, window, gain_in_words(None))
    _, place = np.unique(document, return_inverse=True)
    by_document = np.bincount(place, weights=difference)
    windows = windows_of(len(difference), row, window)
    by_window = np.bincount(windows, weights=difference)
    window = window if row is None else int(np.bincount(windows).max())
    gain, interval = difference.sum() / len(difference), over_clusters(by_document, np.bincount(place))
    bits, bits_interval = None, None
    if target_bytes is not None:
        sizes = math.log(2) * np.bincount(place, weights=np.asarray(target_bytes, dtype=np.float64))
        bits = float(by_document.sum() / sizes.sum()) if sizes.sum() else None
        bits_interval = over_clusters(by_document, sizes) if sizes.all() else None
    return Paired(
        gain=float(gain),
        gain_bits_per_byte=bits,
        interval=interval,
        interval_bits_per_byte=bits_interval,
        targets=len(difference),
        documents=len(by_document),
        documents_won=int((by_document > 0).sum()),
        documents_tied=int((by_document == 0).sum()),
        windows=len(by_window),
        windows_won=int((by_window > 0).sum()),
        window=window,
        words=gain_in_words(float(gain), interval),
    )


def windows_of(targets: int, row: np.ndarray | None, window: int = WINDOW) -> np.ndarray:
    """[N] which window each target is in: its packed row, else a block of consecutive targets.  row: [N] where rows are measured."""
    return np.arange(targets) // window if row is None else np.unique(row, return_inverse=True)[1]


def same_targets(reference: LossTable, arm: LossTable) -> None:
    """Raises StoreError when two tables are not of the same targets: their losses cannot be paired."""
    if reference.target_id != arm.target_id:
        raise StoreError(
            f"targets {arm.target_id[:12]} of the arm, {reference.target_id[:12]} of the reference ({arm.part})",
            "losses are compared target by target, on the same targets",
            "give both the same data, tokenizer, evaluation windows and context, and measure again",
        )


def compare(reference: LossTable, arm: LossTable, targets: TargetTable, window: int = WINDOW) -> Paired:
    """`paired` on two stored tables. Raises StoreError when their targets differ."""
    same_targets(reference, arm)
    if targets.id != arm.target_id:
        raise StoreError(f"targets {targets.id[:12]} for losses of targets {arm.target_id[:12]}", "losses are read beside their targets",
                         "read the targets by the id that the losses name")  # fmt: skip
    return paired(reference.losses, arm.losses, targets.document, targets.bytes, window, targets.row)
