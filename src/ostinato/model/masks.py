"""Which keys a query sees, and the attention backend that can do it.

        keys 0 1 2 3 4 5          keys 0 1 2 3 4 5          keys 0 1 2 | 3 4 5
    query 0  ■                query 0  ■                query 0  ■
          1  ■ ■                    1  ■ ■                    1  ■ ■
          2  ■ ■ ■                  2  ■ ■ ■                  2  ■ ■ ■
          3  ■ ■ ■ ■                3    ■ ■ ■               ─3─────── ■
          4  ■ ■ ■ ■ ■              4      ■ ■ ■              4        ■ ■
          5  ■ ■ ■ ■ ■ ■            5        ■ ■ ■            5        ■ ■ ■
             causal               window 3: row i sees        documents: nothing
                                  min(i+1, 3) keys            before the own start

Four backends, all exact:
    causal  torch's scaled_dot_product_attention without a mask: FlashAttention where there is one. Only plain causal attention.
    blocks  blocks of queries against the keys that they can see (blocks.py). No documents, no cache.
    masked  the same function with an additive mask, built once and shared by all applications with the same window.
    flex    torch's flex_attention, compiled on CUDA: skips the blocks that a mask empties. Whole forwards only, no cache.
`auto` takes, on a CPU, blocks where they are faster (256 positions and more; with windows or ALiBi heads of 32 and more; else heads of 64
and more and at most 768 positions: docs/decisions/0134); then causal where nothing else is asked, flex for the rest on CUDA, masked for
the rest elsewhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from ostinato.errors import OstinatoError
from ostinato.ledger.work import (
    BLOCKS_LEAST_HEAD_DIM,
    BLOCKS_LEAST_HEAD_DIM_CAUSAL,
    BLOCKS_LEAST_KEYS,
    BLOCKS_MOST_KEYS_CAUSAL,
)
from ostinato.model import blocks
from ostinato.model.compiled import own_code
from ostinato.model.positions import alibi_slopes

Backend = Literal["auto", "causal", "blocks", "masked", "flex"]
FLEX_LEAST_HEAD_DIM = 16  # the compiled kernels' smallest


@dataclass(frozen=True)
class Mask:
    """One window's answer to `who sees whom`, in the form its backend takes.

    bias: [1 or B, 1 or H, Tq, Tk], added to the scores, -inf where a key is not seen (masked; None: every key is seen); for blocks the
    [1 or H, R, T] of the last one.  window: the most keys that a query sees (blocks; None: all before it).
    """

    backend: Literal["causal", "blocks", "masked", "flex"]
    bias: Tensor | None = None
    window: int | None = None
    block: BlockMask | None = None
    score: Callable | None = None
    flex: Callable | None = None

    def attend(self, q_BHTE: Tensor, k_BKSE: Tensor, v_BKSE: Tensor) -> Tensor:
        """softmax(q k / sqrt(E) + mask) v, [B, H, T, E]; query head h uses key-value head h // (H / K)."""
        grouped = q_BHTE.shape[1] != k_BKSE.shape[1]
        if self.backend == "blocks":
            return blocks.attend(q_BHTE, k_BKSE, v_BKSE, self.bias, self.window)
        if self.backend == "flex":
            return self.flex(q_BHTE, k_BKSE, v_BKSE, self.score, self.block, enable_gqa=grouped)
        return F.scaled_dot_product_attention(q_BHTE, k_BKSE, v_BKSE, self.bias, is_causal=self.backend == "causal", enable_gqa=grouped)


@functools.cache
def _flex(compiled: bool, kind: Hashable) -> Callable:
    """One compiled function for each kind of mask, because torch gives up after eight shapes of one and goes on in eager code.

    On a CPU torch's own slow form, which serves to test the masks.
    """
    return torch.compile(own_code(flex_attention), dynamic=False) if compiled else flex_attention


