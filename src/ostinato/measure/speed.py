"""How fast a trained model reads and writes, and what it holds meanwhile, beside what the ledger and this machine's calibration foretell.

    forward       passes over many rows, losses included, as when losses are measured: tokens a second, and the most that all tensors held
                  at once, weights included
    generation    `generate` from BOS on, greedily, one row, with a cache: tokens a second, and the bytes of the cache at the end, which the
                  ledger foretells to the byte

Each is timed a few times after one call that does not count, and the median stands. Training is not timed here: its log has the seconds of
every step and the memory of one, as they were in the run itself (`RunFolder.tokens_per_s`, `peak_bytes`); what a calibration foretells of
it is kept in `about`. Times are of one machine, with whatever else it did.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import torch

from ostinato.ledger import account
from ostinato.ledger.ledger import cache_bytes
from ostinato.ledger.seconds import of_work, step_seconds
from ostinato.ledger.work import measuring_work
from ostinato.measure.context import Context, Taken
from ostinato.measure.halving import halving
from ostinato.measure.memory import allocated, held
from ostinato.measure.subject import Ours
from ostinato.model.generate import generate
from ostinato.store.calibration import found_calibration
from ostinato.study.derive import recipe_steps
from ostinato.study.records import Arm

SECONDS = 0.3
"""For each of the two, or as long as a call or two take."""
MOST_READ, MOST_GENERATED, FIRST = 4096, 256, 8
"""Tokens: of a pass on a CPU, which more do not make faster; of a generation; of the one that does not count."""


def median_seconds(call: Callable[[], Any], budget: float, least: int = 2) -> float:
    """Of several calls within about `budget` seconds, `least` of them at least, after one that does not count."""
    call()
    return timed(call, budget, least)


def timed(call: Callable[[], Any], budget: float, least: int) -> float:
    """`median_seconds` of what was called before."""
    taken: list[float] = []
    while len(taken) < least or sum(taken) < budget:
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


_SCHEMA = pa.schema([("what", pa.string()), ("rows", pa.int64()), ("tokens", pa.int64()), ("seconds", pa.float64()),
                     ("tokens_per_s", pa.float64()), ("bytes", pa.int64()), ("predicted_tokens_per_s", pa.float64()),
                     ("predicted_bytes", pa.int64())])  # fmt: skip


def take(subject: Ours, context: Context) -> Taken:
    """Columns what (forward, generation), rows, tokens (of a row), seconds, tokens_per_s, bytes, predicted_tokens_per_s, predicted_bytes.

    The predictions, and bytes, are null where nothing is known.  about: device, threads, dtype; training, what the calibration foretells of
    a training step, in tokens a second (null without one). Raises TrainingError when one row does not fit into memory.
    """
    decoder, arm = subject.decoder, context.arm
    length = decoder.context
    at_once = context.batch if subject.device.type == "cuda" else min(context.batch, MOST_READ)
    tokens_BT = torch.arange(max(1, at_once // length) * length, device=subject.device).view(-1, length) % subject.vocab
    (seconds, most), rows = halving(len(tokens_BT), lambda rows: _forward(subject, tokens_BT[:rows]), subject.device, "timing",
                                    "take a smaller model")  # fmt: skip
    predicted = _predicted(arm, subject, rows) if arm else {}
    found = [("forward", rows, length, seconds, rows * length / seconds, most, predicted.get("forward"), None)]
    if context.progress:
        context.progress(1, 2)

    count = min(length, MOST_GENERATED)
    prompt = [0 if subject.bos is None else subject.bos]
    generate(decoder, prompt, min(count, FIRST))
    seconds = timed(lambda: generate(decoder, prompt, count), SECONDS, 1)
    cache = decoder.cache()
    with torch.no_grad():
        decoder(tokens_BT[:1, :count], cache=cache)
    foretold = cache_bytes(account(arm, subject.vocab), count) if arm else None
    found.append(("generation", 1, count, seconds, count / seconds, cache.bytes, None, foretold))
    if context.progress:
        context.progress(2, 2)
    name = torch.cuda.get_device_name(subject.device) if subject.device.type == "cuda" else "cpu"
    about = {"device": name, "threads": torch.get_num_threads(), "dtype": str(decoder.product_dtype).removeprefix("torch."),
             "training": predicted.get("training")}  # fmt: skip
    columns = map(list, zip(*found, strict=True))
    return Taken(pa.table([pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA), about)


def _forward(subject: Ours, tokens_BT: torch.Tensor) -> tuple[float, int | None]:
    """The median seconds of a pass, and the most bytes of all tensors at once, None where that is not known."""

    @torch.no_grad()
    def call() -> float:
        return subject.losses(tokens_BT, tokens_BT).sum().item()  # a GPU is waited for

    if subject.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(subject.device)
        call()
        most: int | None = torch.cuda.max_memory_allocated(subject.device)
    else:
        _, more = allocated(call)
        most = None if more is None else more + held((*subject.parameters(), tokens_BT))
    return timed(call, SECONDS, 2), most


def _predicted(arm: Arm, subject: Ours, rows: int) -> dict[str, float]:
    """Tokens a second of training and of forward passes by this machine's calibration; {} where it has none for the number format."""
    calibration, threads, context = found_calibration(subject.device.type), torch.get_num_threads(), arm.recipe.context
    step = calibration and step_seconds(calibration, arm, subject.vocab, threads)
    if not calibration or not step:
        return {}
    work = measuring_work(arm, subject.vocab, context, 1.0, float(rows * context), rows * context)
    forward = calibration.between(arm.recipe.dtype, threads, lambda pace: of_work(pace.forward, work))
    return {"training": recipe_steps(arm.recipe).tokens_per_step / step, "forward": rows * context / forward}
