"""How much memory a training step holds at its peak: all tensors that torch's allocator has given out, weights and optimizer included.

On a GPU the allocator keeps that number itself (`torch.cuda.max_memory_allocated`), and every step is looked at. A CPU's allocator
keeps none: what it gives out over one step (measure/memory.py), on top of what the model and the optimizer held before it, is the same
number. The second step of a session is looked at, in which all optimizer states exist; every other step has the same shapes. Where memory
ran out in that step it is the next one instead: what an attempt held that came to nothing is no part of a step. Looking changes no result.
Decision 0110 has the numbers, and why not the size of the process.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ostinato.measure.memory import allocated, held
from ostinato.train.trainer import StepRecord, Trainer


class Peak:
    """told: called with bytes whenever a step has held more than every step before it."""

    def __init__(self, trainer: Trainer, told: Callable[[int], None]):
        self.trainer, self.told = trainer, told
        self.bytes, self.taken = 0, 0

    def step(self) -> StepRecord:
        """The trainer's next step. Raises as it does."""
        self.taken += 1
        device = self.trainer.machine.device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            record = self.trainer.step()
            self._held(torch.cuda.max_memory_allocated(device))
            return record
        if self.taken == min(2, self.trainer.steps.steps):
            return self._profiled()
        return self.trainer.step()

    def _profiled(self) -> StepRecord:
        trainer, rows = self.trainer, self.trainer.rows_at_once
        trainer.optimizers.clear_gradients()  # a block from before is not seen when it is taken back
        before = held((*trainer.decoder.parameters(), *trainer.decoder.buffers(), *trainer.optimizers.state().values()))
        record, most = self._allocated()
        if trainer.rows_at_once != rows:
            self.taken -= 1
        elif most is not None:
            self._held(before + most)
        return record

    def _allocated(self) -> tuple[StepRecord, int | None]:
        """The profiler hears of one thread only: a crew's parts are looked at one by one, and hold together what each holds."""
        crew = self.trainer.crew
        if crew is None or len(crew.places(self.trainer.rows_at_once, self.trainer.arm.recipe.context)) == 1:
            return allocated(self.trainer.step)
        crew.look, crew.held = allocated, None
        try:
            return self.trainer.step(), crew.held
        finally:
            crew.look = None

    def _held(self, found: int) -> None:
        if found > self.bytes:
            self.bytes = found
            self.told(found)
