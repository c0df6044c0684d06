"""What a GPU computes and how fast, in one command of under six minutes on one of H100 class. It has not been run on a GPU yet.

    python benchmarks/gpu.py [--only checks speed precision training] [--json gpu.json] [--tiny]

checks     The GPU against the CPU, part by part: gpu_checks.py.
speed      loop2's base8, loop2 and l16, and the two published pairs of hybrid, at paper size with their own micro-batches and optimizers,
           eager and compiled: tokens a second, share of the peak of bfloat16 products, peak memory beside the ledger's estimate, and what
           was published (hybrid on an H100, loop2 on an RTX 4090).
precision  The losses of 50 steps of base8 with bfloat16 products beside those with float32.
training   95 steps of 524,288 tokens of base8, loop2 and l16 with their loss on tokens they have not seen.

The text is drawn (gpu_text.py): a chain of tokens whose best possible loss is known, printed beside the others. Every part has a budget of
seconds, stops early when it is spent, and says what it left out; the JSON file is written anew after every part. --tiny runs everything
at desk size on whatever there is, a CPU too: whether the script runs, not what it measures. Ends with exit code 1 when a check fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

import gpu_checks
from gpu_text import Text, best_nats, text
from harness import machine

from ostinato.ledger import Ledger, account
from ostinato.ledger.plan import plan
from ostinato.model.decoder import Decoder
from ostinato.model.delta_rule import fla_installed
from ostinato.study import load_study
from ostinato.study.records import Arm
from ostinato.train.machine import choose
from ostinato.train.trainer import Trainer

SECONDS = {"checks": 60.0, "speed": 110.0, "precision": 30.0, "training": 150.0}
PEAKS = {"B200": 2250.0, "GH200": 989.4, "H200": 989.4, "H100 PCIe": 756.0, "H100 NVL": 835.0, "H100": 989.4, "A100": 312.0, "L40S": 362.0,
         "RTX 4090": 165.2, "L4": 121.0, "A10": 125.0}  # fmt: skip
"""TFLOP/s of dense bfloat16 products with float32 sums, from the vendor's data sheets; the first name that occurs in the device's."""
PUBLISHED = {
    "base8": {"tokens/s": 362_600, "on": "RTX 4090", "peak GiB": 5.5}, "loop2": {"tokens/s": 187_300, "on": "RTX 4090", "peak GiB": 7.52},
    "l16": {"tokens/s": 188_500, "on": "RTX 4090", "peak GiB": 7.4},
    "GDN 2:1": {"tokens/s": 443_000, "on": "H100", "peak GiB": 33.6},
    "Recursive 2:1": {"tokens/s": 181_000, "on": "H100", "peak GiB": 70.0},
    "GDN 3:1": {"tokens/s": 353_000, "on": "H100"}, "Recursive 3:1": {"tokens/s": 134_000, "on": "H100"},
}  # fmt: skip
LOOP2 = ("base8", "loop2", "l16")
SEED = 44


@dataclass
class Clock:
    """The seconds of one part."""

    seconds: float
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Below 0 when they are spent."""
        return self.seconds - (time.monotonic() - self.began)


