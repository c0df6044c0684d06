"""TensorBoard, when it is installed: the curves of a run while it goes on. Held-out losses are not among them."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path

from ostinato.train.trainer import StepRecord

log = logging.getLogger("ostinato")


class Board:
    """Scalars by step. Without TensorBoard, or when it is not wanted, it says so once and does nothing."""

    def __init__(self, folder: Path, wanted: bool, steps_done: int):
        """steps_done: what the folder holds after that step was drawn by a session that was cut off, and is hidden."""
        self._writer = None
        if not wanted:
            return
        if importlib.util.find_spec("tensorboard") is None:
            log.info("no TensorBoard curves: it is not installed (pip install tensorboard)")
            return
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=steps_done + 1 if steps_done else None, flush_secs=10)

    def step(self, record: StepRecord, tokens_per_s: float) -> None:
        """loss, lr, grad_norm and tokens per second of a training step."""
        if self._writer is not None:
            for name, value in (("loss", record.loss), ("lr", record.lr), ("grad_norm", record.grad_norm), ("tokens_per_s", tokens_per_s)):
                self._writer.add_scalar(f"train/{name}", value, record.step)

    def validation(self, nats: float, step: int) -> None:
        """Nats per token of the validation part."""
        if self._writer is not None:
            self._writer.add_scalar("validation/nats", nats, step)

    def close(self) -> None:
        """Flush and let go of the folder."""
        if self._writer is not None:
            self._writer.close()
