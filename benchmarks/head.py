"""Loss and gradient through the head: chunks of tokens beside all logits at once, in time and in memory.

Both sides give the nats of every token and the gradients of the stream and of the head's weight. Memory is the most that torch's
allocator gave out beyond what was there before, gradients included. Logits at once: product, cross-entropy, autograd.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from harness import SHAPES, Row, interleaved, main, medians
from torch import Tensor

from ostinato.measure.memory import allocated
from ostinato.model.head import nats

CASES = {"d 256, vocabulary 16,384, 2,048 tokens": (2048, 256, 16384), "d 512, vocabulary 16,384, 4,096 tokens": (4096, 512, 16384)}
CASES |= {f"shape {name}": (shape.tokens, shape.width, shape.vocab) for name, shape in SHAPES.items()}


def at_once(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> Tensor:
    """All logits, as a training loop writes it."""
    return F.cross_entropy(F.linear(x_ND, weight_VD), targets_N, reduction="sum")


def in_chunks(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> Tensor:
    """As the decoder does it."""
    return nats(x_ND, weight_VD, targets_N, softcap=None, product_dtype=x_ND.dtype).sum()


def compare(name: str, tokens: int, width: int, vocab: int, threads: int, rounds: int) -> list[Row]:
    """Speed and memory."""
    torch.set_num_threads(threads)
    drawn = torch.Generator().manual_seed(1)
    x = torch.randn(tokens, width, generator=drawn).requires_grad_()
    weight = (torch.randn(vocab, width, generator=drawn) / width**0.5).requires_grad_()
    targets = torch.randint(0, vocab, (tokens,), generator=drawn)

    def forget() -> None:
        x.grad = weight.grad = None

    def step(loss):
        def take() -> None:
            forget()
            loss(x, weight, targets).backward()

        return take

    candidates = {"chunks": step(in_chunks), "at once": step(at_once)}
    seconds = medians(interleaved(candidates, rounds, warmup=1))
    held = {}
    for who, take in candidates.items():
        forget()
        held[who] = allocated(take)[1] / 2**20
    asked = "16,384" in name
    claim = f"head, {name}, {threads} thread{'s' * (threads > 1)}"
    products = 6 * tokens * width * vocab / seconds["chunks"] / 1e9
    return [
        Row(claim, seconds["chunks"] * 1e3, seconds["at once"] * 1e3, "ms", seconds["at once"] / seconds["chunks"],
            1.0 if asked else None, peer_name="all logits", notes={"products": f"{products:.0f} GFLOP/s"}),
        Row(f"{claim}, memory", held["chunks"], held["at once"], "MiB", held["chunks"] / held["at once"],
            0.25 if asked else None, at_most=True, peer_name="all logits"),
    ]  # fmt: skip


def measure(quick: bool) -> list[Row]:
    """One thread and two."""
    names = list(CASES)[-3:-2] if quick else list(CASES)
    return [row for threads in (1, 2) for name in names for row in compare(name, *CASES[name], threads, 2 if quick else 3)]


if __name__ == "__main__":
    main(measure, __doc__)
