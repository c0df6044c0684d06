"""One application: what a layer does to the stream, as a function of tensors and of the modules that it runs.

    x = x + x0, or W [e; x]              where a later pass begins, or every pass of a repeated group: inject add, linear
    x = residual_scale · x + x0_scale · x0        own scalars, if the model has them
    x = x + attn(norm x)                 if its attention runs
    x = x + mlp(norm x)                  if its MLP runs; of several streams, as hyper-connections have it (streams.py)
    x = norm x                           where a pass of a repeated group ends, if the model has that norm

Nothing here knows which layer it is: two applications with equal `Parts.kind` do the same to other numbers, and share one compiled
graph (compiled.py).  Shapes as in decoder.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ostinato.model.cache import DeltaSlot, Slot
from ostinato.model.embeddings import gated_value
from ostinato.model.gdn import GatedDeltaNet
from ostinato.model.masks import Masks
from ostinato.model.spans import Spans
from ostinato.model.streams import Connections


@dataclass(frozen=True, eq=False)
class Parts:
    """The modules of one application, None where a part does not run, and what it does beside them.

    layer: norms, value gate, injection.  attn, mlp: of the layer or of the one that it is tied to.  values: the table of value embeddings.
    pass_norm: at the end of a pass.  adds, injects: x0, or e through a matrix.
    """

    layer: nn.Module
    attn: nn.Module | None
    mlp: nn.Module | None
    values: nn.Module | None
    pass_norm: nn.Module | None
    window: int | None
    adds: bool
    injects: bool

    @property
    def kind(self) -> Hashable:
        """Equal for applications of one decoder that differ in their tensors only."""
        modules = (self.attn, self.mlp, self.values, self.pass_norm)
        return (*map(type, modules), self.window if self.attn else None, self.adds, self.injects)


@dataclass(frozen=True)
class Side:
    """What every application of a forward pass sees beside the stream.  product_dtype: of matrix products and attention."""

    tokens_BT: Tensor
    x0_BTD: Tensor
    masks: Masks
    angles: tuple[Tensor, Tensor] | None
    spans: Spans | None
    product_dtype: torch.dtype


def apply(parts: Parts, side: Side, scales: tuple[Tensor, Tensor] | None, slot: Slot | DeltaSlot | None, e_BTD: Tensor,
          x_BTD: Tensor) -> Tensor:  # fmt: skip
    """The stream after this application, [B, T, D], or [B, T, N, D] of N streams.

    scales: of x and x0.  slot: of its attention, in a cache.  e_BTD: the stream where its repeated group began.
    """
    layer, dtype = parts.layer, x_BTD.dtype
    x0_BTD = side.x0_BTD if x_BTD.dim() == 3 else side.x0_BTD.unsqueeze(-2)
    if parts.adds:
        x_BTD = x_BTD + x0_BTD
    if parts.injects:
        x_BTD = layer.inject(torch.cat((e_BTD, x_BTD), -1).to(side.product_dtype)).to(dtype)
    if scales is not None:
        x_BTD = scales[0] * x_BTD + scales[1] * x0_BTD
    if parts.attn is not None:
        x_BTD = _residual(layer.attn_streams, partial(_attend, parts, side, slot), x_BTD)
    if parts.mlp is not None:
        x_BTD = _residual(layer.mlp_streams, lambda h_BTD: parts.mlp(layer.mlp_norm(h_BTD).to(side.product_dtype)), x_BTD)
    return x_BTD if parts.pass_norm is None else parts.pass_norm(x_BTD)


def _residual(connections: Connections | None, sublayer: Callable[[Tensor], Tensor], x_BTD: Tensor) -> Tensor:
    return x_BTD + sublayer(x_BTD) if connections is None else connections(x_BTD, sublayer)


def _attend(parts: Parts, side: Side, slot: Slot | DeltaSlot | None, x_BTD: Tensor) -> Tensor:
    """The token mixer on what its norm makes of x, [B, T, D]."""
    normed_BTD, value_BTKE = parts.layer.attn_norm(x_BTD).to(side.product_dtype), None
    if parts.values is not None:
        value_BTKE = gated_value(parts.layer.value_gate, normed_BTD, parts.values(side.tokens_BT))
    if isinstance(parts.attn, GatedDeltaNet):
        return parts.attn(normed_BTD, side.spans, slot)
    return parts.attn(normed_BTD, side.masks, parts.window, side.angles, value_BTKE, slot)
