"""Milliseconds of an optimizer step on one thread: our Muon beside torch.optim.Muon on the same matrices, and AdamW on the rest.

    python benchmarks/muon_step.py [--rounds 60] [--json muon_step.json]

All take turns within one run, so that whatever else the machine does falls on each; times are of the process, not of the clock.
Shapes: 4 layers, d_model 64, SwiGLU of 256, vocabulary 512: 28 matrices of 3 shapes in Muon, 10 tensors in AdamW, float32.
torch.optim.Muon does less: Newton-Schulz in bfloat16, one matrix at a time, no second moment and no cautious decay.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from ostinato.ledger.inventory import inventory
from ostinato.model.decoder import build
from ostinato.study.derive import optimizer_groups
from ostinato.study.records import Mlp, Model, Recipe
from ostinato.train.groups import assign
from ostinato.train.optimizers import Optimizers

MODEL = Model(layers=("gqa",) * 4, d_model=64, heads=4, mlp=Mlp(hidden=256))
VOCAB, CONTEXT = 512, 128


def ours(weight_decay: float) -> Optimizers:
    """The optimizers of a fresh model, every tensor with a gradient."""
    decoder = build(MODEL, VOCAB, CONTEXT, seed=1)
    recipe = Recipe(weight_decay=weight_decay)
    roles = {row.name: row.role for row in inventory(MODEL, VOCAB, CONTEXT)}
    found = Optimizers(assign(decoder, roles, optimizer_groups(recipe, MODEL)), recipe.muon)
    for tensor in found.tensors:
        tensor.grad = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1)) / 100
    return found


def candidates() -> dict[str, Callable[[], None]]:
    """What is timed, by name."""
    plain, decayed = ours(0.0), ours(0.1)
    matrices = [tensor for group in ours(0.0).groups if group.kind == "muon" for tensor in group.tensors]
    theirs = torch.optim.Muon(matrices, lr=0.02, weight_decay=0.1, nesterov=True)
    return {
        "Muon": lambda: plain.muon.step(1.0, 0.95, 1.0),
        "Muon, cautious decay": lambda: decayed.muon.step(1.0, 0.95, 1.0),
        "torch.optim.Muon": theirs.step,
        "AdamW": lambda: plain.adamw.step(1.0, 1.0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    steps = candidates()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for round_number in range(given.rounds + 3):
        for name, step in steps.items():
            began = time.process_time()
            step()
            if round_number >= 3:
                times[name].append(1e3 * (time.process_time() - began))
    rows = {name: {"median_ms": statistics.median(values), "fastest_ms": min(values)} for name, values in times.items()}
    print(f"torch {torch.__version__}, {platform.processor() or platform.machine()}, one thread, {given.rounds} rounds")
    for name, row in rows.items():
        print(f"{name:24} {row['median_ms']:8.2f} ms   fastest {row['fastest_ms']:8.2f} ms")
    if given.json:
        given.json.write_text(json.dumps({"torch": torch.__version__, "rounds": given.rounds, "steps": rows}, indent=1))


if __name__ == "__main__":
    main()
