"""Running out of memory: how it is recognised, what is let go, and the same work with half as many rows at once.

How many rows go through the model together changes memory and not results, so work that did not fit is done again from where it
began: half the rows, until it fits or one row does not. On a GPU the allocator says so; on a CPU malloc or NumPy may, but Linux promises
more than it has and then ends the process: there a limit (ulimit -v, a container's) is what turns up as an error, or nothing does.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import TypeVar

import torch

from ostinato.errors import TrainingError

log = logging.getLogger("ostinato")

Found = TypeVar("Found")
SAID = ("can't allocate memory", "out of memory", "ALLOC_FAILED")
"""In the text of a RuntimeError: of torch's allocator on a CPU; of CUDA beside torch's allocator; of cuBLAS without its workspace."""


def out_of_memory(error: BaseException) -> bool:
    """Whether this error says that there was not enough memory."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in SAID)


def halving(rows: int, work: Callable[[int], Found], device: torch.device, what: str, fix: str) -> tuple[Found, int]:
    """(work(n), n): n is `rows`, halved as often as memory runs out. `work` begins anew each time and leaves nothing of a failed attempt.

    what: is being done, for the log.  Raises TrainingError with the next step `fix` when one row does not fit, else what `work` raises.
    """
    while True:
        try:
            return work(rows), rows
        except Exception as error:
            if not out_of_memory(error):
                raise
            said = (str(error) or type(error).__name__).splitlines()[0]
        if rows == 1:  # beyond the except: an error that is being handled keeps every tensor of the frames that it passed through
            let_go(device)
            raise TrainingError(f"{what}: out of memory with one row at once ({said})", "one row is the least that a pass can hold", fix)
        fewer = -(-rows // 2)
        let_go(device)
        log.warning("%s: out of memory with %d rows at once (%s); again with %d: the same result up to rounding", what, rows, said, fewer)
        rows = fewer


def let_go(device: torch.device) -> None:
    """Give back what nothing refers to: graphs in reference cycles, then the blocks that a GPU's allocator keeps for later.

    What a failed attempt held is no part of the peak of the next one.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
