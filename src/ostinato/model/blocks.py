"""Causal attention on a CPU in blocks of queries: each against the keys that it can see, and no key beyond.

        keys  0 … 63 64 … 127 128 … 191
    queries 0 … 63 ■
          64 … 127 ■     ■                 window: keys before the first that any query of a block sees are skipped as well
         128 … 191 ■     ■      ■

A block is two batched products over the heads of a few rows and a softmax in place; the backward pass computes the probabilities P of
a block again and is five products (Dao et al., arXiv 2205.14135, with whole rows of keys, so that no running maximum is needed):

    S = q k' / sqrt(E) + bias    P = softmax S    y = P v
    dv = P' dy    dP = dy v'    dS = P ∘ (dP − rowsum(P ∘ dP))    dq = dS k / sqrt(E)    dk = dS' q / sqrt(E)

It keeps q, k and v, and nothing of T x T. torch's fused kernel does the same work in small products of its own; MKL's batched ones
are about 1.4 times as fast from heads of 32 and contexts of 256 on (docs/decisions/0134).

Shapes: B rows  T tokens  H query heads  K key-value heads  E head_dim  N heads of some rows  R queries of a block  S keys it sees.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ostinato.ledger.work import BLOCK

SCORES_AT_ONCE = 2**18
"""1 MB: enough work for two threads, and near enough to them."""


@dataclass(frozen=True)
class Span:
    """Queries first..last - 1, which see no key outside keys..last - 1."""

    first: int
    last: int
    keys: int

    def bias(self, bias_NRT: Tensor) -> Tensor:
        """Their part [N, R, S] of the pattern of the last block, which is that of every block: only distances count."""
        block, length = bias_NRT.shape[1:]
        return bias_NRT[:, block - (self.last - self.first) :, length - (self.last - self.keys) :]


def spans(length: int, window: int | None) -> Iterator[Span]:
    """Blocks of queries from the last to the first: the largest buffers come first, and later ones fit into them."""
    for first in reversed(range(0, length, BLOCK)):
        yield Span(first, min(first + BLOCK, length), 0 if window is None else max(0, first - window + 1))


def attend(q_BHTE: Tensor, k_BKTE: Tensor, v_BKTE: Tensor, bias_HRT: Tensor, window: int | None) -> Tensor:
    """softmax(q k / sqrt(E) + bias) v, [B, H, T, E], laid out as [B, T, H, E].

    bias_HRT: [1 or H, min(BLOCK, T), T], that of the last block of queries over all keys, -inf where a key is not seen; it depends on
    distances alone.  window: the most keys that a query sees (None: all before it).
    """
    if torch.compiler.is_dynamo_compiling():  # is_compiling is true as well while another thread compiles
        return _opaque(q_BHTE, k_BKTE, v_BKTE, bias_HRT, window)
    return _Attention.apply(q_BHTE, k_BKTE, v_BKTE, bias_HRT, window)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q_BHTE: Tensor, k_BKTE: Tensor, v_BKTE: Tensor, bias_HRT: Tensor, window: int | None) -> Tensor:
        ctx.save_for_backward(q_BHTE, k_BKTE, v_BKTE, bias_HRT)
        ctx.window = window
        return forward(q_BHTE, k_BKTE, v_BKTE, bias_HRT, window)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy_BHTE: Tensor) -> tuple[Tensor | None, ...]:
        return *backward(dy_BHTE, *ctx.saved_tensors, ctx.window), None, None


def forward(q_BHTE: Tensor, k_BKTE: Tensor, v_BKTE: Tensor, bias_HRT: Tensor, window: int | None) -> Tensor:
    """`attend` without autograd."""
    heads, length = q_BHTE.shape[1:3]
    y_BHTE, scores, product = _laid_out(q_BHTE), Scratch(q_BHTE), Scratch(q_BHTE)
    for rows in row_groups(q_BHTE, window):
        q_NTE, k_NTE, v_NTE = q_BHTE[rows].flatten(0, 1), _repeated(k_BKTE[rows], heads), _repeated(v_BKTE[rows], heads)
        bias_NRT = _for_rows(bias_HRT, len(q_NTE))
        for span in spans(length, window):
            p_NRS = _probabilities(q_NTE, k_NTE, bias_NRT, span, scores)
            y_NRE = product.of(p_NRS, v_NTE[:, span.keys : span.last])
            y_BHTE[rows, :, span.first : span.last] = y_NRE.unflatten(0, (-1, heads))
    return y_BHTE


def backward(dy_BHTE: Tensor, q_BHTE: Tensor, k_BKTE: Tensor, v_BKTE: Tensor, bias_HRT: Tensor,
             window: int | None) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of q, k and v."""
    heads, length, size = q_BHTE.shape[1:]
    groups, scale = k_BKTE.shape[1], size**-0.5
    dq_BHTE, dk_BKTE, dv_BKTE = _laid_out(q_BHTE), _laid_out(k_BKTE), _laid_out(v_BKTE)
    scores, changes, product = Scratch(q_BHTE), Scratch(q_BHTE), Scratch(q_BHTE)
    for rows in row_groups(q_BHTE, window):
        q_NTE, k_NTE, v_NTE = q_BHTE[rows].flatten(0, 1), _repeated(k_BKTE[rows], heads), _repeated(v_BKTE[rows], heads)
        dy_NTE, dk_NTE, dv_NTE = dy_BHTE[rows].flatten(0, 1), torch.zeros_like(k_NTE), torch.zeros_like(v_NTE)
        bias_NRT = _for_rows(bias_HRT, len(q_NTE))
        for span in spans(length, window):
            queries, keys = slice(span.first, span.last), slice(span.keys, span.last)
            p_NRS, dy_NRE = _probabilities(q_NTE, k_NTE, bias_NRT, span, scores), dy_NTE[:, queries]
            dv_NTE[:, keys] += product.of(p_NRS.mT, dy_NRE)
            ds_NRS = changes.of(dy_NRE, v_NTE[:, keys].mT)
            torch._softmax_backward_data(ds_NRS, p_NRS, -1, p_NRS.dtype, grad_input=ds_NRS)
            dk_NTE[:, keys] += product.of(ds_NRS.mT, q_NTE[:, queries])
            dq_NRE = product.of(ds_NRS, k_NTE[:, keys])
            torch.mul(dq_NRE.unflatten(0, (-1, heads)), scale, out=dq_BHTE[rows, :, queries])
        for whole_BKTE, part_NTE in ((dk_BKTE, dk_NTE.mul_(scale)), (dv_BKTE, dv_NTE)):
            part_BHTE = part_NTE.unflatten(0, (-1, heads))
            whole_BKTE[rows] = part_BHTE if groups == heads else part_BHTE.unflatten(1, (groups, -1)).sum(2)
    return dq_BHTE, dk_BKTE, dv_BKTE


