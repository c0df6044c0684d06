"""Checkpoints: a folder that appears whole or not at all, says what it holds, and is believed only after its checksums.

    checkpoints/000000204800/      named by the tokens trained on
        weights.safetensors        every parameter once
        optimizer.safetensors      what the next step depends on besides: moments and counts, by parameter
        manifest.json              step, tokens, size and sha256 of each file, versions; and the sha256 of all that

Nothing in training draws random numbers after the start (weights follow from seed and name, batches from seed and step),
so weights, optimizer state and the number of the step are the whole state of a run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as as_bytes
from torch import Tensor

from ostinato.errors import StoreError
from ostinato.files import new_folder, sha256
from ostinato.model.decoder import Decoder
from ostinato.model.save import load_weights, save_weights
from ostinato.store.environment import machine
from ostinato.store.tables import now
from ostinato.train.optimizers import Optimizers

log = logging.getLogger("ostinato")

FORMAT = 1
WEIGHTS, OPTIMIZER, MANIFEST = "weights.safetensors", "optimizer.safetensors", "manifest.json"
_NAME = re.compile(r"\d{12,}")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose manifest is whole and whose files have the right sizes; `broken` looks at their content."""

    path: Path
    manifest: Mapping[str, Any]

    @property
    def step(self) -> int:
        """Steps done."""
        return self.manifest["step"]

    @property
    def tokens(self) -> int:
        """Tokens trained on."""
        return self.manifest["tokens"]

    @property
    def weights(self) -> Path:
        """The file that `model.load_weights` reads."""
        return self.path / WEIGHTS

    def broken(self) -> str | None:
        """Why the content cannot be believed (reads every byte), None when it can."""
        for name, about in self.manifest["files"].items():
            if sha256(self.path / name) != about["sha256"]:
                return f"{name} does not have the checksum of its manifest"
        return None

    def differences(self, about: Mapping[str, Any]) -> str:
        """What of versions, device, threads, compilation and micro-batch was otherwise when it was written; "" when nothing was."""
        now = {**machine()["versions"], **about}
        then = {**self.manifest["versions"], **self.manifest}
        names = [*self.manifest["versions"], "device", "threads", "compiled", "rows_at_once"]
        return "; ".join(f"{name} {then.get(name)}, now {now.get(name)}" for name in names if then.get(name) != now.get(name))

    def load(self, decoder: Decoder, optimizers: Optimizers) -> None:
        """Fill model and optimizers. Raises StoreError when the content does not fit them."""
        load_weights(decoder, self.path / WEIGHTS)
        try:
            state = load_file(self.path / OPTIMIZER)
        except (OSError, SafetensorError) as error:
            raise StoreError(f"{self.path / OPTIMIZER} cannot be read ({error})", "an optimizer state is one whole safetensors file",
                             f"delete {self.path}: the run then goes on from the checkpoint before") from None  # fmt: skip
        optimizers.load(state)


def save(root: Path, step: int, tokens: int, decoder: Decoder, optimizer: Mapping[str, Tensor], about: Mapping[str, Any]) -> Checkpoint:
    """Write the checkpoint of `tokens` under `root`, replacing one of the same name at the moment that the new one is whole.

    about: further entries of the manifest (why it was saved, device, threads). Raises StoreError when it cannot be written (a
    full disk); whatever was there before is then untouched.
    """
    path = root / f"{tokens:012d}"
    try:
        with new_folder(path) as scratch:
            save_weights(decoder, scratch / WEIGHTS)
            (scratch / OPTIMIZER).write_bytes(as_bytes({name: tensor.detach().cpu().clone() for name, tensor in optimizer.items()}))
            files = {name: {"bytes": (scratch / name).stat().st_size, "sha256": sha256(scratch / name)} for name in (WEIGHTS, OPTIMIZER)}
            manifest = {
                "format": FORMAT,
                "step": step,
                "tokens": tokens,
                "written": now(),
                "files": files,
                "versions": machine()["versions"],
                **about,
            }
            (scratch / MANIFEST).write_text(json.dumps(manifest | {"sha256": _seal(manifest)}, indent=1), encoding="utf-8")
    except OSError as error:
        before = ", ".join(found.path.name for found in listing(root)[-1:])
        kept = f"the one before ({before} tokens) is whole" if before else "there is none before it"
        raise StoreError(f"checkpoint {path} could not be saved: {error.strerror or error}", f"a checkpoint is whole or not there; {kept}",
                         "make room on the disk, then give the same command again: it goes on from there") from None  # fmt: skip
    return Checkpoint(path, manifest)


def listing(root: Path) -> list[Checkpoint]:
    """The checkpoints under `root` in the order of their tokens. A torn one is named in the log and left out."""
    found = []
    for path in sorted(path for path in root.glob("*") if _NAME.fullmatch(path.name)):
        checkpoint = _read(path)
        if isinstance(checkpoint, str):
            _skip(path, checkpoint)
        else:
            found.append(checkpoint)
    return sorted(found, key=lambda checkpoint: checkpoint.tokens)


def newest(root: Path, tokens: int | None = None) -> Checkpoint | None:
    """The newest complete checkpoint, at most at `tokens`; torn ones on the way are named in the log and skipped."""
    for checkpoint in reversed(listing(root)):
        if tokens is not None and checkpoint.tokens > tokens:
            continue
        broken = checkpoint.broken()
        if broken is None:
            return checkpoint
        _skip(checkpoint.path, broken)
    return None


def prune(root: Path, keep: str, measured: Collection[int], points: Collection[int]) -> None:
    """Delete what the rules do not keep.

    The newest two stay always, and those at measurements. keep "all": those at `points` too, so only safety copies go.
    """
    found = listing(root)
    kept = set(measured) | (set(points) if keep == "all" else set())
    for checkpoint in found[:-2]:
        if checkpoint.tokens not in kept:
            leaving = checkpoint.path.with_name(f".{checkpoint.path.name}.leaving")
            checkpoint.path.rename(leaving)
            shutil.rmtree(leaving)


def sweep(root: Path) -> None:
    """Delete what a save or a removal that was cut off left behind, and name it in the log. Only the holder of the run's lock may."""
    for path in root.glob(".*"):
        if path.is_dir() and _NAME.match(path.name.removeprefix(".")):
            log.warning("%s is left from a checkpoint that was cut off while it was saved or deleted: removed", path)
            shutil.rmtree(path)


def _read(path: Path) -> Checkpoint | str:
    """The checkpoint in a folder, or why there is none."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except (OSError, ValueError) as error:
        return f"{MANIFEST} cannot be read: {error}"
    if not isinstance(manifest, dict) or manifest.pop("sha256", None) != _seal(manifest):
        return f"{MANIFEST} does not have its own checksum"
    if manifest["format"] != FORMAT:
        return f"it has format {manifest['format']}, this version reads {FORMAT}"
    for name, about in manifest["files"].items():
        try:
            size = (path / name).stat().st_size
        except OSError:
            return f"{name} is missing"
        if size != about["bytes"]:
            return f"{name} has {size:,} bytes of {about['bytes']:,}"
    return Checkpoint(path, manifest)


def _skip(path: Path, why: str) -> None:
    log.warning("checkpoint %s is torn (%s): skipped", path, why)


def _seal(manifest: Any) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
