"""Activation checkpointing per application: memory and time of 18 applications of 6 layers, with it and without.

Forward and backward pass at shapes of d 256 and 512, rows of 512 tokens. Activation memory: the most that torch's allocator gave out
in the pass, less the gradients of the weights. A whole training step's peak adds weights, gradients and AdamW's two moments; the twin
has the same six layers, each once, without checkpointing.
"""

from __future__ import annotations

import torch
from harness import Row, interleaved, main, medians

from ostinato.measure.memory import allocated, held
from ostinato.model.decoder import build
from ostinato.study.records import Mlp, Model

VOCAB, CONTEXT, ROWS = 8192, 512, 4
LOOPED = "(1..6)x3"


def compare(width: int, threads: int, rounds: int) -> list[Row]:
    """Memory, time and the twin's peak."""
    torch.set_num_threads(threads)
    tokens = torch.randint(0, VOCAB, (ROWS, CONTEXT + 1), generator=torch.Generator().manual_seed(1))
    decoders = {}
    for name, schedule, checkpointing in (("with", LOOPED, True), ("without", LOOPED, False), ("twin", None, False)):
        model = Model(layers=("gqa",) * 6, d_model=width, heads=width // 64, mlp=Mlp(hidden=width * 43 // 16), schedule=schedule)
        decoders[name] = build(model, VOCAB, CONTEXT, seed=1)
        decoders[name].activation_checkpointing = checkpointing

    def take(name: str) -> None:
        forget(name)
        decoders[name].losses(tokens[:, :-1], tokens[:, 1:]).sum().backward()

    def forget(name: str) -> None:
        for parameter in decoders[name].parameters():
            parameter.grad = None

    seconds = medians(interleaved({name: lambda name=name: take(name) for name in ("with", "without")}, rounds, warmup=1))
    weights = held(decoders["with"].parameters()) / 2**20
    most = {}
    for name in decoders:
        forget(name)
        most[name] = allocated(lambda name=name: take(name))[1] / 2**20
    activations = {name: value - weights for name, value in most.items()}
    step = {name: value + 3 * weights for name, value in most.items()}  # weights and two moments beside them
    claim = f"18 applications of 6 layers, d {width}, {threads} thread{'s' * (threads > 1)}"
    return [
        Row(f"{claim}: activations", activations["with"], activations["without"], "MiB", activations["with"] / activations["without"],
            0.33, at_most=True, peer_name="not checkpointed"),
        Row(f"{claim}: time", seconds["with"] * 1e3, seconds["without"] * 1e3, "ms", seconds["with"] / seconds["without"], 1.35,
            at_most=True, peer_name="not checkpointed"),
        Row(f"{claim}: peak of a step", step["with"], step["twin"], "MiB", step["with"] / step["twin"], 1.15, at_most=True,
            peer_name="each layer once, not checkpointed"),
    ]  # fmt: skip


def measure(quick: bool) -> list[Row]:
    """One thread, and two."""
    return [row for threads in (1, 2) for width in ((256,) if quick else (256, 512)) for row in compare(width, threads, 1 if quick else 3)]


if __name__ == "__main__":
    main(measure, __doc__)
