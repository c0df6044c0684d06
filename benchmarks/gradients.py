"""What looking at the gradients of every 50th step costs training, as a share of its time; asked: under 2%.

A plain step and the same step looked at take turns on one trainer, on a prepared text of drawn words: the difference is what one look
costs, and a fiftieth of it, over a plain step, is the share. The arms are those that run twice, whose looks cost the most: each
application has gradients of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import SHAPES, Row, Shape, interleaved, main, medians

from ostinato.data.prepare import prepare
from ostinato.data.prepared import Prepared
from ostinato.study.families import with_family
from ostinato.study.records import Arm, Data, Gradients, Model, Recipe, Tokenizer
from ostinato.train import gradients as room
from ostinato.train.machine import choose
from ostinato.train.trainer import Trainer

DESK = Shape(64, 4, 172, 512, 128, 8, 4)
"""As in training.py: a desk study's runs, which have a thread each."""
ROUNDS = {"desk": 60, "a": 12, "b": 4}
EVERY = Gradients().every
TEXT = 2_000_000
"""Characters of the text: enough for a step of every shape."""


def text(folder: Path, vocab: int) -> Prepared:
    """Documents of drawn words, some far more frequent than others."""
    draw = np.random.default_rng(1)
    words = ["".join(chr(97 + letter) for letter in draw.integers(0, 26, draw.integers(2, 9))) for _ in range(20_000)]
    picked = (draw.random(TEXT // 6) ** 3 * len(words)).astype(int)
    lines = [" ".join(words[index] for index in part) for part in np.array_split(picked, 400)]
    (folder / "text.txt").write_text("\n%%\n".join(lines), encoding="utf-8")
    given = Data(corpus=str(folder / "text.txt"), separator="\n%%\n", tokenizer=Tokenizer(bpe=vocab), packing="contiguous")
    return prepare(given, folder / "cache")


def trainer(shape: Shape, threads: int, prepared: Prepared) -> Trainer:
    """Of the Llama family at this shape, its stack run twice."""
    given = {"layers": shape.layers, "d_model": shape.width, "heads": shape.heads, "mlp": {"hidden": shape.hidden},
             "schedule": f"1..{shape.layers} 1..{shape.layers}"}  # fmt: skip
    recipe = Recipe(tokens=shape.tokens * 100_000, batch=shape.tokens, context=shape.context, optimizer="adamw", lr=1e-3)
    arm = Arm(name="twice", model=Model.model_validate(with_family(given)), recipe=recipe, data=prepared.data, seeds=(1,))
    return Trainer(arm, 1, prepared, choose("cpu", "float32", threads, False))


def compare(name: str, threads: int, rounds: int, folder: Path) -> Row:
    """The share of training time that goes into looking."""
    shape = DESK if name == "desk" else SHAPES[name]
    made = trainer(shape, threads, text(folder, shape.vocab))
    look = room.Gradients(made, 1)  # whatever step its turn falls on
    candidates: dict[str, Callable[[], object]] = {"plain": made.step, "looked at": lambda: look.of(made.step)}
    with made.machine.session():
        seconds = medians(interleaved(candidates, rounds, warmup=1))
    share = 100 * (seconds["looked at"] - seconds["plain"]) / seconds["plain"] / EVERY
    notes = {"rows of a step looked at": f"{look.rows} of {shape.rows}",
             "a look": f"{1e3 * (seconds['looked at'] - seconds['plain']):.1f} ms, a step {1e3 * seconds['plain']:.1f} ms"}  # fmt: skip
    return Row(f"gradients of every {EVERY}th step {name}, {threads} thread{'s' * (threads > 1)}", share, 2.0, "%", share, 2.0, True,
               notes=notes)  # fmt: skip


def measure(quick: bool) -> list[Row]:
    """A desk study's run on one thread, larger ones on two."""
    cases = [("desk", 1)] if quick else [("desk", 1), ("a", 2), ("b", 2)]
    found = []
    for name, threads in cases:
        with tempfile.TemporaryDirectory() as folder:
            found.append(compare(name, threads, 3 if quick else ROUNDS[name], Path(folder)))
    return found


if __name__ == "__main__":
    main(measure, __doc__)
