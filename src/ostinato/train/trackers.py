"""The curves of a run while it goes on: TensorBoard where it is installed, and the trackers that the launcher brings.

A tracker can never hurt the run: one that raises, at whatever call, is dropped with one line. Held-out losses are never among the curves.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ostinato.train.trainer import StepRecord

log = logging.getLogger("ostinato")
notices = logging.getLogger("ostinato.trackers")  # what a person should see, wherever the run is

CLOSE_SECONDS = 3.0


class Tracker(Protocol):
    """Takes scalars by step. Its `log` returns at once; what takes time happens elsewhere."""

    title: str

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        """Take the scalars of a step; steps ascend."""

    def close(self, until: float) -> None:
        """No more comes. Return when all is written, and not much later than `until` (time.monotonic)."""


Opener = Callable[[int], Tracker]
"""Opens a tracker of a run of which so many steps are done."""


class TensorBoard:
    """Scalars in the folder of the run."""

    title = "TensorBoard"

    def __init__(self, folder: Path, steps_done: int):
        """steps_done: what the folder holds after that step was drawn by a session that was cut off, and is hidden."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=steps_done + 1 if steps_done else None, flush_secs=10)

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, step)

    def close(self, until: float) -> None:
        self._writer.close()


def tensorboard(folder: Path) -> list[Opener]:
    """Opens TensorBoard in `folder`; nothing, with a line in the log, where it is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        log.info("no TensorBoard curves: it is not installed (pip install tensorboard)")
        return []
    return [lambda steps_done: TensorBoard(folder, steps_done)]


class Trackers:
    """All trackers of a run as one that never raises."""

    def __init__(self, openers: Sequence[Opener], steps_done: int):
        self._open: list[Tracker] = []
        for opener in openers:
            try:
                self._open.append(opener(steps_done))
            except Exception as error:
                notices.warning("a tracker could not be opened: %s; the run goes on without it", _said(error))

    def step(self, record: StepRecord, tokens_per_s: float, more: Mapping[str, float] | None = None) -> None:
        """loss, lr, grad_norm and tokens per second of a training step, and more scalars of it."""
        values = {"loss": record.loss, "lr": record.lr, "grad_norm": record.grad_norm, "tokens_per_s": tokens_per_s}
        self._log({f"train/{name}": value for name, value in values.items()} | dict(more or {}), record.step)

    def validation(self, nats: float, step: int) -> None:
        """Nats per token of the validation part."""
        self._log({"validation/nats": nats}, step)

    def close(self) -> None:
        """Let go of all of them, within CLOSE_SECONDS or about that."""
        until = time.monotonic() + CLOSE_SECONDS
        for tracker in self._open:
            try:
                tracker.close(until)
            except Exception as error:
                notices.warning("%s: %s while it was closed; the run is not hurt", tracker.title, _said(error))
        self._open = []

    def _log(self, scalars: Mapping[str, float], step: int) -> None:
        for tracker in list(self._open):
            try:
                tracker.log(scalars, step)
            except Exception as error:
                self._open.remove(tracker)
                notices.warning("%s: %s; its curves end here, the run goes on", tracker.title, _said(error))


def _said(error: Exception) -> str:
    """The kind and the first line of an error."""
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
