"""Milliseconds of the gated delta rule, forward and backward, on one thread: ours in chunks of 16, 32 and 64, and Qwen3-Next's in torch.

    python benchmarks/delta_speed.py [--rounds 20] [--json delta_speed.json]

The peer is transformers' `torch_chunk_gated_delta_rule` at the best of its chunk sizes for each shape. All take turns within one run, so
that whatever else the machine does falls on each; the table shows medians. Shapes: 4 rows of 128 tokens with 4 heads of 16, then one row
of 512, 1,024 and 2,048 tokens with 12 heads of 64, float32.

Then whole training steps (forward and backward, no optimizer) at the size of a desk study: d_model 64, 4 heads, SwiGLU 192, 4 rows of 128.
"""

from __future__ import annotations

import argparse
import functools
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from ostinato.model.decoder import build
from ostinato.model.delta import chunked
from ostinato.study.records import Mlp, Model

SHAPES = [(4, 128, 4, 16), (1, 512, 12, 64), (1, 1024, 12, 64), (1, 2048, 12, 64)]
CHUNKS = (16, 32, 64)
VOCAB, CONTEXT, ROWS = 512, 128, 4
HYBRID = ("gdn", "gdn", "gqa") * 2
SHAPE = {"d_model": 64, "heads": 4, "mlp": Mlp(hidden=192)}
MODELS = {
    "6 gqa": Model(layers=("gqa",) * 6, **SHAPE),
    "6 gdn": Model(layers=("gdn",) * 6, **SHAPE),
    "2 x (gdn gdn gqa)": Model(layers=HYBRID, **SHAPE),
    "the same, (1..3)x3 (4..6)x3": Model(layers=HYBRID, schedule="(1..3)x3 (4..6)x3", **SHAPE),
}


def peers() -> dict[str, Callable]:
    """Ours and Qwen3-Next's, by chunk size."""
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen

    theirs = functools.partial(qwen.torch_chunk_gated_delta_rule, use_qk_l2norm_in_kernel=True)
    return {f"ours {size}": functools.partial(chunked, chunk=size) for size in CHUNKS} | {
        f"transformers {size}": functools.partial(theirs, chunk_size=size) for size in CHUNKS
    }


def take_turns(contenders: dict[str, Callable[[], torch.Tensor]], rounds: int) -> dict[str, dict[str, float]]:
    """Median and fastest milliseconds, forward and backward, of functions that give a scalar."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for turn in range(rounds + 2):
        for name, loss in contenders.items():
            start = time.perf_counter()
            value = loss()
            forward = time.perf_counter()
            value.backward()
            if turn >= 2:
                times[name].append((1e3 * (forward - start), 1e3 * (time.perf_counter() - start)))
    return {name: {"forward_ms": statistics.median(first for first, _ in taken), "median_ms": statistics.median(both for _, both in taken),
                   "fastest_ms": min(both for _, both in taken)} for name, taken in times.items()}  # fmt: skip


def delta_rule(shape: tuple[int, int, int, int], rounds: int) -> dict[str, dict[str, float]]:
    """One shape (rows, tokens, heads, head_dim)."""
    q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
    g, beta = (-torch.rand(shape[:3])).requires_grad_(), torch.rand(shape[:3], requires_grad=True)
    pull = torch.randn(shape)
    return take_turns({name: lambda rule=rule: (rule(q, k, v, g, beta)[0] * pull).sum() for name, rule in peers().items()}, rounds)


def models(rounds: int) -> dict[str, dict[str, float]]:
    """Whole models."""
    rows = torch.randint(0, VOCAB, (ROWS, CONTEXT + 1))
    inputs, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def loss(decoder: torch.nn.Module) -> torch.Tensor:
        decoder.zero_grad(set_to_none=True)
        return decoder.losses(inputs, targets).sum()

    return take_turns({name: functools.partial(loss, build(model, VOCAB, CONTEXT, seed=1)) for name, model in MODELS.items()}, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path, default=Path("delta_speed.json"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    result = {" x ".join(map(str, shape)): delta_rule(shape, max(3, given.rounds // (1 + shape[1] // 512))) for shape in SHAPES}
    for shape, rows in result.items():
        best = {who: min(row["median_ms"] for name, row in rows.items() if name.startswith(who)) for who in ("ours", "transformers")}
        print(f"{shape:20} ours {best['ours']:8.2f} ms   transformers {best['transformers']:8.2f} ms   "
              f"{best['transformers'] / best['ours']:.2f} times as fast")  # fmt: skip
        print(f"{'':20} " + "  ".join(f"{name} {row['median_ms']:.2f}" for name, row in rows.items()))
    result["models"] = models(given.rounds)
    for name, row in result["models"].items():
        print(f"{name:30}{row['median_ms']:10.1f} ms a step, at best {row['fastest_ms']:.1f}")
    settings = {"torch": torch.__version__, "machine": platform.machine(), "rounds": given.rounds, "threads": 1}
    given.json.write_text(json.dumps({"settings": settings, "milliseconds": result}, indent=1) + "\n")
    print(f"written to {given.json}")


if __name__ == "__main__":
    main()
