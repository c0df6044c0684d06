"""What every application's attention does, seen from outside: its q, k and v, what its kernel made of them, and its weights in blocks.

A fused kernel never has the weights P = softmax(q k' / sqrt(E) + bias). Here they are computed again, for the queries of one block and a
few heads at a time (B · h · 64 · T numbers, never T x T for all heads), from the very q and k that the kernel was given, in float32 or
better. P v against the kernel's own output says whether what was computed again is what the model does: `difference`.

Windows, documents, ALiBi and grouped queries are in P; a gate multiplies what attention gives and is no part of it.

Shapes, as suffixes of names: B rows, T tokens, H query heads, K key-value heads, G = H / K, E head_dim, R queries of a block, S keys that
any of them sees.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ostinato.model.attention import Attention
from ostinato.model.blocks import Span, spans
from ostinato.model.decoder import Decoder
from ostinato.model.positions import alibi_slopes

SCORES_AT_ONCE = 2**22
"""Numbers of a block's weights (16 MB), unless one key-value head has more."""


@dataclass(frozen=True)
class Attended:
    """One application's attention on some rows.  y_BHTE: what its kernel gave, before a gate.

    scale: of q k'.  window: the most keys that a query sees (None: all before it).  slopes_H: of ALiBi.  documents_BT: what attention
    stays within.
    """

    application: int
    q_BHTE: Tensor
    k_BKTE: Tensor
    v_BKTE: Tensor
    y_BHTE: Tensor
    scale: float
    window: int | None = None
    slopes_H: Tensor | None = None
    documents_BT: Tensor | None = None

    @property
    def exact(self) -> torch.dtype:
        """Of the weights."""
        return torch.promote_types(self.q_BHTE.dtype, torch.float32)

    def spans(self) -> Iterator[Span]:
        """Blocks of queries, each with the keys that any of them sees."""
        return spans(self.q_BHTE.shape[2], self.window)

    def seen(self, span: Span) -> Tensor:
        """Which keys each query of a block sees: bool [B, R, S], or [1, R, S] where rows do not differ."""
        distance_RS = self._distance(span)
        seen_BRS = (distance_RS >= 0)[None]
        if self.window is not None:
            seen_BRS = seen_BRS & (distance_RS < self.window)
        if self.documents_BT is not None:
            seen_BRS = seen_BRS & (self.documents_BT[:, span.first : span.last, None] == self.documents_BT[:, None, span.keys : span.last])
        return seen_BRS

    def weights(self, span: Span, seen_BRS: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """(which key-value heads, their weights [B, k, G, R, S]), a few heads at a time; 0 where a key is not seen.  seen_BRS: `seen`."""
        heads, groups = self.q_BHTE.shape[1], self.k_BKTE.shape[1]
        q_BKGRE = self.q_BHTE.unflatten(1, (groups, -1))[..., span.first : span.last, :]
        size = q_BKGRE[:, 0, ..., 0].numel() * (span.last - span.keys)
        at_once = max(1, SCORES_AT_ONCE // size)
        for first in range(0, groups, at_once):
            few = slice(first, first + at_once)
            k_BK1SE = self.k_BKTE[:, few, None, span.keys : span.last].to(self.exact)
            p_BKGRS = (q_BKGRE[:, few].to(self.exact) @ k_BK1SE.mT).mul_(self.scale)
            if self.slopes_H is not None:
                slopes_KG11 = self.slopes_H.to(self.exact).view(groups, heads // groups, 1, 1)[few]
                p_BKGRS -= slopes_KG11 * self._distance(span)
            yield few, p_BKGRS.masked_fill_(~seen_BRS[:, None, None], float("-inf")).softmax(-1)

    def difference(self, span: Span, few: slice, p_BKGRS: Tensor) -> tuple[Tensor, Tensor]:
        """Of these heads in this block the sums of (P v − y)² and of y², float64."""
        v_BK1SE = self.v_BKTE[:, few, None, span.keys : span.last].to(self.exact)
        y_BKGRE = self.y_BHTE.unflatten(1, (self.k_BKTE.shape[1], -1))[:, few, :, span.first : span.last].double()
        return ((p_BKGRS @ v_BK1SE).double() - y_BKGRE).square().sum(), y_BKGRE.square().sum()

    def _distance(self, span: Span) -> Tensor:
        place_S = torch.arange(span.keys, span.last, device=self.q_BHTE.device)
        return place_S[span.first - span.keys :, None] - place_S


See = Callable[[Attended], None]


@torch.no_grad()
def watch_attention(decoder: Decoder, tokens_BT: Tensor, documents_BT: Tensor | None, see: See) -> None:
    """A forward pass that shows the attention of every application to `see`, in their order; one without attention heads is left out."""
    order = iter([index for index, parts in enumerate(decoder.parts) if isinstance(parts.attn, Attention)])
    with contextlib.ExitStack() as hooks:
        for module in {id(parts.attn): parts.attn for parts in decoder.parts if isinstance(parts.attn, Attention)}.values():
            hooks.callback(module.register_forward_pre_hook(partial(_show, order, see)).remove)
        decoder.hidden(tokens_BT, documents_BT=documents_BT)


def _show(order: Iterator[int], see: See, module: Attention, given: tuple) -> None:
    """given: the arguments of `Attention.forward`."""
    x_BTD, masks, window, angles, value_BTKE, _ = given
    q_BHTE, k_BKTE, v_BKTE = (part.to(x_BTD.dtype).transpose(1, 2) for part in module.project(x_BTD, angles, value_BTKE))
    slopes_H = torch.tensor(alibi_slopes(masks.alibi), dtype=torch.float64, device=x_BTD.device) if masks.alibi else None
    y_BHTE = masks.of(window, x_BTD.shape[1]).attend(q_BHTE, k_BKTE, v_BKTE)
    see(Attended(next(order), q_BHTE, k_BKTE, v_BKTE, y_BHTE, module.head_dim**-0.5, window, slopes_H, masks.documents_BT))
