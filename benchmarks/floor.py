"""The floor of a training step: what this machine's matrix products and attention take at its shapes, and nothing else.

A step's products are those of every weight (forward, and backward for its input and for itself) and attention's. Each is measured alone,
at its exact shape, on operands that are already there; the floor is their sum. What a step takes beyond it is passes over
memory: norms, rotations, gates, residuals, the loss, the optimizer. For these the bytes are counted that they cannot avoid.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from harness import SHAPES, Row, Shape, main
from torch import Tensor

FLOAT32 = 4


def weights(shape: Shape) -> dict[str, tuple[int, int, int]]:
    """(inputs, outputs, how many) of every kind of weight that data is multiplied by."""
    width, layers = shape.width, shape.layers
    return {"q, k, v, o": (width, width, 4 * layers), "gate, up": (width, shape.hidden, 2 * layers),
            "down": (shape.hidden, width, layers), "head": (width, shape.vocab, 1)}  # fmt: skip


def flops(shape: Shape) -> dict[str, int]:
    """Of a step's products and of its attention, multiplications and additions each; the half of attention that causal order leaves."""
    products = sum(6 * shape.tokens * inputs * outputs * count for inputs, outputs, count in weights(shape).values())
    forward = 2 * shape.tokens * shape.context * shape.width * shape.layers  # q k' and p v, each 2·T·D a token, half of it
    return {"products": products, "attention": forward + 5 * forward // 2}  # the backward pass has five products instead of two


def moved(shape: Shape) -> dict[str, int]:
    """Bytes read and written by a step outside its products, if every pass is made once and fused with what it can be.

    stream: two norms and two additions a layer, forward (read, write) and backward (read twice, write).  between: q, k turned, gate · up,
    both ways.  logits: written, read for the loss, their gradient written.  adamw: weight, gradient, two moments read, three written.
    """
    stream = 4 * shape.layers * shape.tokens * shape.width * 5
    between = shape.layers * shape.tokens * (2 * shape.width * 4 + shape.hidden * (3 + 5))
    logits = 3 * shape.tokens * shape.vocab
    parameters = sum(inputs * outputs * count for inputs, outputs, count in weights(shape).values())
    return {name: FLOAT32 * count for name, count in
            {"stream": stream, "between": between, "logits": logits, "adamw": 7 * parameters}.items()}  # fmt: skip


def timed(work: Callable[[], object], seconds: float) -> float:
    """The fastest of the calls that fit into so many seconds, three at least: a floor is what the machine can do."""
    work()
    taken: list[float] = []
    while len(taken) < 3 or sum(taken) < seconds:
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def product_seconds(tokens: int, inputs: int, outputs: int, patience: float) -> tuple[float, float, float]:
    """One weight's forward product, and the backward ones for its input and for itself."""
    x, weight, dy = torch.randn(tokens, inputs), torch.randn(outputs, inputs), torch.randn(tokens, outputs)
    return (timed(lambda: F.linear(x, weight), patience), timed(lambda: dy @ weight, patience), timed(lambda: dy.T @ x, patience))


def attention_seconds(shape: Shape, patience: float) -> float:
    """One layer's attention, forward and backward."""

    def heads() -> Tensor:
        x_BTHE = torch.randn(shape.rows, shape.context, shape.heads, shape.width // shape.heads)
        return x_BTHE.transpose(1, 2).requires_grad_()

    q, k, v, dy = heads(), heads(), heads(), heads().detach()
    return timed(lambda: torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), dy), patience)


def parts(shape: Shape, patience: float) -> dict[str, float]:
    """Seconds of a step's products by kind of weight, and of its attention, at the threads in force; patience: seconds for each."""
    found = {name: count * sum(product_seconds(shape.tokens, inputs, outputs, patience))
             for name, (inputs, outputs, count) in weights(shape).items()}  # fmt: skip
    return found | {"attention": shape.layers * attention_seconds(shape, patience)}


def seconds(shape: Shape, patience: float) -> float:
    """The floor of a step."""
    return sum(parts(shape, patience).values())


def row(name: str, threads: int, patience: float) -> Row:
    """The products' throughput beside that of one large square product."""
    shape, before = SHAPES[name], torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = parts(shape, patience)
        side = 2048
        square = 2 * side**3 / timed(lambda a=torch.randn(side, side), b=torch.randn(side, side): a @ b, patience)
    finally:
        torch.set_num_threads(before)
    work, bytes_moved = flops(shape), moved(shape)
    reached = work["products"] / (sum(found.values()) - found["attention"])
    kinds = {kind: f"{found[kind] * 1e3:.1f} ms, {6 * shape.tokens * inputs * outputs * count / found[kind] / 1e9:.0f} GFLOP/s"
             for kind, (inputs, outputs, count) in weights(shape).items()}  # fmt: skip
    notes = {"floor": f"{sum(found.values()) * 1e3:.1f} ms, {shape.tokens / sum(found.values()):,.0f} tokens/s", **kinds,
             "attention": f"{found['attention'] * 1e3:.1f} ms, {work['attention'] / found['attention'] / 1e9:.0f} GFLOP/s",
             "GFLOP of a step": f"{work['products'] / 1e9:.1f} in products, {work['attention'] / 1e9:.1f} in attention",
             "MB moved outside": ", ".join(f"{kind} {value / 1e6:.0f}" for kind, value in bytes_moved.items())}  # fmt: skip
    claim = f"products of step {name}, {threads} thread{'s' * (threads > 1)}, beside 2,048³"
    return Row(claim, reached / 1e9, square / 1e9, "GFLOP/s", reached / square, peer_name="one square product", notes=notes)


def measure(quick: bool) -> list[Row]:
    """Every shape with one thread and with two."""
    return [row(name, threads, 0.01 if quick else 0.2) for threads in (2, 1) for name in SHAPES]


if __name__ == "__main__":
    main(measure, __doc__)
