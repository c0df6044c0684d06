"""Compiled training: what one layer applied 16 times takes to compile, how fast it then runs, and when compiling repays itself.

1. Seconds to compile (the first forward and backward pass, less one that follows) with no code on disk: 16 applications of one layer
   against one application.  The compiler is warm: what it does once a process or a machine is in neither.
2. Steady forward and backward passes of the 16 applications: ours, in one graph a kind, against torch.compile of the whole unrolled walk.
3. Passes compiled against eager at the shapes a, b, c, with one thread and with two; the seconds that compiling took, without and with the
   code on disk, and the passes that repay them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from harness import SHAPES, Row, Shape, interleaved, main, medians

from ostinato.model.decoder import Decoder, build
from ostinato.study.records import Model

TIMES = 16


def made(shape: Shape, compiled: bool, schedule: str | None = None) -> Decoder:
    """A decoder of this shape; with a schedule, of one layer."""
    layers = ("gqa",) * (1 if schedule else shape.layers)
    model = Model(layers=layers, d_model=shape.width, heads=shape.heads, mlp={"hidden": shape.hidden}, schedule=schedule)
    return build(model, shape.vocab, shape.context, 1, compiled=compiled)


def passing(decoder: Decoder, shape: Shape) -> Callable[[], None]:
    """One forward and backward pass over a batch."""
    tokens = torch.randint(0, shape.vocab, (shape.rows, shape.context + 1), generator=torch.Generator().manual_seed(1))

    def one() -> None:
        decoder.zero_grad(set_to_none=True)
        (decoder.losses(tokens[:, :-1], tokens[:, 1:]).sum() / shape.tokens).backward()

    return one


def first(decoder: Decoder, shape: Shape) -> float:
    """Seconds that the first pass takes more than the third."""
    one, seconds = passing(decoder, shape), []
    for _ in range(3):
        began = time.perf_counter()
        one()
        seconds.append(time.perf_counter() - began)
    return seconds[0] - seconds[2]


def whole_walk(shape: Shape, schedule: str) -> Decoder:
    """The same model with all of its walk as one graph, as one graph."""
    decoder = made(shape, False, schedule)
    decoder._walk = torch.compile(decoder._walk, fullgraph=True, dynamic=False)
    return decoder


def shared(quick: bool) -> list[Row]:
    """Parts 1 and 2, at shape a with a quarter of its rows."""
    from torch._inductor.utils import fresh_cache

    whole = SHAPES["a"]
    shape = Shape(whole.width, 1, whole.hidden, whole.vocab, whole.context, whole.rows // 4, whole.heads)
    seconds: dict[str, list[float]] = {"1": [], f"1x{TIMES}": []}
    first(made(shape, True), shape)  # warms the compiler
    for turn in range(1 if quick else 3):
        for schedule in list(seconds)[:: 1 if turn % 2 else -1]:
            torch._dynamo.reset()
            with fresh_cache():
                seconds[schedule].append(first(made(shape, True, schedule), shape))
    once, often = (statistics.median(values) for values in seconds.values())
    unrolled, ours = whole_walk(shape, f"1x{TIMES}"), made(shape, True, f"1x{TIMES}")
    with fresh_cache():
        compiling = first(unrolled, shape)
    took = medians(interleaved({"ours": passing(ours, shape), "whole": passing(unrolled, shape)}, 3 if quick else 15))
    return [
        Row(f"one layer {TIMES} times, compiled: time to compile", often, once, "s", often / once, 1.1, at_most=True,
            peer_name="applied once"),
        Row(f"one layer {TIMES} times, compiled: steady speed", took["ours"], took["whole"], "s", took["whole"] / took["ours"], 0.9,
            peer_name="whole walk in one graph", notes={"seconds to compile the whole walk": round(compiling, 1)}),
    ]  # fmt: skip


def repaid(name: str, threads: int, quick: bool) -> Row:
    """Part 3 of one shape."""
    torch.set_num_threads(threads)
    shape = SHAPES[name]
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = (started(name, threads, folder) for _ in range(2))
    ways = {way: passing(made(shape, way == "compiled"), shape) for way in ("compiled", "eager")}
    took = medians(interleaved(ways, 3 if quick else 9))
    gain = took["eager"] - took["compiled"]
    steps = {f"passes that repay it, {what}": round(seconds / gain) if gain > 0 else "never"
             for what, seconds in (("first", cold), ("code on disk", warm))}  # fmt: skip
    return Row(f"{name}, {threads} thread{'s' * (threads > 1)}: forward and backward, compiled", took["compiled"], took["eager"], "s",
               took["eager"] / took["compiled"], peer_name="eager",
               notes={"seconds to compile, first": round(cold, 1), "with the code on disk": round(warm, 1), **steps})  # fmt: skip


def started(name: str, threads: int, folder: str) -> float:
    """Seconds that a new process takes for its first pass more than for its third: what the compiler costs a run, imports included."""
    script = f"import compiled, harness, torch; torch.set_num_threads({threads}); shape = harness.SHAPES[{name!r}]; " \
             "print(compiled.first(compiled.made(shape, True), shape))"  # fmt: skip
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parent, env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder})  # fmt: skip
    return float(done.stdout.split()[-1])


def measure(quick: bool) -> list[Row]:
    """All three parts; --quick leaves out the shapes b and c."""
    warnings.simplefilter("ignore")
    settings: dict[str, Any] = {"a": (1, 2)} if quick else dict.fromkeys(SHAPES, (1, 2))
    return [*shared(quick), *(repaid(name, threads, quick) for name, counts in settings.items() for threads in counts)]


if __name__ == "__main__":
    main(measure, __doc__)
