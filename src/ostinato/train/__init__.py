"""Training one run: optimizers, steps, checkpoints, the loop. Exact resume, and the same steps for every arm."""

from __future__ import annotations

from ostinato.train.loop import train
from ostinato.train.session import RunRequest

__all__ = ["RunRequest", "train"]