@dataclass(frozen=True)
class Setting:
    """Where this runs and at what size."""

    device: str
    tiny: bool
    ledgers: dict[str, Ledger]

    @property
    def peak(self) -> tuple[str, float] | None:
        """The assumption behind shares of peak: a name of PEAKS, and FLOP/s."""
        if self.device != "cuda":
            return None
        name = torch.cuda.get_device_name()
        return next(((known, 1e12 * peak) for known, peak in PEAKS.items() if known in name), None)

    def wait(self) -> None:
        """Until the device has done what it was given."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def trainer(self, arm: Arm, prepared: Text, compiled: bool = False) -> Trainer:
        """Of an arm, on other text."""
        arm = arm.model_copy(update={"data": prepared.data})
        return Trainer(arm, SEED, prepared, choose(self.device, arm.recipe.dtype, None, compiled))


def setting(tiny: bool) -> Setting:
    """The arms at paper size, or at desk size and shorter."""
    ledgers = {}
    for study in ("loop2", "hybrid"):
        for ledger in plan(load_study(study, "desk" if tiny else "paper")).ledgers:
            if ledger.arm.name in PUBLISHED:
                arm = ledger.arm
                if tiny:
                    model = arm.model.model_copy(update={"d_model": 32, "heads": 2, "kv_heads": None, "head_dim": None})
                    recipe = arm.recipe.model_copy(update={"context": 32, "batch": 128, "micro_batch": 64, "tokens": 512})
                    arm = arm.model_copy(update={"model": model, "recipe": recipe})
                ledgers[arm.name] = account(arm, ledger.vocab)
    return Setting("cuda" if torch.cuda.is_available() else "cpu", tiny, {name: ledgers[name] for name in PUBLISHED})


def with_recipe(arm: Arm, **given: Any) -> Arm:
    """The arm with other entries of its recipe."""
    return arm.model_copy(update={"recipe": arm.recipe.model_copy(update=given)})


# --- the parts


def checks(here: Setting, clock: Clock) -> dict[str, Any]:
    """Every check that time is left for; `ok` only when none has failed."""
    return gpu_checks.run(here.device, here.tiny, lambda: clock.left)


def speed(here: Setting, clock: Clock) -> dict[str, Any]:
    """First all arms eager, then all compiled: kinds of layers that an arm shares with one before it are compiled already."""
    found: dict[str, Any] = {"peak assumed": here.peak, "arms": {}, "left out": []}
    texts = {}
    for compiled in (False,) if here.tiny else (False, True):
        for name, ledger in here.ledgers.items():
            label = f"{name}, {'compiled' if compiled else 'eager'}"
            if clock.left <= 0:
                found["left out"].append(label)
                continue
            if compiled and "gdn" in ledger.arm.model.layers and not fla_installed():
                found["left out"].append(f"{label}: the compiler would unroll 64 chunks of the gated delta rule, for minutes")
                continue
            recipe = ledger.arm.recipe
            if ledger.vocab not in texts:
                texts[ledger.vocab] = text(ledger.vocab, 2 * recipe.batch + recipe.context + 1, 2)
            found["arms"][label] = attempt(lambda ledger=ledger, compiled=compiled: one_speed(here, ledger, texts, compiled, clock))
            print(f"    {label}: {found['arms'][label]}", flush=True)
    return found


def one_speed(here: Setting, ledger: Ledger, texts: dict[int, Text], compiled: bool, clock: Clock) -> dict[str, Any]:
    """Whole steps of a trainer: batches, forward, backward, optimizer."""
    trainer = here.trainer(ledger.arm, texts[ledger.vocab], compiled)
    began = time.perf_counter()
    for _ in range(1 if here.tiny else 2):
        trainer.step()
    here.wait()
    first, steps = time.perf_counter() - began, 0
    if here.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    while steps < (1 if here.tiny else 6) and (steps < 2 or clock.left > 0):
        record = trainer.step()
        steps += 1
    here.wait()
    per_second = steps * trainer.steps.tokens_per_step / (time.perf_counter() - began)
    memory, checkpointed = ledger.memory, ledger.arm.recipe.activation_checkpointing
    planned = sum(memory[part] for part in ("weights", "gradients", "optimizer")) + memory[
        "activations_checkpointed" if checkpointed else "activations"
    ]
    return {
        "tokens/s": round(per_second), "share of peak": here.peak and round(ledger.flops_per_token * per_second / here.peak[1], 4),
        "peak GiB": round(torch.cuda.max_memory_allocated() / 2**30, 2) if here.device == "cuda" else None,
        "ledger GiB": round(planned / 2**30, 2), "rows at once": trainer.rows_at_once, "loss": record.loss,
        "seconds of the first two steps": round(first, 1), "published": PUBLISHED[ledger.arm.name],
    }  # fmt: skip


def precision(here: Setting, clock: Clock) -> dict[str, Any]:
    """Both formats on the same batches; as many steps as both had time for."""
    ledger, steps = here.ledgers["base8"], 2 if here.tiny else 50
    batch = 128 if here.tiny else 65_536
    prepared = text(ledger.vocab, steps * batch + ledger.arm.recipe.context + 1, 2)
    losses: dict[str, list[float]] = {}
    for dtype, share in (("bfloat16", 0.3), ("float32", 1.0)):
        recipe = {"batch": batch, "micro_batch": batch // 2, "tokens": steps * batch, "dtype": dtype}
        trainer, until = here.trainer(with_recipe(ledger.arm, **recipe), prepared), (1 - share) * clock.seconds
        losses[dtype] = []
        while len(losses[dtype]) < steps and clock.left > until:
            losses[dtype].append(trainer.step().loss)
    pairs = list(zip(losses["bfloat16"], losses["float32"], strict=False))
    if not pairs:
        return {"left out": "no step of both formats"}
    off = [abs(half - full) / full for half, full in pairs]
    return {"steps of both": len(pairs), "losses": losses, "largest relative difference": max(off), "last": off[-1], "ok": max(off) < 0.02}


def training(here: Setting, clock: Clock) -> dict[str, Any]:
    """Seconds are shared by FLOPs, so that an arm that is slower than the others has not less of them."""
    arms = [here.ledgers[name] for name in LOOP2]
    steps, validation = (2, 2_000) if here.tiny else (95, 1_000_000)
    recipe = arms[0].arm.recipe
    prepared = text(arms[0].vocab, steps * recipe.batch + recipe.context + 1, validation)
    rows = torch.from_numpy(prepared.tokens("validation").astype("int64"))
    rows = rows[: len(rows) // (recipe.context + 1) * (recipe.context + 1)].view(-1, recipe.context + 1)
    found: dict[str, Any] = {"text": "drawn: a chain of tokens, none seen twice", "nats of the chain": best_nats(
        arms[0].vocab, prepared.tokens("validation")), "arms": {}}  # fmt: skip
    for place, ledger in enumerate(arms):
        left = clock.left * ledger.flops_per_token / sum(later.flops_per_token for later in arms[place:])
        for compiled in (True, False) if here.device == "cuda" else (False,):
            found["arms"][ledger.arm.name] = attempt(
                lambda arm=ledger.arm, compiled=compiled, left=left: one_training(here, arm, prepared, rows, steps, compiled, left)
            )
            if "error" not in found["arms"][ledger.arm.name]:
                break
        print(f"    {ledger.arm.name}: {found['arms'][ledger.arm.name]}", flush=True)
    return found


def one_training(here: Setting, arm: Arm, prepared: Text, rows: torch.Tensor, steps: int, compiled: bool,
                 seconds: float) -> dict[str, Any]:  # fmt: skip
    """To the last step or to the last second."""
    began = time.monotonic()
    trainer = here.trainer(with_recipe(arm, tokens=steps * arm.recipe.batch), prepared, compiled)
    losses: list[float] = []
    while len(losses) < steps and time.monotonic() - began < seconds:
        losses.append(trainer.step().loss)
    here.wait()
    spent = time.monotonic() - began
    return {
        "compiled": compiled, "steps": len(losses), "stopped early": len(losses) < steps, "tokens": trainer.tokens,
        "seconds": round(spent, 1), "validation nats": nats(trainer.decoder, rows, here.device), "losses": losses,
    }  # fmt: skip


def nats(decoder: Decoder, rows: torch.Tensor, device: str) -> float:
    """A token of the rows [N, context + 1], BOS among the targets as in training."""
    total, at_once = 0.0, max(1, 65_536 // rows.shape[1])
    for part in rows.split(at_once):
        part = part.to(device)
        inputs = part[:, :-1].contiguous()
        with torch.no_grad():
            total += decoder.losses(inputs, part[:, 1:].contiguous()).sum(dtype=torch.float64).item()
    return total / rows[:, 1:].numel()


def attempt(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What it found, or the error: the other arms are measured all the same."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    try:
        return work()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "ok": False}


PARTS = {"checks": checks, "speed": speed, "precision": precision, "training": training}


def failed(found: Any) -> list[str]:
    """Where `ok` is false, as paths."""
    if not isinstance(found, dict):
        return []
    below = [f"{name}: {path}".removesuffix(": ") for name, part in found.items() for path in failed(part)]
    return ([""] if found.get("ok") is False else []) + below


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="these parts")
    parser.add_argument("--json", type=Path, default=Path("gpu.json"))
    parser.add_argument("--tiny", action="store_true", help="at desk size, on a CPU too: whether it runs, not what it measures")
    given = parser.parse_args()
    if not torch.cuda.is_available() and not given.tiny:
        print("no GPU that torch can use: nothing to measure here (--tiny tries the script on a CPU)")
        return 0
    here = setting(given.tiny)
    device = torch.cuda.get_device_name() if here.device == "cuda" else "cpu"
    results: dict[str, Any] = {"settings": machine() | {"device": device, "tiny": given.tiny}}
    for name in (part for part in PARTS if part in given.only):
        print(f"{name} (at most {SECONDS[name]:.0f} s) on {device}", flush=True)
        began = time.monotonic()
        results[name] = attempt(lambda name=name: PARTS[name](here, Clock(SECONDS[name])))
        results[name]["seconds"] = round(time.monotonic() - began, 1)
        given.json.write_text(json.dumps(results, indent=1, default=str) + "\n", encoding="utf-8")
        print(f"  {name}: {results[name]['seconds']:.0f} s", flush=True)
    wrong = failed(results)
    print(json.dumps({name: part for name, part in results.items() if name != "training"}, indent=1, default=str) if given.tiny else "")
    print(f"written to {given.json}; " + (f"failed: {'; '.join(wrong)}" if wrong else "no check failed"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