class Masks:
    """The masks of one forward pass, by window; made on first use.

    queries, keys: lengths; the last query stands at the last key.  documents_BT: document of every position, or None.
    alibi: number of heads with ALiBi slopes, 0 for none.  dtype: that of q, k and v.
    """

    def __init__(self, backend: Backend, *, queries: int, device: torch.device, dtype: torch.dtype, head_dim: int,
                 documents_BT: Tensor | None = None, alibi: int = 0):  # fmt: skip
        self.backend, self.queries, self.device, self.dtype, self.head_dim = backend, queries, device, dtype, head_dim
        self.documents_BT, self.alibi = documents_BT, alibi
        self._made: dict[tuple[int | None, int], Mask] = {}

    def of(self, window: int | None, keys: int) -> Mask:
        """The mask of a window (None: the whole context) over `keys` keys. Raises OstinatoError when the backend cannot do it."""
        window = None if window is None or window >= keys else window
        if (window, keys) not in self._made:
            self._made[window, keys] = self._make(window, keys)
        return self._made[window, keys]

    def choose(self, window: int | None, keys: int) -> Literal["causal", "blocks", "masked", "flex"]:
        """The backend for this window. Raises OstinatoError when the one asked for cannot do it."""
        square = self.queries == keys
        plain = square and not (window or self.alibi or self.documents_BT is not None)
        if self.backend == "auto":
            if square and self._blocks_are_faster(keys, plain):
                return "blocks"
            flex = square and self.device.type == "cuda" and self.head_dim >= FLEX_LEAST_HEAD_DIM
            return "causal" if plain else "flex" if flex else "masked"
        if self.backend == "causal" and not plain and square:
            reason = f"a window of {window} keys" if window else "ALiBi" if self.alibi else "document masking"
            raise OstinatoError(f"attention backend causal was asked for {reason}", "it can do plain causal attention only",
                                "use the backend blocks, masked or flex, or auto")  # fmt: skip
        if self.backend == "blocks" and self.documents_BT is not None:
            raise OstinatoError("attention backend blocks was asked for document masking", "its masks depend on distances alone",
                                "use the backend masked or flex, or auto")  # fmt: skip
        return "masked" if not square else self.backend

    def _blocks_are_faster(self, keys: int, plain: bool) -> bool:
        if self.device.type != "cpu" or self.dtype not in (torch.float32, torch.float64) or self.documents_BT is not None:
            return False
        if plain:
            return self.head_dim >= BLOCKS_LEAST_HEAD_DIM_CAUSAL and BLOCKS_LEAST_KEYS <= keys <= BLOCKS_MOST_KEYS_CAUSAL
        return self.head_dim >= BLOCKS_LEAST_HEAD_DIM and keys >= BLOCKS_LEAST_KEYS

    def _make(self, window: int | None, keys: int) -> Mask:
        backend = self.choose(window, keys)
        if backend == "causal":
            return Mask("causal")
        if backend == "blocks":
            return Mask("blocks", self._bias(window, keys, min(blocks.BLOCK, keys))[0], window)
        if backend == "flex":
            return self._block(window)
        if self.queries == 1 and window is None and not self.alibi:
            return Mask("masked")
        return Mask("masked", self._bias(window, keys, self.queries))

    def _bias(self, window: int | None, keys: int, queries: int) -> Tensor:
        """Of the last so many queries over all keys."""
        place_S = torch.arange(keys, device=self.device)
        distance_TS = place_S[keys - queries :, None] - place_S
        seen = distance_TS >= 0
        if window is not None:
            seen = seen & (distance_TS < window)
        if self.documents_BT is not None:
            seen = seen & (self.documents_BT[:, None, :, None] == self.documents_BT[:, None, None, :])
        bias = torch.zeros((), dtype=self.dtype, device=self.device)
        if self.alibi:
            slopes_H11 = torch.tensor(alibi_slopes(self.alibi), dtype=self.dtype, device=self.device)[:, None, None]
            bias = -slopes_H11 * distance_TS
        bias = torch.where(seen, bias, float("-inf"))
        return bias[(None,) * (4 - bias.dim())]

    def _block(self, window: int | None) -> Mask:
        documents_BT = self.documents_BT

        def seen(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            answer = q >= k
            if window is not None:
                answer = answer & (q - k < window)
            return answer if documents_BT is None else answer & (documents_BT[b, q] == documents_BT[b, k])

        rows = None if documents_BT is None else documents_BT.shape[0]
        block = create_block_mask(seen, rows, None, self.queries, self.queries, device=self.device)
        flex = _flex(self.device.type == "cuda", (window, self.alibi, self.queries, rows))
        if not self.alibi:
            return Mask("flex", block=block, flex=flex)
        slopes_H = torch.tensor(alibi_slopes(self.alibi), dtype=torch.float32, device=self.device)
        return Mask("flex", block=block, flex=flex, score=lambda score, b, h, q, k: score - slopes_H[h] * (q - k))
