"""Which windows a measure reads, and the passes through a model that it reads them in.

A measure that asks a model many times over need not read every target: it takes whole windows, in an order that the text alone decides,
until the next would exceed a number of targets. So two models measured on the same targets are measured on the same windows, and more
targets are those of before and others.

Shapes, as suffixes of names: B windows, T inputs of a window, N targets in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ostinato.data import Targets, document_ids
from ostinato.errors import DataError
from ostinato.measure.context import Context
from ostinato.measure.halving import halving

Found = TypeVar("Found")


@dataclass(frozen=True)
class Windows:
    """Some windows as tensors.  at_BT: which inputs predict a target, whose token is wanted_N and whose index among the Targets place_N."""

    tokens_BT: Tensor
    documents_BT: Tensor | None
    at_BT: Tensor
    wanted_N: Tensor
    place_N: np.ndarray


def some(targets: Targets, most: int) -> Targets:
    """Whole windows with `most` targets between them, one window at least; targets keep their index among all."""
    chosen, taken = [], 0
    scored = (targets.flat_target >= 0).astype(np.int64)
    counts = np.add.reduceat(scored, targets.offsets[:-1]) if len(targets.lengths) else scored[:0]
    for window in np.argsort(np.random.Philox(key=0).random_raw(len(counts)), kind="stable").tolist():
        if counts[window] and (not chosen or taken + counts[window] <= most):
            chosen.append(window)
            taken += int(counts[window])
    chosen.sort()
    spans = [slice(targets.offsets[window], targets.offsets[window + 1]) for window in chosen]
    flat, which = (np.concatenate([array[:0], *(array[span] for span in spans)]) for array in (targets.flat, targets.flat_target))
    offsets = np.cumsum([0, *(span.stop - span.start for span in spans)], dtype=np.int64)
    return replace(targets, flat=flat, flat_target=which, offsets=offsets)


def over_windows(work: Callable[[Windows], Found], context: Context, device: torch.device, what: str, share: int = 1) -> list[Found]:
    """What `work` finds in every forward pass over the context's targets, or `some` of them, in order.  what: is being done, for the log.

    share: one of so many of the targets that the context asks for.
    A pass has at most `context.batch` inputs (one window at least), and fewer where memory runs out.
    Raises DataError without targets, TrainingError when one window does not fit into memory.
    """
    targets = some(context.targets, context.measure.targets // share)
    found: list[Found] = []
    done, every, fits = 0, int(np.count_nonzero(targets.flat_target >= 0)), context.batch
    if not every:
        raise DataError(f"the {targets.part} part has no targets", "a measure is taken on one target at least",
                        "give more text, or a larger share of it to validation")  # fmt: skip
    for window_BT, where_BT in targets.batches(context.batch):
        first, inputs = 0, where_BT.shape[1]
        while first < len(where_BT):
            rows = min(len(where_BT) - first, max(1, fits // inputs))
            here = window_BT[first:], where_BT[first:], context.document_mask, targets.bos, device
            one, fitted = halving(rows, lambda rows, here=here: _read(work, *here, rows), device, what, "take a smaller evaluate.context")
            fits = fits if fitted == rows else fitted * inputs
            found.append(one)
            done += int(np.count_nonzero(where_BT[first : first + fitted] >= 0))
            first += fitted
            if context.progress:
                context.progress(done, every)
    return found


@torch.no_grad()
def _read(work: Callable[[Windows], Found], window_BT: np.ndarray, where_BT: np.ndarray, document_mask: bool, bos: int,
          device: torch.device, rows: int) -> Found:  # fmt: skip
    """`work` on the first `rows` of these windows."""
    tokens_BT, place_BT = window_BT[:rows, :-1], where_BT[:rows]
    at_BT = place_BT >= 0
    documents_BT = torch.from_numpy(document_ids(tokens_BT, bos)).long().to(device) if document_mask else None
    given = (torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in (tokens_BT, at_BT, window_BT[:rows, 1:][at_BT]))
    tokens_BT, at_BT, wanted_N = given
    return work(Windows(tokens_BT, documents_BT, at_BT, wanted_N, place_BT[place_BT >= 0]))