class Scratch:
    """Memory for one product after another, as large as the largest so far."""

    def __init__(self, like: Tensor):
        self.memory = like.new_empty(0)

    def take(self, *shape: int) -> Tensor:
        """Memory of this shape, with whatever the last one left in it."""
        if self.memory.numel() < (count := math.prod(shape)):
            self.memory = self.memory.new_empty(count)
        return self.memory[:count].view(shape)

    def of(self, a_NMK: Tensor, b_NKL: Tensor) -> Tensor:
        """a b."""
        return torch.bmm(a_NMK, b_NKL, out=self.take(len(a_NMK), a_NMK.shape[1], b_NKL.shape[2]))


def _probabilities(q_NTE: Tensor, k_NTE: Tensor, bias_NRT: Tensor, span: Span, scores: Scratch) -> Tensor:
    q_NRE, k_NSE = q_NTE[:, span.first : span.last], k_NTE[:, span.keys : span.last]
    s_NRS = scores.take(len(q_NTE), q_NRE.shape[1], k_NSE.shape[1])
    torch.baddbmm(span.bias(bias_NRT), q_NRE, k_NSE.mT, alpha=q_NTE.shape[-1] ** -0.5, out=s_NRS)
    return torch.softmax(s_NRS, -1, out=s_NRS)


def row_groups(q_BHTE: Tensor, window: int | None) -> list[slice]:
    """Rows whose heads go through one batched product together."""
    rows, heads, length = q_BHTE.shape[:3]
    seen = length if window is None else min(length, window + BLOCK)
    at_once = max(1, SCORES_AT_ONCE // (heads * min(BLOCK, length) * seen))
    return [slice(first, first + at_once) for first in range(0, rows, at_once)]


def _for_rows(bias_HRT: Tensor, heads: int) -> Tensor:
    """The pattern of each of N heads, or the one of all."""
    return bias_HRT if len(bias_HRT) == 1 else bias_HRT.repeat(heads // len(bias_HRT), 1, 1)


def _repeated(x_BKTE: Tensor, heads: int) -> Tensor:
    """Key-value heads, one for every query head: [N, T, E], N = B·H."""
    groups = x_BKTE.shape[1]
    return (x_BKTE if groups == heads else x_BKTE.repeat_interleave(heads // groups, 1)).flatten(0, 1)


def _laid_out(x_BHTE: Tensor) -> Tensor:
    """Memory for something of this shape in the order B, T, H, E, as products over channels make it and take it."""
    rows, heads, length, size = x_BHTE.shape
    return x_BHTE.new_empty(rows, length, heads, size).transpose(1, 2)


# For the compiler the two passes are operations that it does not look into: traced, their loops would be hundreds of small graphs' worth of
# compiling, and no faster. An eager call goes around them: the first one would import the compiler, which takes a second.


@torch.library.custom_op("ostinato::attend_in_blocks", mutates_args=())
def _opaque(q_BHTE: Tensor, k_BKTE: Tensor, v_BKTE: Tensor, bias_HRT: Tensor, window: int | None) -> Tensor:
    return forward(q_BHTE, k_BKTE, v_BKTE, bias_HRT, window)


@torch.library.custom_op("ostinato::attend_in_blocks_backward", mutates_args=())
def _opaque_backward(dy_BHTE: Tensor, q_BHTE: Tensor, k_BKTE: Tensor, v_BKTE: Tensor, bias_HRT: Tensor,
                     window: int | None) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return backward(dy_BHTE, q_BHTE, k_BKTE, v_BKTE, bias_HRT, window)


@_opaque.register_fake
def _(q_BHTE: Tensor, k_BKTE: Tensor, v_BKTE: Tensor, bias_HRT: Tensor, window: int | None) -> Tensor:
    return _laid_out(q_BHTE)


@_opaque_backward.register_fake
def _(dy_BHTE: Tensor, q_BHTE: Tensor, k_BKTE: Tensor, v_BKTE: Tensor, bias_HRT: Tensor,
      window: int | None) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return _laid_out(q_BHTE), _laid_out(k_BKTE), _laid_out(v_BKTE)


def _keep(ctx, inputs: tuple, output: Tensor) -> None:
    *tensors, ctx.window = inputs
    ctx.save_for_backward(*tensors)


def _gradients(ctx, dy_BHTE: Tensor) -> tuple[Tensor | None, ...]:
    return *_opaque_backward(dy_BHTE, *ctx.saved_tensors, ctx.window), None, None


_opaque.register_autograd(_gradients, setup_context=_keep)
