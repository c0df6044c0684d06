"""Where and how a run is computed: device, number format, threads, compilation, and what of it repeats bit for bit.

On a CPU with a fixed number of threads every operation used here is deterministic, and torch is told to refuse any that
is not. On a GPU a resumed run goes on from the same bits, and may part from an unbroken one by rounding (decision 0150):

    attention backward      FlashAttention adds the gradient of q in no fixed order
    gated delta rule        torch's running sums have no fixed order either; flash-linear-attention chooses kernels by timing them
    compiled                kernels are chosen by timing them, and gradients of value tables are added in no fixed order
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ostinato.errors import TrainingError
from ostinato.measure.load import device_of
from ostinato.model.decoder import Decoder
from ostinato.model.delta_rule import choose as choose_delta
from ostinato.model.head import choose_head
from ostinato.model.masks import Masks
from ostinato.store.environment import need_compiler
from ostinato.study.derive import head_dim
from ostinato.train import heap


@dataclass(frozen=True)
class Machine:
    """The choices of one session. Weights are float32 always; with bfloat16 the products run in it."""

    device: torch.device
    dtype: str
    threads: int
    compiled: bool

    @property
    def compute_dtype(self) -> torch.dtype | None:
        """Of matrix products and attention (None: that of the weights)."""
        return torch.bfloat16 if self.dtype == "bfloat16" else None

    @property
    def deterministic(self) -> bool:
        """Whether the same step always gives the same bits on this machine."""
        return self.device.type == "cpu"

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Threads, determinism and memory that is kept between steps as chosen, and as before afterwards."""
        threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
        fill = torch.utils.deterministic.fill_uninitialized_memory
        torch.set_num_threads(self.threads)
        # use_deterministic_algorithms does the same, but imports torch's compiler first: more than a second for every run
        torch.set_deterministic_debug_mode("error" if self.deterministic else "default")
        torch.utils.deterministic.fill_uninitialized_memory = False  # it would write every buffer twice
        try:
            with heap.kept():
                yield
        finally:
            torch.set_num_threads(threads)
            torch.set_deterministic_debug_mode(mode)
            torch.utils.deterministic.fill_uninitialized_memory = fill

    def line(self, decoder: Decoder, context: int, document_mask: bool, kernels: str) -> str:
        """One line for the log: device, number format, token mixers, head, optimizer kernels, threads, determinism."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else f"{self.threads} of {os.cpu_count()} threads"
        repeats = "bit for bit repeatable" if self.deterministic else f"repeatable up to rounding ({unrepeatable(decoder, self.compiled)})"
        compiled = ", compiled" if self.compiled else ""
        head, why = choose_head("auto", decoder.embedding.weight.device, decoder.product_dtype)
        slow = self.dtype == "bfloat16" and self.device.type == "cpu" and not _has_amx()
        cost = " (which costs many times float32 here: this CPU has no AMX)" if slow else ""
        return (f"{self.device} ({name}), products in {self.dtype}{cost}{compiled}; {mixers(decoder, context, document_mask)}; "
                f"head {head} ({why}); {kernels}; {repeats}")  # fmt: skip


def choose(device: str, dtype: str, threads: int | None, compiled: bool) -> Machine:
    """auto takes the GPU when there is one. threads: of the CPU (None: as torch has them).

    Raises TrainingError for a device that is not there, or for compilation on a CPU without a C++ compiler.
    """
    found = device_of(device)
    if threads is not None and threads < 1:
        raise TrainingError(f"{threads} threads", "a run has at least one thread", "give threads 1, or leave it out")
    if compiled and found.type == "cpu":
        need_compiler(TrainingError, "compilation on a CPU", "give --no-compile")
    return Machine(found, dtype, threads or torch.get_num_threads(), compiled)


def _has_amx() -> bool:
    """Whether this CPU multiplies matrices of bfloat16 by itself; without, they cost 9 to 12 times those of float32."""
    return getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)()


def mixers(decoder: Decoder, context: int, document_mask: bool) -> str:
    """How the model's token mixers are computed in training: attention, the gated delta rule, or both."""
    found = [f"attention {attention(decoder, context, document_mask)}"] if "gqa" in decoder.model.layers else []
    if "gdn" in decoder.model.layers:
        backend, why = choose_delta(decoder.delta_backend, decoder.embedding.weight.device, head_dim(decoder.model))
        found.append(f"gated delta rule {backend} ({why})")
    return "; ".join(found)


def unrepeatable(decoder: Decoder, compiled: bool) -> str:
    """What of a training step on a GPU has another order of sums, or other kernels, from one time to the next."""
    layers, device = decoder.model.layers, decoder.embedding.weight.device
    found = ["attention backward"] if "gqa" in layers else []
    if "gdn" in layers:
        fla = choose_delta(decoder.delta_backend, device, head_dim(decoder.model))[0] == "fla"
        found.append("kernels of the gated delta rule" if fla else "running sums of the gated delta rule")
    if compiled:
        found += ["compiled kernels", *(["gradients of value tables"] if len(decoder.value_tables) else [])]
    return ", ".join(found)


def attention(decoder: Decoder, context: int, document_mask: bool) -> str:
    """Which attention backend each window of the model gets in training."""
    documents = torch.zeros(1, context, dtype=torch.int64, device=decoder.embedding.weight.device) if document_mask else None
    masks = Masks(decoder.backend, queries=context, device=decoder.embedding.weight.device, dtype=decoder.product_dtype,
                  head_dim=head_dim(decoder.model), documents_BT=documents,
                  alibi=decoder.model.heads if decoder.model.positions == "alibi" else 0)  # fmt: skip
    names = {window: masks.choose(window, context) for window in decoder.attention_windows()}
    if len(set(names.values())) == 1:
        return next(iter(names.values()))
    return ", ".join(f"{name} for {f'windows of {window}' if window else 'the whole context'}" for window, name in names.items())
