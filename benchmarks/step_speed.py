"""Milliseconds of a training step (forward and backward, no optimizer) on one thread, beside a Hugging Face Llama of the same shape.

    python benchmarks/step_speed.py [--rounds 40] [--json step_speed.json]

Both models take turns within one run, so that whatever else the machine does falls on both; the table shows the median and the
fastest of the rounds. Shapes: d_model 64, 4 heads, 4 layers, SwiGLU of 256 and of 172, vocabulary 512, 8 rows of 128 tokens, float32.
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

from ostinato.model.decoder import build
from ostinato.study.records import Mlp, Model, Norm, Windows

VOCAB, CONTEXT, ROWS = 512, 128, 8
SHAPE = {"layers": ("gqa",) * 4, "d_model": 64, "heads": 4}
LOOP2 = {"family": "loop2", "mlp": Mlp(kind="relu2", ratio=4), "norm": Norm(weight=False), "qk_norm": "plain",
         "value_embeddings": "alternate", "windows": Windows(pattern="SSSL", short=65), "embedding_norm": True,
         "application_scalars": True, "softcap": 15, "tie_embeddings": False}  # fmt: skip
ARMS = {
    "llama 256": Model(**SHAPE, mlp=Mlp(hidden=256)),
    "llama 172": Model(**SHAPE, mlp=Mlp(hidden=172)),
    "llama 172, twice": Model(**SHAPE, mlp=Mlp(hidden=172), schedule="1..4 1..4"),
    "llama 256, alibi": Model(**SHAPE, mlp=Mlp(hidden=256), positions="alibi"),
    "loop2": Model(**SHAPE, **LOOP2),
}


def hugging_face(hidden: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The loss of a Llama of the same shape from the transformers library."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=VOCAB, hidden_size=64, intermediate_size=hidden, num_hidden_layers=4,
                         num_attention_heads=4, max_position_embeddings=CONTEXT, tie_word_embeddings=True,
                         attn_implementation="sdpa", use_cache=False)  # fmt: skip
    model = LlamaForCausalLM(config)

    def loss(tokens_BT: torch.Tensor, targets_BT: torch.Tensor) -> torch.Tensor:
        logits = model(tokens_BT).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets_BT.flatten(), ignore_index=-1, reduction="sum")

    loss.parameters = model.parameters
    return loss


def milliseconds(loss: Callable, parameters: list, tokens_BT: torch.Tensor, targets_BT: torch.Tensor) -> float:
    """One forward and backward pass."""
    for parameter in parameters:
        parameter.grad = None
    start = time.perf_counter()
    loss(tokens_BT, targets_BT).backward()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path, default=Path("step_speed.json"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    contenders = {}
    for name, model in ARMS.items():
        decoder = build(model, VOCAB, CONTEXT, seed=1)
        contenders[name] = (lambda *given, decoder=decoder: decoder.losses(*given).sum(), list(decoder.parameters()))
    for hidden in (256, 172):
        loss = hugging_face(hidden)
        contenders[f"transformers {hidden}"] = (loss, list(loss.parameters()))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(given.rounds + 3):
        rows = torch.randint(0, VOCAB, (ROWS, CONTEXT + 1))
        for name, (loss, parameters) in contenders.items():
            taken = milliseconds(loss, parameters, rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
            if turn >= 3:
                times[name].append(taken)
    result = {name: {"median_ms": statistics.median(taken), "fastest_ms": min(taken)} for name, taken in times.items()}
    print(f"{'':24}{'median ms':>12}{'fastest ms':>12}")
    for name, row in result.items():
        print(f"{name:24}{row['median_ms']:12.1f}{row['fastest_ms']:12.1f}")
    settings = {"torch": torch.__version__, "machine": platform.machine(), "rounds": given.rounds, "rows": ROWS, "context": CONTEXT,
                "threads": 1}  # fmt: skip
    given.json.write_text(json.dumps({"settings": settings, "milliseconds": result}, indent=1) + "\n")
    print(f"written to {given.json}")


if __name__ == "__main__":
    main()
