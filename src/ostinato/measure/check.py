"""Does a checkpoint give the losses that are stored for it? Measured again, target by target, and said in one word."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from ostinato.data.targets import targets
from ostinato.errors import StoreError
from ostinato.measure.load import load_decoder, load_text, resolved
from ostinato.measure.losses import measure_losses
from ostinato.store import RunFolder, Store
from ostinato.study.records import Arm, Evaluate

Verdict = Literal["bit-identical", "within 1e-6", "not reproduced"]
TOLERANCE = 1e-6


@dataclass(frozen=True)
class PartCheck:
    """One part. largest: of the absolute differences of single targets, in nats. relative: difference of the mean over the stored mean."""

    part: str
    targets: int
    differing: int
    largest: float
    relative: float
    verdict: Verdict


@dataclass(frozen=True)
class Check:
    """A checkpoint measured again. device and threads: as in training where this machine allows."""

    run: str
    arm: str
    seed: int
    tokens: int
    device: str
    threads: int
    parts: tuple[PartCheck, ...]

    @property
    def verdict(self) -> Verdict:
        """That of the worst part."""
        order: tuple[Verdict, ...] = ("bit-identical", "within 1e-6", "not reproduced")
        return max((part.verdict for part in self.parts), key=order.index)

    @property
    def reproduced(self) -> bool:
        return self.verdict != "not reproduced"

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {**asdict(self), "parts": [asdict(part) for part in self.parts], "verdict": self.verdict, "reproduced": self.reproduced}

    def __str__(self) -> str:
        head = f"run {self.run} ({self.arm}, seed {self.seed}) at {self.tokens:,} tokens, measured again on {self.device}: {self.verdict}"
        lines = [f"  {part.part}: {part.targets:,} targets, {part.differing:,} differ, by at most {part.largest:.2g} nats "
                 f"(mean: {part.relative:.2g} relative)" for part in self.parts]  # fmt: skip
        return "\n".join([head, *lines])


def check(folder: RunFolder, store: Store, tokens: int | None = None, cache: Path | None = None) -> Check:
    """Measure the checkpoint at `tokens` again (default: the newest that was measured) and compare with what is stored.

    Within 1e-6: the mean loss of each part agrees to 1e-6 relative. Raises StoreError without a measured checkpoint, or for changed text.
    """
    content = resolved(folder)
    arm, evaluate = Arm.model_validate(content["arm"]), Evaluate.model_validate(folder.evaluation_record())
    held = folder.checkpoints()
    points = sorted({at for _, at in folder.measured()} & set(held))
    tokens = points[-1] if tokens is None and points else tokens
    if tokens is None or tokens not in points:
        what = f"run {folder.name} has no measured checkpoint" + ("" if tokens is None else f" at {tokens:,} tokens")
        can = ", ".join(f"{at:,}" for at in points) or "nothing yet"
        fix = "choose one of these; `checkpoints: {every: …}` in a study keeps more" if points else "give `ostinato run` again"
        raise StoreError(what, f"what can be checked, in tokens: {can}", fix)
    prepared = load_text(folder, cache)
    with _as_in_training(held[tokens]) as (device, threads):
        decoder = load_decoder(folder, prepared, tokens, device)
        parts = []
        for part in sorted({name for name, at in folder.measured() if at == tokens}):
            wanted, stored = targets(prepared, part, evaluate, arm.recipe.context), folder.read_losses(part, tokens)
            if wanted.id != stored.target_id:
                raise StoreError(f"the {part} targets of run {folder.name} have changed", "losses are compared on the same targets",
                                 "use the version of ostinato that measured them (record.json)")  # fmt: skip
            measured = measure_losses(decoder, wanted, evaluate.batch, arm.data.document_mask, prepared.bos)
            parts.append(compare_losses(part, stored.losses, measured))
    return Check(folder.name, arm.name, content["seed"], tokens, device, threads, tuple(parts))


def compare_losses(part: str, stored: np.ndarray, measured: np.ndarray) -> PartCheck:
    """stored, measured: float32 [N] nats of the same targets."""
    difference = np.abs(measured.astype(np.float64) - stored.astype(np.float64))
    if not len(difference):
        return PartCheck(part, 0, 0, 0.0, 0.0, "bit-identical")
    before, after = stored.sum(dtype=np.float64), measured.sum(dtype=np.float64)
    relative = float(abs(after - before) / max(abs(before), np.finfo(np.float64).tiny))
    differing = int(np.count_nonzero(difference))
    verdict: Verdict = "bit-identical" if differing == 0 else "within 1e-6" if relative <= TOLERANCE else "not reproduced"
    return PartCheck(part, len(difference), differing, float(difference.max()), relative, verdict)


@contextlib.contextmanager
def _as_in_training(checkpoint: Path) -> Iterator[tuple[str, int]]:
    """The device (where this machine has it) and the number of threads that the checkpoint's manifest names."""
    manifest = json.loads((checkpoint / "manifest.json").read_text(encoding="utf-8"))
    device = "cuda" if manifest.get("device") == "cuda" and torch.cuda.is_available() else "cpu"
    before = torch.get_num_threads()
    threads = manifest.get("threads") or before
    torch.set_num_threads(threads)
    try:
        yield device, threads
    finally:
        torch.set_num_threads(before)
