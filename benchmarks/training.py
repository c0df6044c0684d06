"""Tokens a second of whole training steps: ours beside Hugging Face's Llama, nanoGPT's architecture and x-transformers.

A step is forward, backward and AdamW on every tensor, in float32, from the same tokens; nobody clips. Ours also sums its nats in
float64 and takes the norm of its gradient, as every run does. Each side is measured eager and compiled, in turns, and counts at
its best. share of the floor: of the time that the step's matrix products and attention take alone (floor.py).
"""

from __future__ import annotations

from collections.abc import Callable

import floor
import torch
from harness import SHAPES, Row, Shape, interleaved, main, medians, paired
from peers import PEERS, step
from torch import Tensor

from ostinato.ledger.inventory import inventory
from ostinato.model.decoder import build
from ostinato.study.derive import optimizer_groups
from ostinato.study.records import Mlp, Model, Recipe
from ostinato.train.crew import LEAST, Crew
from ostinato.train.groups import assign
from ostinato.train.machine import choose
from ostinato.train.optimizers import Optimizers
from ostinato.train.schedules import Settings
from ostinato.train.step import MicroBatch, accumulate

DESK = Shape(64, 4, 172, 512, 128, 8, 4)
"""Of a desk study's runs, which have a thread each."""
ROUNDS = {"a": 30, "b": 8, "c": 6, "desk": 60}


def arm(shape: Shape) -> Model:
    """The Llama family at this shape."""
    return Model(layers=("gqa",) * shape.layers, d_model=shape.width, heads=shape.heads, mlp=Mlp(hidden=shape.hidden))


def ours(shape: Shape, tokens: Callable[[], tuple[Tensor, Tensor]], compiled: bool = False) -> Callable[[], float]:
    """A training step as train/trainer.py takes it."""
    model, recipe = arm(shape), Recipe(optimizer="adamw", lr=1e-3, weight_decay=0.1)
    decoder = build(model, shape.vocab, shape.context, seed=1, compiled=compiled)
    roles = {row.name: row.role for row in inventory(model, shape.vocab, shape.context)}
    optimizers = Optimizers(assign(decoder, roles, optimizer_groups(recipe, model)), recipe.muon)
    crew = Crew(torch.get_num_threads(), LEAST // shape.width) if torch.get_num_threads() > 1 else None

    def take() -> float:
        optimizers.clear_gradients()
        loss = accumulate(decoder, [MicroBatch(*tokens())], optimizers.tensors, crew=crew)
        optimizers.step(Settings(rate=1.0, momentum=0.95, decay=1.0))
        return loss.loss

    return take


def source(shape: Shape) -> Callable[[], tuple[Tensor, Tensor]]:
    """Tokens and targets of a step, new ones every time, unevenly frequent as in text."""
    drawn = torch.Generator().manual_seed(1)

    def tokens() -> tuple[Tensor, Tensor]:
        rows = (torch.rand(shape.rows, shape.context + 1, generator=drawn).square() * shape.vocab).long()
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    return tokens


def candidates(shape: Shape, compiled: tuple[bool, ...] = (False, True)) -> dict[str, Callable[[], float]]:
    """Every step by name. A peer that is not installed is left out, and said so."""
    found: dict[str, Callable[[], float]] = {}
    for mode in compiled:
        suffix = ", compiled" if mode else ""
        found["ostinato" + suffix] = ours(shape, source(shape), mode)
        for name, make in PEERS.items():
            try:
                torch.manual_seed(0)
                found[name + suffix] = step(make(shape), shape, source(shape), mode)
            except ImportError as error:
                print(f"{name} is left out: {error} (pip install 'ostinato[bench]')")
    return found


def compare(name: str, threads: int, rounds: int, compiled: tuple[bool, ...] = (False, True)) -> Row:
    """Ours at its best beside the fastest peer at its best."""
    shape = DESK if name == "desk" else SHAPES[name]
    torch.compiler.reset()  # torch compiles a peer's loss for eight shapes and models at most, then goes on in eager code
    with choose("cpu", "float32", threads, False).session():
        floor_seconds = floor.seconds(shape, 0.2)
        turns = interleaved(candidates(shape, compiled), rounds, warmup=2)
    seconds = medians(turns)
    speed = {who: shape.tokens / taken for who, taken in seconds.items()}
    own = max((who for who in speed if who.startswith("ostinato")), key=speed.__getitem__)
    peer = max((who for who in speed if not who.startswith("ostinato")), key=speed.__getitem__)
    notes = {who: f"{value:,.0f} tokens/s, {floor_seconds / seconds[who]:.0%} of the floor" for who, value in
             sorted(speed.items(), key=lambda pair: -pair[1])}  # fmt: skip
    claim = f"training step {name}, {threads} thread{'s' * (threads > 1)}"
    return Row(claim, speed[own], speed[peer], "tokens/s", paired(turns[own], turns[peer]), 1.0 if threads == 2 else None,
               peer_name=peer, notes=notes)  # fmt: skip


def measure(quick: bool) -> list[Row]:
    """Two threads, for the targets; one for a run of a desk study."""
    cases = [("desk", 1)] if quick else [*((name, 2) for name in SHAPES), ("desk", 1)]
    return [compare(name, threads, 3 if quick else ROUNDS[name], (False,) if quick else (False, True)) for name, threads in cases]


if __name__ == "__main__":
    main(measure, __doc__)
