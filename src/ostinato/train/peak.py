"""How much memory a training step holds at its peak: all tensors that torch's allocator has given out, weights and optimizer included.

On a GPU the allocator keeps that number itself (`torch.cuda.max_memory_allocated`), and every step is looked at. A CPU's allocator
keeps none, but tells the profiler of every block that it gives out and takes back: their running sum over one step, on top of what the
model and the optimizer held before it, is the same number. The second step of a session is looked at, in which all optimizer states
exist; every other step has the same shapes. Where memory ran out in that step it is the next one instead: what an attempt held that came
to nothing is no part of a step. Looking changes no result. Decision 0110 has the numbers, and why not the size of the process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor
from torch.autograd.profiler import profile

from ostinato.train.trainer import StepRecord, Trainer

log = logging.getLogger("ostinato")
Result = TypeVar("Result")


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


def allocated(work: Callable[[], Result]) -> tuple[Result, int | None]:
    """What `work` returns, and the most bytes that torch's CPU allocator had given out at once while it ran, beyond those from before.

    What was there before should not be taken back meanwhile.  None, and a line in the log, where a profiler is at work already.
    """
    look = profile(use_cpu=True, profile_memory=True)
    try:
        look.__enter__()
    except RuntimeError as error:
        log.info("the memory of a step is not measured: %s", error)
        return work(), None
    try:
        result = work()
    finally:
        look.__exit__(None, None, None)
    events = (event for event in look.kineto_results.events() if event.name() == "[memory]")
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return result, most


def held(tensors: Iterable[Tensor]) -> int:
    """Bytes of the tensors; what several share counts once."""
    return sum({tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}.values())
