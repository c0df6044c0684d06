"""One process of a calibration: `python -m ostinato.launch.probe REQUEST` takes training steps of every probe and prints what they took.

Each line that it prints is one JSON object: {"ready"} after the first step of all, {"probe", "step", "forward"} in seconds, {"done"}. It
then goes on stepping until its input ends, so that others that still measure have the company of a whole study.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ostinato.data.prepared import Prepared
from ostinato.data.targets import targets
from ostinato.launch.probes import Probe
from ostinato.measure import measure_losses
from ostinato.measure.speed import median_seconds
from ostinato.study.records import Arm, Evaluate
from ostinato.train.machine import choose
from ostinato.train.trainer import Trainer

LEAST = 10
"""Probes of each process, however long they take: the fit has no more counts than that."""


class Numbers(Prepared):
    """A text of random tokens, in documents of four rows: as many steps of a probe as it may take, and a little to measure."""

    @classmethod
    def of(cls, arm: Arm, vocab: int, step_tokens: int) -> Numbers:
        sizes = {"train": 8 * step_tokens + 1, "validation": max(1024, step_tokens), "held_out": 1024}
        parts = {part: {"tokens": tokens} for part, tokens in sizes.items()}
        manifest = {"vocab": vocab, "bos": 0, "text_fingerprint": "random", "parts": parts, "document": 4 * arm.recipe.context}
        return cls(Path(), manifest, arm.data, Path())

    def tokens(self, part: str) -> np.ndarray:
        made = np.random.Generator(np.random.Philox(len(part))).integers(1, self.vocab, self.sizes[part], np.uint16)
        made[:: self.manifest["document"]] = 0
        return made

    def doc_starts(self, part: str) -> np.ndarray:
        return np.append(np.arange(0, self.sizes[part], self.manifest["document"]), self.sizes[part])

    def doc_digests(self, part: str) -> np.ndarray:
        return np.arange(len(self.doc_starts(part)) - 1, dtype=np.uint64)

    @cached_property
    def token_bytes(self) -> np.ndarray:
        return np.minimum(np.arange(self.vocab), 1).astype(np.int32)

    @cached_property
    def vocabulary(self) -> SimpleNamespace:
        return SimpleNamespace(prefix=0)


def trainer_of(probe: Probe, device: str, dtype: str, threads: int, compiled: bool = False) -> Trainer:
    """A probe in training."""
    arm = probe.arm(dtype)
    machine = choose(device, dtype, threads, compiled)
    return Trainer(arm, 1, Numbers.of(arm, probe.vocab, probe.rows * probe.context), machine)


def forward_of(trainer: Trainer) -> tuple[Callable[[], Any], int]:
    """A measurement of the trainer's model, and how many targets it scores."""
    wanted = targets(trainer.prepared, "validation", Evaluate(), trainer.arm.recipe.context)
    batch = Evaluate().batch
    return lambda: measure_losses(trainer.decoder, wanted, batch, trainer.arm.data.document_mask, trainer.prepared.bos), len(wanted)


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main(request: dict[str, Any]) -> None:
    """request: device, dtype, threads, probes (as records), turn (with which this process begins), seconds (for each), most (for all,
    beyond LEAST of them), compiled."""
    given = (request["device"], request["dtype"], request["threads"])
    probes = [Probe(**record) for record in request["probes"]]
    order = [*range(request["turn"], len(probes)), *range(request["turn"])]
    with choose(*given, False).session():
        last = trainer_of(probes[order[0]], *given)
        last.step()
        _say(ready=True)
        began = time.monotonic()
        for place, index in enumerate(order):
            if place >= LEAST and time.monotonic() - began > request["most"]:
                break  # a machine that is busy: the fit has fewer probes, and says how far off it is
            last = trainer_of(probes[index], *given)
            step = median_seconds(last.step, request["seconds"])
            measure, scored = forward_of(last)
            _say(probe=index, step=step, forward=median_seconds(measure, request["seconds"] / 4, 1), scored=scored)
            if request["compiled"]:
                _say(probe=index, **_compiled(probes[index], given, step, request["seconds"]))
        _say(done=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            last.step()


def _compiled(probe: Probe, given: tuple[str, str, int], eager: float, seconds: float) -> dict[str, float]:
    trainer = trainer_of(probe, *given, compiled=True)
    began = time.perf_counter()
    trainer.step()
    taken = time.perf_counter() - began
    step = median_seconds(trainer.step, seconds)
    return {"compiling": max(0.0, taken - step), "ratio": eager / step}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
