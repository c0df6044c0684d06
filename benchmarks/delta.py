"""Milliseconds of the gated delta rule, forward and backward, on one thread: ours, and Qwen3-Next's chunked form in torch.

    python benchmarks/delta.py [--quick] [--json FILE]

The peer is transformers' `torch_chunk_gated_delta_rule` at the best of its chunk sizes for each shape; ours is at its default of 32, with
16 and 64 in the notes. Shapes: 4 rows of 128 tokens with 4 heads of 16, then one row of 512, 1,024 and 2,048 tokens with 12 heads of 64,
float32. Then whole training steps (forward and backward, no optimizer) at the size of a desk study: d_model 64, 4 heads, SwiGLU 192, 4 rows
of 128, of a gated delta stack beside an attention stack.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from harness import Row, interleaved, main, medians

from ostinato.model.decoder import build
from ostinato.model.delta import chunked
from ostinato.study.records import Mlp, Model

SHAPES = {(4, 128, 4, 16): None, (1, 512, 12, 64): 1.6, (1, 1024, 12, 64): 1.9, (1, 2048, 12, 64): 2.5}
"""(rows, tokens, heads, head_dim), and how many times as fast as the peer is asked for."""
CHUNKS = (16, 32, 64)
OWN = 32
VOCAB, CONTEXT, ROWS = 512, 128, 4
HYBRID = ("gdn", "gdn", "gqa") * 2
SHAPE = {"d_model": 64, "heads": 4, "mlp": Mlp(hidden=192)}
ATTENTION = "6 gqa"
MODELS = {
    ATTENTION: Model(layers=("gqa",) * 6, **SHAPE),
    "6 gdn": Model(layers=("gdn",) * 6, **SHAPE),
    "2 x (gdn gdn gqa)": Model(layers=HYBRID, **SHAPE),
    "2 x (gdn gdn gqa) as (1..3)x3 (4..6)x3": Model(layers=HYBRID, schedule="(1..3)x3 (4..6)x3", **SHAPE),
}


def rules() -> dict[str, Callable]:
    """Ours and Qwen3-Next's, by chunk size."""
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen

    theirs = functools.partial(qwen.torch_chunk_gated_delta_rule, use_qk_l2norm_in_kernel=True)
    return {f"ours {size}": functools.partial(chunked, chunk=size) for size in CHUNKS} | {
        f"theirs {size}": functools.partial(theirs, chunk_size=size) for size in CHUNKS
    }


def delta_rule(shape: tuple[int, int, int, int], rounds: int) -> Row:
    """One shape (rows, tokens, heads, head_dim)."""
    q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
    g, beta = (-torch.rand(shape[:3])).requires_grad_(), torch.rand(shape[:3], requires_grad=True)
    pull = torch.randn(shape)
    found = medians(interleaved({name: lambda rule=rule: (rule(q, k, v, g, beta)[0] * pull).sum().backward()
                                 for name, rule in rules().items()}, rounds))  # fmt: skip
    milliseconds = {name: 1e3 * value for name, value in found.items()}
    ours, best = milliseconds[f"ours {OWN}"], min((value, name) for name, value in milliseconds.items() if name.startswith("theirs"))
    notes = {"milliseconds by chunk": ", ".join(f"{name} {value:.1f}" for name, value in milliseconds.items())}
    rows, tokens, heads, size = shape
    return Row(f"gated delta rule, {rows} x {tokens:,} tokens, {heads} heads of {size}", ours, best[0], "ms", best[0] / ours, SHAPES[shape],
               peer_name=f"Qwen3-Next in torch, chunk {best[1].split()[1]}", notes=notes)  # fmt: skip


def models(rounds: int) -> list[Row]:
    """Whole models: what a gated delta stack takes beside the attention stack, which no target is set for."""
    tokens = torch.randint(0, VOCAB, (ROWS, CONTEXT + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step(decoder: torch.nn.Module) -> None:
        decoder.zero_grad(set_to_none=True)
        decoder.losses(inputs, targets).sum().backward()

    found = medians(interleaved({name: functools.partial(step, build(model, VOCAB, CONTEXT, seed=1)) for name, model in MODELS.items()},
                                rounds))  # fmt: skip
    base = found.pop(ATTENTION)
    return [
        Row(f"desk step, {name}", 1e3 * value, 1e3 * base, "ms", base / value, peer_name=f"ours, {ATTENTION}")
        for name, value in found.items()
    ]


def measure(quick: bool = False) -> list[Row]:
    """A row a shape, then whole models."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rounds = 3 if quick else 20
    return [delta_rule(shape, max(3, rounds // (1 + shape[1] // 512))) for shape in SHAPES] + models(rounds)


if __name__ == "__main__":
    main(measure, __doc__)
