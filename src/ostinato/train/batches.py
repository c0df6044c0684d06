"""The micro-batches of every step, on the device; on a GPU those of the next step are made while it computes this one.

There rows are gathered, put into pinned memory and their copies queued between the last kernel of a backward pass and the one read of
loss and norm that waits for it (step.py), so the processor does it in time that it would spend waiting. The copies are queued on the
stream that computes: order alone makes them safe, and torch hands a pinned block out again only after the copy from it is done. On a CPU
nothing runs beside the step, and a batch is made when it is asked for.
"""

from __future__ import annotations

import torch

from ostinato.data import BatchPlan
from ostinato.model.noise import row_keys
from ostinato.train.step import MicroBatch, micro_batches


class Batches:
    """bos: the token that starts a document, when nothing may be seen across it; None without a document mask.

    draws: whether the model draws noise in a step, for which every row has keys of its own.
    """

    def __init__(self, plan: BatchPlan, bos: int | None, draws: bool, device: torch.device):
        self.plan, self.bos, self.draws, self.device = plan, bos, draws, device
        self._made: tuple[tuple[int, int], list[MicroBatch]] | None = None

    def of(self, step: int, rows_at_once: int) -> list[MicroBatch]:
        """The micro-batches of a step (from 0), of at most so many rows."""
        made, self._made = self._made, None
        return made[1] if made is not None and made[0] == (step, rows_at_once) else self._make(step, rows_at_once)

    def first(self, step: int, rows: int) -> MicroBatch:
        """The first rows of a step, as one micro-batch."""
        return self._make(step, rows, rows)[0]

    def ahead(self, step: int, rows_at_once: int) -> None:
        """Make them now, if that costs no time: `of` will be asked for them next."""
        if self.device.type == "cuda":
            self._made = (step, rows_at_once), self._make(step, rows_at_once)

    def _make(self, step: int, rows_at_once: int, first: int | None = None) -> list[MicroBatch]:
        keys_B2 = row_keys(self.plan.seed, step, self.plan.rows_per_step) if self.draws else None
        return list(micro_batches(self.plan.batch(step)[:first], rows_at_once, self.bos, self.device, keys_B2))
