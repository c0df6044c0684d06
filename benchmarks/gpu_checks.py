"""The checks of gpu.py: what a GPU computes, beside the CPU. Each has a bound and says whether it is kept.

memory     A limit on the allocator that a step does not fit: the micro-batch is halved and the gradient stays (1e-4 of its norm).
forward    Attention backends, windows, ALiBi, document masks, value embeddings, recurrent layers, streams, passes without gradient,
           in float32: loss and gradient against the CPU (1e-4 of the loss, 1e-3 of the gradient's norm); bfloat16 products against float32
           (2% of the loss).
heads      Every way through the head, Liger Kernel's where it is installed, against all logits at once.
delta      The gated delta rule in chunks and, where it is installed, by flash-linear-attention, against the token-by-token twin in float64:
           outputs, last state, every gradient (1e-4; 2% with bfloat16; 1% for fla's float32, which goes through TF32 products).
muon       The orthogonal step in bfloat16 against float32 on the CPU: cosine above 0.99.
resume     A tiny run of drawn passes in one go and in two: the largest difference of a loss.
compiled   forward, compiled against eager (1e-3 of the loss), as long as there is time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from gpu_text import text

from ostinato.model.decoder import Decoder, build
from ostinato.model.delta_rule import fla_installed, gated_delta_rule
from ostinato.model.head import HEADS, choose_head, nats
from ostinato.model.naive_delta import delta_rule as naive
from ostinato.model.spans import Spans
from ostinato.study.families import with_family
from ostinato.study.records import Arm, Data, Model, Passes, Recipe, Windows
from ostinato.train import checkpoints
from ostinato.train.machine import choose
from ostinato.train.polar import polar
from ostinato.train.trainer import Trainer

SHAPE = {"layers": ("gqa",) * 4, "d_model": 128, "heads": 4}
ISO_DEPTH = {**SHAPE, "schedule": "1 (2..3)x{r} 4", "inject": "linear", "pass_norm": True, "embedding_norm": True}
ARMS = {
    "plain": (Model(**SHAPE), False),
    "grouped, looped": (Model(**SHAPE, kv_heads=2, schedule="1..4 1..4:attn", inject="add"), False),
    "windows": (Model(**SHAPE, windows=Windows(pattern="SL", short=65)), False),
    "alibi": (Model(**SHAPE, positions="alibi"), False),
    "iso-depth, truncated": (Model(**ISO_DEPTH, passes=4, backprop=2), False),
    "iso-depth, streams": (Model(**ISO_DEPTH, passes=4, streams=2), False),
    "documents": (Model(**SHAPE), True),
    "hybrid": (Model(**SHAPE | {"layers": ("gdn", "gqa") * 2}), True),
    "loop2": (Model.model_validate(with_family({"family": "loop2", **SHAPE, "windows": {"pattern": "SSSL", "short": 65},
                                                "bigram_table": 1024})), True),
}  # fmt: skip


def run(device: str, tiny: bool, left: Callable[[], float]) -> dict[str, Any]:
    """Every check that there are seconds left for, by name."""
    parts = {
        "memory": lambda: memory(device), "heads": lambda: heads(device), "muon": lambda: muon(device), "resume": lambda: resume(device),
        "forward": lambda: forward(device, tiny, left), "delta": lambda: delta(device, tiny),
    }  # fmt: skip
    if not tiny:
        parts["compiled"] = lambda: compiled(device, left)
    found: dict[str, Any] = {"left out": []}
    for name, part in parts.items():
        if left() <= 0:
            found["left out"].append(name)
            continue
        try:
            found[name] = part()
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}", "ok": False}
        print(f"    {name}: {found[name]}", flush=True)
    return found


def small_arm(rows: int, **recipe: Any) -> Arm:
    """Two layers, rows of 64 tokens."""
    model = Model(layers=("gqa", "gqa"), d_model=64, heads=2)
    given = Recipe(**{"tokens": 8 * rows * 64, "batch": rows * 64, "context": 64, **recipe})
    return Arm(name="small", model=model, recipe=given, data=Data(packing="contiguous", document_mask=False), seeds=(1,))


def memory(device: str) -> dict[str, Any]:
    """On a CPU, which has no such limit, only the gradient with another micro-batch."""
    prepared, arm = text(512, 9 * 4096, 2), small_arm(64)
    whole, cut = (Trainer(arm, 1, prepared, choose(device, "float32", None, False)) for _ in range(2))
    first = whole.step()
    rows = whole.rows_at_once
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        whole.step()
        need = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
        torch.cuda.empty_cache()
        limit = torch.cuda.memory_allocated() + 0.6 * need
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / torch.cuda.get_device_properties(0).total_memory))
    else:
        cut.rows.fewer(0, rows // 2)
    try:
        again = cut.step()
    finally:
        if device == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0)
    off = max(abs(again.loss - first.loss) / first.loss, abs(again.grad_norm - first.grad_norm) / first.grad_norm)
    return {"rows": [rows, cut.rows_at_once], "off": off, "ok": off < 1e-4 and cut.rows_at_once < rows}


def passed(decoder: Decoder, tokens: torch.Tensor, documents: bool) -> tuple[float, torch.Tensor]:
    """Mean loss, and all gradients in one vector on the CPU."""
    inputs, wanted = (part.contiguous().to(decoder.embedding.weight.device) for part in (tokens[:, :-1], tokens[:, 1:]))
    ids = (inputs == 0).cumsum(1) if documents else None
    loss = decoder.losses(inputs, wanted, ids).sum(dtype=torch.float64) / wanted.numel()
    loss.backward()
    gradients = [parameter.grad.flatten().float().cpu() for parameter in decoder.parameters() if parameter.grad is not None]
    return loss.item(), torch.cat(gradients)


def rows(length: int) -> torch.Tensor:
    """Four rows with a BOS in the middle."""
    tokens = torch.randint(1, 512, (4, length + 1), generator=torch.Generator().manual_seed(0))
    tokens[:, length // 3] = 0
    return tokens


def forward(device: str, tiny: bool, left: Callable[[], float]) -> dict[str, Any]:
    """Arm by arm."""
    length, found = 64 if tiny else 256, {}
    for name, (model, documents) in ARMS.items():
        if tiny and name not in ("grouped, looped", "iso-depth, streams", "hybrid", "loop2"):
            continue
        if left() <= 0:
            found[name] = "left out"
            continue
        loss, gradient = passed(build(model, 512, length, 1), rows(length), documents)
        there, its_gradient = passed(build(model, 512, length, 1, device), rows(length), documents)
        half, _ = passed(build(model, 512, length, 1, device, compute_dtype=torch.bfloat16), rows(length), documents)
        off = {"loss": abs(there - loss) / loss, "gradient": ((gradient - its_gradient).norm() / gradient.norm()).item(),
               "bfloat16": abs(half - loss) / loss}  # fmt: skip
        found[name] = off | {"ok": off["loss"] < 1e-4 and off["gradient"] < 1e-3 and off["bfloat16"] < 0.02}
    return found


def compiled(device: str, left: Callable[[], float]) -> dict[str, Any]:
    """The arms with most in them first."""
    found = {}
    for name in sorted(ARMS, key=lambda name: name not in ("loop2", "hybrid")):
        if left() <= 0:
            found[name] = "left out"
            continue
        model, documents = ARMS[name]
        eager, _ = passed(build(model, 512, 256, 1, device), rows(256), documents)
        there, _ = passed(build(model, 512, 256, 1, device, compiled=True), rows(256), documents)
        found[name] = {"loss": abs(there - eager) / eager, "ok": abs(there - eager) < 1e-3 * eager}
    return found


def heads(device: str) -> dict[str, Any]:
    """Losses and both gradients, the largest difference as a share of the largest value."""
    draw, found = torch.Generator().manual_seed(0), {}
    x, weight = (torch.randn(n, 64, generator=draw).to(device).requires_grad_() for n in (300, 512))
    targets = torch.randint(-1, 512, (300,), generator=draw).to(device)
    for dtype, bound in ((torch.float32, 1e-4), (torch.bfloat16, 0.03)):
        def outcome(head: str, dtype: torch.dtype = dtype) -> list[torch.Tensor]:
            losses = nats(x, weight, targets, softcap=15.0, product_dtype=dtype, head=head)
            return [losses.detach(), *torch.autograd.grad(losses.sum() / 300, (x, weight))]

        exact = outcome("full", torch.float32)
        names = [name for name in HEADS if name != "liger" or choose_head("auto", torch.device(device), dtype)[0] == "liger"]
        for name in names:
            off = max(((one - other).abs().max() / other.abs().max()).item() for one, other in zip(outcome(name), exact, strict=True))
            found[f"{name}, {str(dtype)[6:]}"] = {"off": off, "ok": off < bound}
    return found


def muon(device: str) -> dict[str, Any]:
    """Of a stack of matrices."""
    gradient = torch.randn(8, 64, 32, generator=torch.Generator().manual_seed(0))
    there, here = polar(gradient.to(device).bfloat16(), 5).float().cpu(), polar(gradient, 5)
    cosine = torch.nn.functional.cosine_similarity(there.flatten(), here.flatten(), 0).item()
    return {"cosine": cosine, "ok": cosine > 0.99}


def resume(device: str) -> dict[str, Any]:
    """Eight steps, and the same with another trainer from the checkpoint of the third."""
    prepared, arm = text(512, 9 * 512, 2), small_arm(8)
    drawn = {**ISO_DEPTH, "d_model": 64, "heads": 2, "passes": Passes(uniform=(1, 4)), "backprop": "half"}
    arm = arm.model_copy(update={"model": Model(**drawn)})
    whole, first, second = (Trainer(arm, 1, prepared, choose(device, "float32", None, False)) for _ in range(3))
    expected, found = [whole.step().loss for _ in range(8)], [first.step().loss for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        second.load(checkpoints.save(Path(folder), 3, first.tokens, first.decoder, first.optimizers.state(), {}))
    found += [second.step().loss for _ in range(5)]
    off = max(abs(one - other) for one, other in zip(expected, found, strict=True))
    return {"largest difference": off, "ok": off < (1e-3 if device == "cuda" else 1e-9)}


def delta(device: str, tiny: bool) -> dict[str, Any]:
    """By backend and number format, with and without documents and always with a first state."""
    batch, length, heads, size = 2, 40 if tiny else 150, 2, 64
    draw = torch.Generator().manual_seed(0)
    exact = [torch.randn(batch, length, heads, size, generator=draw, dtype=torch.float64) for _ in range(3)]
    exact.append(-2 * torch.rand(batch, length, heads, generator=draw, dtype=torch.float64))
    exact.append(torch.rand(batch, length, heads, generator=draw, dtype=torch.float64))
    exact.append(torch.randn(batch, heads, size, size, generator=draw, dtype=torch.float64))
    ids = (torch.rand(batch, length, generator=draw) < 0.05).cumsum(1)
    found = {}
    for documents in (None, ids):
        numbers = (torch.zeros_like(ids) if documents is None else documents).tolist()
        true = with_gradients(lambda *given, numbers=numbers: by_twin(*given, numbers), exact)
        for backend in ("torch", "fla") if fla_installed() and device == "cuda" else ("torch",):
            for dtype in (torch.float32, torch.bfloat16):
                given = [part.to(device, dtype if i < 3 else torch.float32) for i, part in enumerate(exact)]
                spans = None if documents is None else Spans.of(documents.to(device), 4, dtype)

                def rule(q, k, v, g, beta, state, spans=spans, backend=backend):
                    return gated_delta_rule(q, k, v, g, beta, spans=spans, initial_state=state, final=True, backend=backend)

                off = [((one.double().cpu() - other).abs().max() / other.abs().max()).item()
                       for one, other in zip(with_gradients(rule, given), true, strict=True)]  # fmt: skip
                bound = 0.02 if dtype == torch.bfloat16 else 1e-2 if backend == "fla" else 1e-4
                name = f"{backend} {str(dtype)[6:]}{'' if documents is None else ', documents'}"
                found[name] = {"outputs": off[0], "state": off[1], "gradients": max(off[2:]), "ok": max(off) < bound}
    return found


def with_gradients(rule: Callable, given: list[torch.Tensor]) -> list[torch.Tensor]:
    """Outputs, last state, and the gradients of q, k, v, g, beta and the first state, of a fixed function of both."""
    leaves = [part.detach().clone().requires_grad_() for part in given]
    out, state = rule(*leaves)
    loss = out.double().sin().sum() + state.double().sin().sum()
    return [out.detach(), state.detach(), *torch.autograd.grad(loss, leaves)]


def by_twin(q, k, v, g, beta, state, documents: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """The naive twin, row by row and head by head."""
    found, states = [], []
    for b, numbers in enumerate(documents):
        heads = [naive(*(part[b, :, h] for part in (q, k, v, g, beta)), numbers, state[b, h]) for h in range(q.shape[2])]
        found.append(torch.stack([out for out, _ in heads], 1))
        states.append(torch.stack([last for _, last in heads]))
    return torch.stack(found), torch.stack(states)
