"""The gradient of one step: sums over all its tokens, then one division.

The loss of a step is (sum of nats of every counted token of every micro-batch) / (counted tokens of the whole step),
so how the step is cut changes memory and not the result. Nats are added in float64 and tokens counted in int64. With several threads on
a CPU a micro-batch is cut once more, and its parts are computed at once (crew.py).

Every target of a row is trained on: rows are [B, T+1], inputs row[:-1], targets row[1:], BOS targets included, as in the
published recipe. (Measuring leaves BOS out; that is another matter.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ostinato.data import document_ids
from ostinato.errors import TrainingError
from ostinato.measure.losses import Losses
from ostinato.train.crew import Crew


@dataclass(frozen=True)
class MicroBatch:
    """What one forward pass reads. targets are -1 where they do not count; documents is None without a document mask.

    keys_B2: of every row, for a model that draws noise in a step (model/noise.py).  known: counted targets, where the host knows them.
    """

    tokens_BT: Tensor
    targets_BT: Tensor
    documents_BT: Tensor | None = None
    keys_B2: Tensor | None = None
    known: int | None = None

    @property
    def counted(self) -> int:
        """Targets that count; to find out waits for a GPU, unless they are known."""
        return int((self.targets_BT >= 0).sum()) if self.known is None else self.known

    def part(self, rows: slice) -> MicroBatch:
        """Some of its rows."""
        documents = None if self.documents_BT is None else self.documents_BT[rows]
        keys = None if self.keys_B2 is None else self.keys_B2[rows]
        return MicroBatch(self.tokens_BT[rows], self.targets_BT[rows], documents, keys)

    def losses(self, model: Losses) -> Tensor:
        """Nats of every target, [B, T]."""
        keys = () if self.keys_B2 is None else (self.keys_B2,)
        return model.losses(self.tokens_BT, self.targets_BT, self.documents_BT, *keys)


@dataclass(frozen=True)
class StepLoss:
    """The loss of a whole step: nats (a float64 sum), counted tokens, and the norm of the gradient of their quotient, before clipping."""

    nats: float
    counted: int
    grad_norm: float

    @property
    def loss(self) -> float:
        """Nats per counted token."""
        return self.nats / self.counted


def micro_batches(rows: np.ndarray, rows_at_once: int, bos: int | None, device: torch.device,
                  keys_B2: Tensor | None = None) -> Iterator[MicroBatch]:  # fmt: skip
    """Cut the rows [B, T+1] of a step into micro-batches of at most `rows_at_once` rows.

    bos: the token that starts a document, when nothing may be seen across it; None without a document mask.  keys_B2: of all rows.
    """
    for first in range(0, len(rows), rows_at_once):
        block = np.asarray(rows[first : first + rows_at_once], dtype=np.int64)
        documents = None if bos is None else _moved(torch.from_numpy(np.asarray(document_ids(block[:, :-1], bos), dtype=np.int64)), device)
        whole = _moved(torch.from_numpy(block), device)
        keys = None if keys_B2 is None else _moved(keys_B2[first : first + rows_at_once], device)
        yield MicroBatch(whole[:, :-1], whole[:, 1:], documents, keys, int(np.count_nonzero(block[:, 1:] >= 0)))


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    """On the device. To a GPU from pinned memory, so that the copy is queued and not waited for."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def accumulate(model: Losses, batches: Iterable[MicroBatch], tensors: list[Tensor],
               meanwhile: Callable[[], None] | None = None, crew: Crew | None = None) -> StepLoss:  # fmt: skip
    """Add the gradient of the step's loss to `tensors` and return that loss. No optimizer is touched.

    meanwhile: called when all work is queued, before the one place where a GPU is waited for.  crew: threads that share each micro-batch.
    Raises TrainingError when nothing is counted, or when the loss or the gradient is not finite.
    """
    batches = list(batches)
    counted = sum(batch.counted for batch in batches)
    if counted == 0:
        raise TrainingError("a step without a counted token", "the loss of a step is nats per counted token",
                            "look at the batch: every target is marked as not counted")  # fmt: skip
    total: Tensor | None = None
    for batch in batches:
        places = crew.places(*batch.tokens_BT.shape) if crew else []
        if len(places) > 1:
            part = _shared(model, batch, counted, tensors, crew, places)
        else:
            nats = batch.losses(model).sum(dtype=torch.float64)
            (nats / counted).backward()
            part = nats.detach()
        total = part if total is None else total + part
    norm = gradient_norm(tensors)
    if meanwhile is not None:
        meanwhile()
    nats, grad_norm = torch.stack([total.to(norm.device), norm]).tolist()
    if not math.isfinite(nats) or not math.isfinite(grad_norm):
        what = f"the loss is {nats / counted}" if not math.isfinite(nats) else f"the norm of the gradient is {grad_norm}"
        raise TrainingError(what, "a run goes on only while loss and gradient are finite",
                            "lower the learning rate (recipe.lr), lengthen the warm-up, or set recipe.clip")  # fmt: skip
    return StepLoss(nats, counted, grad_norm)


def _shared(model: Losses, batch: MicroBatch, counted: int, tensors: list[Tensor], crew: Crew, places: list[slice]) -> Tensor:
    """The nats of a micro-batch whose parts are computed at once; their gradients are added in the order of the parts."""

    def gradients(part: MicroBatch) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        nats = part.losses(model).sum(dtype=torch.float64)
        return nats.detach(), torch.autograd.grad(nats / counted, tensors, allow_unused=True)

    found = crew.map(gradients, [batch.part(rows) for rows in places])
    for _, added in found:
        kept = [(tensor, gradient) for tensor, gradient in zip(tensors, added, strict=True) if gradient is not None]
        for tensor, gradient in kept:
            if tensor.grad is None:
                tensor.grad = gradient
            else:
                tensor.grad.add_(gradient)
    return torch.stack([nats for nats, _ in found]).sum()


@torch.no_grad()
def gradient_norm(tensors: list[Tensor]) -> Tensor:
    """The Euclidean norm of all gradients together: a float64 scalar on their device (0 when there are none)."""
    gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
    if not gradients:
        return torch.zeros((), dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)).double())


@torch.no_grad()
def clip(tensors: list[Tensor], grad_norm: float, largest: float) -> None:
    """Scale every gradient so that their norm together is at most `largest`."""
    if grad_norm > largest:
        torch._foreach_mul_([tensor.grad for tensor in tensors if tensor.grad is not None], largest / grad_norm)
