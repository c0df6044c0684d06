"""What a GPU computes, beside the CPU: one script of a few minutes for a machine that has one.

    python benchmarks/gpu_check.py [--json gpu_check.json]

1. Every attention backend, windows, ALiBi, document masks, value embeddings, float32: losses and gradients against the CPU (1e-4).
2. bfloat16 products against float32 (2% of the loss), eager against compiled (1e-3 of the loss).
3. Muon's step, bfloat16 inside, against the float32 step on the CPU (direction of the update: cosine above 0.99).
4. A tiny run: trained to its end, and once more with a stop in the middle; the largest difference of their losses is printed.
5. loop2's base at paper size: seconds of a micro-batch, tokens a second, peak memory beside the ledger's estimate, eager and compiled.
6. The gated delta rule: in chunks and, where it is installed, by flash-linear-attention, against the token-by-token twin in float64 on the
   CPU: outputs, last state and every gradient, in float32 and bfloat16, with and without documents (1e-4 and 2% of the values' scale;
   fla's float32 goes through TF32 products: 1%).
7. hybrid's `Recursive 2:1` at paper size, a few steps by each backend: seconds, tokens a second, peak memory, the loss of each.

Ends with exit code 1 when a bound is broken. It has not been run on a GPU yet, nor has fla: no figure of it is quoted anywhere.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ostinato.data.prepare import prepare
from ostinato.ledger.plan import plan
from ostinato.model.decoder import Decoder, build
from ostinato.model.delta_rule import fla_installed, gated_delta_rule
from ostinato.model.naive_delta import delta_rule as naive
from ostinato.model.spans import Spans
from ostinato.store import Store
from ostinato.study import load_study, run_fingerprint
from ostinato.study.records import Checkpoints, Data, Evaluate, Model, Tokenizer, Windows
from ostinato.train import RunRequest, train

SHAPE = {"layers": ("gqa",) * 4, "d_model": 128, "heads": 4}
ARMS = {
    "plain": (Model(**SHAPE), False),
    "grouped, looped": (Model(**SHAPE, kv_heads=2, schedule="1..4 1..4:attn", inject="add"), False),
    "windows": (Model(**SHAPE, windows=Windows(pattern="SL", short=65)), False),
    "alibi": (Model(**SHAPE, positions="alibi"), False),
    "documents": (Model(**SHAPE), True),
    "hybrid": (Model(**SHAPE | {"layers": ("gdn", "gqa") * 2}), True),
    "loop2": (Model(family="loop2", **SHAPE, windows=Windows(pattern="SSSL", short=65), bigram_table=1024), True),
}


def passed(decoder: Decoder, tokens: torch.Tensor, documents: bool) -> tuple[float, torch.Tensor]:
    """Mean loss, and all gradients in one vector on the CPU."""
    device = decoder.embedding.weight.device
    inputs, wanted = tokens[:, :-1].to(device), tokens[:, 1:].to(device)
    ids = (inputs == 0).cumsum(1) if documents else None
    loss = decoder.losses(inputs, wanted, ids).sum() / wanted.numel()
    loss.backward()
    gradients = [parameter.grad.flatten().float().cpu() for parameter in decoder.parameters() if parameter.grad is not None]
    return loss.item(), torch.cat(gradients)


def forwards() -> dict[str, Any]:
    """Parts 1 and 2."""
    torch.manual_seed(0)
    tokens = torch.randint(0, 512, (4, 257))
    tokens[:, 100] = 0
    found = {}
    for name, (model, documents) in ARMS.items():
        loss, gradient = passed(build(model, 512, 256, 1), tokens, documents)
        on_gpu, gpu_gradient = passed(build(model, 512, 256, 1, "cuda"), tokens, documents)
        half, _ = passed(build(model, 512, 256, 1, "cuda", compute_dtype=torch.bfloat16), tokens, documents)
        compiled, _ = passed(build(model, 512, 256, 1, "cuda", compiled=True), tokens, documents)
        off = ((gradient - gpu_gradient).norm() / gradient.norm()).item()
        found[name] = {"loss": abs(on_gpu - loss), "gradient": off, "bfloat16": abs(half - loss) / loss,
                       "compiled": abs(compiled - on_gpu) / loss}  # fmt: skip
        found[name]["ok"] = found[name]["loss"] < 1e-4 and off < 1e-3 and found[name]["bfloat16"] < 0.02 and found[name]["compiled"] < 1e-3
    return found


def muon() -> dict[str, Any]:
    """Part 3."""
    from ostinato.train.polar import polar

    torch.manual_seed(0)
    gradient = torch.randn(8, 256, 128)
    there, here = polar(gradient.cuda().bfloat16(), 5).float().cpu(), polar(gradient, 5)
    cosine = torch.nn.functional.cosine_similarity(there.flatten(), here.flatten(), 0).item()
    return {"cosine": cosine, "ok": cosine > 0.99}


def tiny_run(folder: Path) -> dict[str, Any]:
    """Part 4."""
    study = load_study("quickstart")
    arm = study.arms[2]
    recipe = arm.recipe.model_copy(update={"tokens": 100 * 512})
    arm = arm.model_copy(update={"recipe": recipe, "data": Data(tokenizer=Tokenizer(bpe=512), validation=0.02, held_out=0.02)})
    prepared = prepare(arm.data)
    request = RunRequest(arm, 1, Evaluate(), Checkpoints())
    losses = []
    for name, stop_at in (("whole", None), ("in two", 50)):
        run = Store(folder / name).create().run(run_fingerprint(arm, 1, prepared.fingerprint))
        seen: list[int] = []
        if stop_at:
            stop = lambda at=stop_at, seen=seen: len(seen) >= at  # noqa: E731
            train(request, prepared, run, device="cuda", stop=stop, on_step=lambda record, seen=seen: seen.append(record.step))
        began = time.perf_counter()
        train(request, prepared, run, device="cuda")
        losses.append((run.read_losses("validation", recipe.tokens).losses, time.perf_counter() - began))
    off = float(abs(losses[0][0] - losses[1][0]).max())
    return {"nats": float(losses[0][0].mean()), "largest difference": off, "seconds": losses[0][1], "ok": off < 0.05}


def paper_size() -> dict[str, Any]:
    """Part 5."""
    study = load_study("loop2")
    ledger = plan(study).ledgers[0]
    arm, found = ledger.arm, {}
    for compiled in (False, True):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        decoder = build(arm.model, ledger.vocab, arm.recipe.context, 44, "cuda", compute_dtype=torch.bfloat16, compiled=compiled)
        rows = arm.recipe.micro_batch // arm.recipe.context
        tokens = torch.randint(0, ledger.vocab, (rows, arm.recipe.context + 1), device="cuda")
        times = []
        for _ in range(8):
            torch.cuda.synchronize()
            began = time.perf_counter()
            decoder.losses(tokens[:, :-1], tokens[:, 1:]).sum().backward()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
            decoder.zero_grad(set_to_none=True)
        seconds = sorted(times[3:])[len(times[3:]) // 2]
        planned = sum(ledger.memory[part] for part in ("weights", "gradients", "activations"))
        found["compiled" if compiled else "eager"] = {
            "seconds": seconds, "tokens/s": rows * arm.recipe.context / seconds, "peak GiB": torch.cuda.max_memory_allocated() / 2**30,
            "ledger GiB": planned / 2**30, "ok": True,
        }  # fmt: skip
        del decoder
    return found


def delta() -> dict[str, Any]:
    """Part 6."""
    batch, length, heads, size = 2, 150, 2, 64
    draw = torch.Generator().manual_seed(0)
    exact = [torch.randn(batch, length, heads, size, generator=draw, dtype=torch.float64) for _ in range(3)]
    exact.append(-2 * torch.rand(batch, length, heads, generator=draw, dtype=torch.float64))
    exact.append(torch.rand(batch, length, heads, generator=draw, dtype=torch.float64))
    exact.append(torch.randn(batch, heads, size, size, generator=draw, dtype=torch.float64))
    ids = (torch.rand(batch, length, generator=draw) < 0.05).cumsum(1)
    found = {}
    for documents in (None, ids):
        rows = (torch.zeros_like(ids) if documents is None else documents).tolist()
        true = with_gradients(lambda *given, rows=rows: by_twin(*given, rows), exact)
        for backend in ("torch", "fla") if fla_installed() else ("torch",):
            for dtype in (torch.float32, torch.bfloat16):
                given = [part.to("cuda", dtype if i < 3 else torch.float32) for i, part in enumerate(exact)]
                spans = None if documents is None else Spans.of(documents.cuda(), 4, dtype)

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
    loss = (out.double().sin().sum() + state.double().sin().sum())
    return [out.detach(), state.detach(), *torch.autograd.grad(loss, leaves)]


def by_twin(q, k, v, g, beta, state, documents: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """The naive twin, row by row and head by head."""
    rows, states = [], []
    for b, numbers in enumerate(documents):
        heads = [naive(*(part[b, :, h] for part in (q, k, v, g, beta)), numbers, state[b, h]) for h in range(q.shape[2])]
        rows.append(torch.stack([out for out, _ in heads], 1))
        states.append(torch.stack([last for _, last in heads]))
    return torch.stack(rows), torch.stack(states)


def hybrid() -> dict[str, Any]:
    """Part 7."""
    ledger = next(ledger for ledger in plan(load_study("hybrid")).ledgers if ledger.arm.name == "Recursive 2:1")
    arm, found = ledger.arm, {}
    tokens = torch.randint(0, ledger.vocab, (4, arm.recipe.context + 1), device="cuda")
    for backend in ("torch", "fla") if fla_installed() else ("torch",):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        decoder = build(arm.model, ledger.vocab, arm.recipe.context, 42, "cuda", compute_dtype=torch.bfloat16, delta_backend=backend)
        optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-3)
        times, losses = [], []
        for _ in range(6):
            torch.cuda.synchronize()
            began = time.perf_counter()
            loss = decoder.losses(tokens[:, :-1], tokens[:, 1:]).sum() / tokens[:, 1:].numel()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
            losses.append(loss.item())
        seconds = sorted(times[2:])[len(times[2:]) // 2]
        found[backend] = {"seconds": seconds, "tokens/s": tokens[:, 1:].numel() / seconds, "losses": losses,
                          "peak GiB": torch.cuda.max_memory_allocated() / 2**30, "ok": losses[-1] < losses[0]}  # fmt: skip
        del decoder, optimizer
    if "fla" in found:
        found["fla"]["ok"] &= abs(found["fla"]["losses"][0] - found["torch"]["losses"][0]) < 0.01 * found["torch"]["losses"][0]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU that torch can use: nothing to check here")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        results = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "forward": forwards(), "muon": muon(),
                   "run": tiny_run(Path(folder)), "loop2 base": paper_size(), "delta": delta(),
                   "hybrid": hybrid()}  # fmt: skip
    print(json.dumps(results, indent=1))
    if wanted.json:
        wanted.json.write_text(json.dumps(results, indent=1))
    parts = [*results["forward"].values(), results["muon"], results["run"], *results["loop2 base"].values(), *results["delta"].values(),
             *results["hybrid"].values()]
    return 0 if all(part["ok"] for part in parts) else 1


if __name__ == "__main__":
    sys.exit(main())
