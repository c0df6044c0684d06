"""A trained decoder back from a run's checkpoint, and the text it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ostinato.data import Prepared
from ostinato.data.prepare import prepare
from ostinato.errors import StoreError, TrainingError
from ostinato.model import Decoder, build, load_weights
from ostinato.store import RunFolder
from ostinato.store.environment import DEVICES
from ostinato.study.records import Arm


def resolved(folder: RunFolder) -> dict[str, Any]:
    """What the run was resolved to. Raises StoreError for a record that does not say."""
    content = folder.resolved()
    if "arm" not in content or "seed" not in content:
        what = f"run {folder.name} does not say which arm it is"
        raise StoreError(what, "record.json holds the resolved arm and seed", "give `ostinato run` again")
    return content


def load_text(folder: RunFolder, cache: Path | None = None) -> Prepared:
    """The prepared text of the run, from the cache or prepared anew. Raises StoreError when the text is no longer the run's."""
    content = resolved(folder)
    prepared = prepare(Arm.model_validate(content["arm"]).data, cache)
    was, now = content["data_fingerprint"], prepared.fingerprint
    if was != now:
        what = f"the text of run {folder.name} has changed: it was {was[:12]}, it is {now[:12]}"
        raise StoreError(what, "a run is read with the text that it was trained on", "restore the corpus, or give `ostinato run` again")
    return prepared


def load_run(folder: RunFolder, tokens: int | None = None, cache: Path | None = None) -> tuple[Decoder, Prepared]:
    """The decoder after `tokens` of training (default: the newest checkpoint) and the text of the run. Raises as the two parts do."""
    prepared = load_text(folder, cache)
    return load_decoder(folder, prepared, tokens), prepared


def device_of(name: str) -> torch.device:
    """`auto` is the GPU where there is one. Raises TrainingError for a device that is not there."""
    if name not in DEVICES:
        raise TrainingError(f"device {name!r}", f"a device is one of {', '.join(DEVICES)}", "use auto")
    if name == "cuda" and not torch.cuda.is_available():
        raise TrainingError("device cuda", "this machine has no GPU that torch can use", "use device auto or cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def load_decoder(folder: RunFolder, prepared: Prepared, tokens: int | None = None, device: torch.device | str = "cpu") -> Decoder:
    """The decoder after training on `tokens` (default: the newest checkpoint). Raises StoreError when there is no such checkpoint."""
    points = folder.checkpoints()
    tokens = max(points, default=None) if tokens is None else tokens
    if tokens is None or tokens not in points:
        found = ", ".join(f"{point:,}" for point in sorted(points)) or "none"
        what = f"run {folder.name} has no checkpoint" + ("" if tokens is None else f" at {tokens:,} tokens")
        fix = f"move {folder.path} away and give `ostinato run` again: it is trained anew, to the same losses"
        if folder.status()["state"] != "done":
            fix = "give `ostinato run` again: it goes on until the end, which is kept"
        if points:
            fix = "name one of these, or none for the newest"
        raise StoreError(what, f"its checkpoints, in tokens: {found}", fix)
    content = resolved(folder)
    arm = Arm.model_validate(content["arm"])
    compute = torch.bfloat16 if arm.recipe.dtype == "bfloat16" else None
    decoder = build(arm.model, prepared.vocab, arm.recipe.context, content["seed"], "meta", bos=prepared.bos, compute_dtype=compute)
    load_weights(decoder, points[tokens] / "weights.safetensors")
    return decoder.to(device).eval()
