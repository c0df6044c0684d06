"""The batch plan: which rows make up a step, as a pure function of (seed, step).

Rows are shuffled anew in every epoch, by (seed, epoch). A step that straddles two epochs takes the last rows of one and the first of
the next, so every row is seen exactly once an epoch. The order comes from the raw stream of Philox, which NumPy promises to keep.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import numpy as np

from ostinato.errors import DataError


class BatchPlan:
    """Steps of `rows_per_step` rows [context + 1] out of `rows` [N, context + 1], endlessly.

    Raises DataError when N < rows_per_step.
    """

    def __init__(self, rows: np.ndarray, rows_per_step: int, seed: int):
        if rows_per_step < 1:
            raise DataError(f"{rows_per_step} rows a step", "a step has at least one row", "set batch to at least context tokens")
        if len(rows) < rows_per_step:
            context = rows.shape[1] - 1
            raise DataError(
                f"the training part packs into {len(rows):,} rows of {context:,} tokens, fewer than the {rows_per_step:,} of one step",
                "an epoch is at least one step",
                f"set batch to {max(1, len(rows)) * context} or less, or give more text",
            )
        self.rows, self.rows_per_step, self.seed = rows, rows_per_step, seed
        self._orders: OrderedDict[int, np.ndarray] = OrderedDict()

    def batch(self, step: int) -> np.ndarray:
        """The rows of step `step` (from 0): int64 [rows_per_step, context + 1]."""
        return self.rows[self.indices(step)].astype(np.int64)

    def indices(self, step: int) -> np.ndarray:
        """Which rows these are: int64 [rows_per_step]."""
        place = step * self.rows_per_step + np.arange(self.rows_per_step)
        epochs, within = np.divmod(place, len(self.rows))
        return np.concatenate([self._order(int(epoch))[within[epochs == epoch]] for epoch in np.unique(epochs)])

    def epoch_of(self, step: int) -> int:
        """The epoch (from 0) that the first row of a step belongs to."""
        return step * self.rows_per_step // len(self.rows)

    def epochs_begun(self, steps: int) -> int:
        """How many epochs a run of so many steps has begun."""
        return -(-steps * self.rows_per_step // len(self.rows))

    @property
    def first_epoch_end_tokens(self) -> int:
        """Training tokens after which every row has been seen once."""
        return len(self.rows) * (self.rows.shape[1] - 1)

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            key = int.from_bytes(hashlib.sha256(f"batches|{self.seed}|{epoch}".encode()).digest()[:16], "little")
            self._orders[epoch] = np.argsort(np.random.Philox(key=key).random_raw(len(self.rows)), kind="stable")
            if len(self._orders) > 2:
                self._orders.popitem(last=False)
        return self._orders[epoch]


def document_ids(tokens: np.ndarray, bos: int) -> np.ndarray:
    """The document that each position of a row belongs to, counted from 0 within the row: int64 [..., T], from tokens [..., T].

    A document begins at each BOS; a row that begins in the middle of a document begins with document 0 all the same.
    """
    ids = np.cumsum(np.asarray(tokens) == bos, axis=-1, dtype=np.int64)
    return ids - ids[..., :1]
