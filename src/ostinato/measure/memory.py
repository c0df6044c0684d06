"""How much memory torch's CPU allocator gives out while something is computed.

It keeps no such number itself, but tells the profiler of every block that it gives out and takes back: their running sum. A GPU's allocator
keeps it (`torch.cuda.max_memory_allocated`). Looking changes no result.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

from torch import Tensor
from torch.autograd.profiler import profile

log = logging.getLogger("ostinato")
Result = TypeVar("Result")


def allocated(work: Callable[[], Result]) -> tuple[Result, int | None]:
    """What `work` returns, and the most bytes that torch's CPU allocator had given out at once while it ran, beyond those from before.

    What was there before should not be taken back meanwhile.  None, and a line in the log, where a profiler is at work already.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or the profiler prints lines of its own among what is printed
    look = profile(use_cpu=True, profile_memory=True)
    try:
        look.__enter__()
    except RuntimeError as error:
        log.info("memory is not measured: %s", error)
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
