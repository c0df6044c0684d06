"""The loss of every evaluation target, in the order of the targets: what all comparisons are functions of.

Shapes, as suffixes of names: B windows, T inputs of a window, N targets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ostinato.data import Targets, document_ids
from ostinato.errors import DataError
from ostinato.measure.halving import halving


class Losses(Protocol):
    """A model that knows the nats of every target [B, T]: float32 or better, 0 where the target is -1 (not counted)."""

    def losses(self, tokens_BT: Tensor, targets_BT: Tensor, documents_BT: Tensor | None = None) -> Tensor: ...

    def parameters(self): ...


def measure_losses(decoder: Losses, targets: Targets, batch_tokens: int, document_mask: bool, bos: int,
                   progress: Callable[[int, int], None] | None = None) -> np.ndarray:  # fmt: skip
    """Nats of every target, float32 [N], in the number format that the decoder trains in.

    batch_tokens: inputs of one forward pass at most (one window at least); the mean loss does not depend on it beyond 1e-6 relative.
    It is halved where memory runs out.
    document_mask: attention and recurrent states stop at BOS, as in training. progress(done, all): targets.
    Raises DataError unless every target is scored exactly once, TrainingError when one window does not fit into memory.
    """
    device = next(iter(decoder.parameters())).device
    losses_N = np.zeros(len(targets), np.float32)
    scored_N = np.zeros(len(targets), np.int64)
    done, fits = 0, batch_tokens
    for window_BT, where_BT in targets.batches(batch_tokens):
        inputs_BT, counted_BT = window_BT[:, :-1], where_BT >= 0
        wanted_BT = np.where(counted_BT, window_BT[:, 1:], -1)
        documents_BT = document_ids(inputs_BT, bos) if document_mask else None
        arrays = (inputs_BT, wanted_BT, documents_BT)
        rows = min(len(inputs_BT), max(1, fits // inputs_BT.shape[1]))
        nats_BT, fitted = halving(rows, lambda rows, arrays=arrays: _nats(decoder, arrays, rows, device), device, "measuring losses",
                                  "take a smaller evaluate.context")  # fmt: skip
        if fitted < rows:
            fits = fitted * inputs_BT.shape[1]
        places = where_BT[counted_BT]
        losses_N[places] = nats_BT[counted_BT]
        np.add.at(scored_N, places, 1)
        done += len(places)
        if progress:
            progress(done, len(targets))
    wrong = int(np.count_nonzero(scored_N != 1))
    if wrong:
        what = f"{wrong:,} of {len(targets):,} targets are not scored exactly once"
        raise DataError(what, "a loss for each target, from one window", "prepare the data again with a fresh cache")
    return losses_N


def _nats(decoder: Losses, arrays: tuple[np.ndarray | None, ...], rows: int, device: torch.device) -> np.ndarray:
    """Nats of every position, float32 [B, T], from passes of at most `rows` windows."""
    found = []
    for first in range(0, len(arrays[0]), rows):
        given = (_tensor(None if array is None else array[first : first + rows], device) for array in arrays)
        with torch.no_grad():  # not inference_mode: what a decoder keeps of a pass must be of use to the next training step
            found.append(decoder.losses(*given).float().cpu().numpy())
    return np.concatenate(found)


def _tensor(array: np.ndarray | None, device: torch.device) -> Tensor | None:
    return None if array is None else torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64)).to(device)
