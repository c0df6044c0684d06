"""Several CPU threads for one step: each takes a part of the rows, with operations of one thread, and the parts' gradients are added.

torch spreads every operation over its threads and waits for the last of them each time. A part of the rows needs no waiting before its
gradient is there, and what a thread computes stays in the cache of its core. Parts are as equal as whole rows allow and are added in
their order: the same number of threads always gives the same bits, those of one thread with micro-batches of such parts. Activations are
those of the whole micro-batch; gradients are held once a thread while they are added up. Decision 0155 has what it is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import TypeVar

import torch

Part, Found = TypeVar("Part"), TypeVar("Found")
FAIR = 8
"""Rows a thread from which on parts may differ by a row: the others then wait for an eighth of their time at most."""
LEAST = 2**18
"""Numbers of the stream (tokens times d_model) that a part has at least: with fewer, threads wait for Python more than they gain."""


class Crew:
    """threads: how many, from 2 on.  They end when the crew is forgotten.  least: tokens of a part, for cutting to be worth it.

    look: None, or a function that runs `work()` and returns what it found and the bytes that it held at most (measure/memory.py); the parts
    are then done one after another in the calling thread, with the same bits, and `held` is the most that the parts of one micro-batch
    hold together.
    """

    def __init__(self, threads: int, least: int = 1):
        self.threads, self.least = threads, least
        self.look: Callable[[Callable[[], object]], tuple[object, int | None]] | None = None
        self.held: int | None = None
        self._pool = ThreadPoolExecutor(threads, "ostinato", torch.set_num_threads, (1,))

    def places(self, rows: int, context: int) -> list[slice]:
        """Where the rows of a micro-batch are cut: [all of them] where they cannot be shared out fairly, or are too few."""
        unfair = rows % self.threads and rows < FAIR * self.threads
        if rows < self.threads or unfair or rows * context < self.threads * self.least:
            return [slice(0, rows)]
        cuts = [rows * part // self.threads for part in range(self.threads + 1)]
        return [slice(first, last) for first, last in pairwise(cuts)]

    def map(self, work: Callable[[Part], Found], parts: Sequence[Part]) -> list[Found]:
        """work(part) of each, at once. Raises what the first part to fail raises, when all have ended."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            if self.look is not None:
                return self._looked(work, parts)
            asked = [self._pool.submit(work, part) for part in parts]
            wait(asked)
            return [one.result() for one in asked]
        finally:
            torch.set_num_threads(threads)

    def _looked(self, work: Callable[[Part], Found], parts: Sequence[Part]) -> list[Found]:
        looks = [self.look(lambda part=part: work(part)) for part in parts]
        if all(held is not None for _, held in looks):
            self.held = max(self.held or 0, sum(held for _, held in looks))
        return [found for found, _ in looks]
