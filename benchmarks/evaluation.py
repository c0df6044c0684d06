"""Measuring a loss per target: tokens a second of measure_losses beside Hugging Face's Llama over the same windows.

Tokens are inputs. Windows as a study has them: every target counted ("rows"), and documents of which each window scores its second
half ("documents"); one pass takes as many as a training step of the shape. The peer gives logits under inference_mode with torch's
fused attention, eager, then cross-entropy of every position; ours leaves positions that no target needs out of the head.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from harness import SHAPES, Row, Shape, interleaved, main, medians
from peers import hugging_face
from training import arm

from ostinato.data import Targets
from ostinato.measure import measure_losses
from ostinato.model.decoder import build

ROUNDS, PASSES = {"a": 6, "b": 3, "c": 3}, 2


def windows(shape: Shape, counted: int) -> Targets:
    """Full windows of random tokens that score their last `counted` targets."""
    count, rng = shape.rows * PASSES, np.random.default_rng(1)
    flat = rng.integers(0, shape.vocab, (count, shape.context + 1), dtype=np.int32)
    which = np.full(flat.shape, -1, np.int64)
    which[:, -counted:] = np.arange(count * counted).reshape(count, counted)
    each = np.zeros(count * counted, np.int32)
    offsets = np.arange(count + 1) * (shape.context + 1)
    return Targets("", "validation", "", shape.context, 0, each, each, flat[:, -counted:].ravel(), each, each.astype(np.uint64),
                   flat.ravel(), which.ravel(), offsets)  # fmt: skip


def peer(shape: Shape, targets: Targets) -> Callable[[], np.ndarray]:
    """The same losses, in the same order, from Hugging Face's Llama."""
    torch.manual_seed(0)
    model = hugging_face(shape).eval()

    def take() -> np.ndarray:
        losses = np.zeros(len(targets), np.float32)
        for tokens, where in targets.batches(shape.tokens):
            rows = torch.from_numpy(tokens)
            with torch.inference_mode():
                nats = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), reduction="none")
            losses[where[where >= 0]] = nats.view(where.shape).numpy()[where >= 0]
        return losses

    return take


def compare(name: str, kind: str, threads: int, rounds: int) -> Row:
    """Ours beside the peer."""
    torch.set_num_threads(threads)
    shape = SHAPES[name]
    targets = windows(shape, shape.context if kind == "rows" else shape.context // 2)
    decoder = build(arm(shape), shape.vocab, shape.context, seed=1).eval()
    candidates = {"ours": lambda: measure_losses(decoder, targets, shape.tokens, False, 0), "peer": peer(shape, targets)}
    speed = {who: PASSES * shape.tokens / taken for who, taken in medians(interleaved(candidates, rounds, warmup=1)).items()}
    return Row(f"measuring {name}, {kind}, {threads} thread{'s' * (threads > 1)}", speed["ours"], speed["peer"], "tokens/s",
               speed["ours"] / speed["peer"], 1.0, peer_name="Hugging Face Llama")  # fmt: skip


def measure(quick: bool) -> list[Row]:
    """Two threads and one."""
    return [compare(name, kind, threads, 2 if quick else ROUNDS[name])
            for threads in (2, 1) for name in ("a" if quick else SHAPES) for kind in ("rows", "documents")]  # fmt: skip


if __name__ == "__main__":
    main(measure, __doc__)
