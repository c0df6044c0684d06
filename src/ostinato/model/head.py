"""The head: logits of a stream, and the loss and gradient of every token without ever holding all logits.

Shapes, as suffixes of names: N tokens, D d_model, V vocabulary, C tokens of a chunk.

    z = (x / cap) Wᵀ        logits = cap · tanh z, or x Wᵀ without a softcap        nats = logsumexp logits - logits[target]
    dlogits = softmax logits - onehot        dz = dlogits · (1 - tanh² z)        dx = dz W        dW = dzᵀ x

Three products are all that loss and gradient take, so both are formed together, chunk by chunk, while a chunk's logits are at hand;
kept for the backward pass are dx and dW of the plain sum of nats. A backward pass whose upstream gradient is one number for all
tokens, as that of any sum of losses is, multiplies them by it. Any other one takes the chunks a second time, exactly. Chunks are
as equal as they can be and are added in their order, in float32 or better, so the same call always gives the same bits. The idea
is that of Liger Kernel (Hsu et al., arXiv 2410.10989); see cut cross-entropy (Wijmans et al., arXiv 2411.09009), too.

`nats` is float64, so that a sum of it in float64 has a gradient that autograd does not copy: that it is one number is then seen
from its strides, without reading it, which on a GPU would be a wait. HEADS names the ways there are; `full` is the naive twin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx

from ostinato.errors import OstinatoError
from ostinato.ledger.memory import HEAD_LEAST, HEAD_LOGITS, head_chunk
from ostinato.model import liger

Head = Literal["auto", "chunked", "full", "liger"]
Between = Callable[[Tensor, Tensor, float | None, bool], tuple[Tensor, Tensor]]
SHARED = 8
"""Times the logits of one thread, where several share each product and wait for each other at its end."""
LEAST = {"cpu": HEAD_LEAST, "cuda": 4096}
"""Tokens of a chunk: with fewer, going through W and dW once a chunk costs more than 10% of the three products; decision 0130."""


def logits(x: Tensor, weight_VD: Tensor, softcap: float | None, product_dtype: torch.dtype) -> Tensor:
    """[..., D] -> [..., V], float32 or better; products in `product_dtype`."""
    if softcap is not None:
        x = x / softcap  # D divisions a token instead of V
    found = F.linear(x.to(product_dtype), weight_VD.to(product_dtype))
    found = found.to(torch.promote_types(found.dtype, torch.float32))
    return found if softcap is None else softcap * torch.tanh(found)


def nats(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, *, softcap: float | None, product_dtype: torch.dtype,
         head: Head = "auto", between: Between | None = None) -> Tensor:  # fmt: skip
    """The loss of every token, float64 [N], 0 where the target is -1 (not counted); differentiable in x and weight.

    head: one of HEADS.  between: `softmax` or its compiled form, for a head in chunks.
    Raises OstinatoError, in the backward pass, when a gradient of the gradient is asked for (`create_graph`) of a head in chunks.
    """
    name, _ = choose_head(head, x_ND.device, product_dtype)
    return HEADS[name](x_ND, weight_VD, targets_N, softcap, product_dtype, between or softmax)


def choose_head(head: Head, device: torch.device, product_dtype: torch.dtype) -> tuple[Literal["chunked", "full", "liger"], str]:
    """Which of HEADS computes loss and gradient, and why in words; `auto` takes Liger Kernel's on CUDA where it can be used.

    Raises OstinatoError when `liger` is asked for and cannot be used.
    """
    if head not in ("auto", "liger"):
        return head, "asked for"
    lacks = "never all logits" if device.type != "cuda" else liger.unusable(product_dtype)
    if head == "auto":
        return ("chunked", lacks) if lacks else ("liger", "Liger Kernel is installed")
    if device.type != "cuda" or lacks:
        what = f"its kernels run on CUDA, and this is {device}" if device.type != "cuda" else lacks
        raise OstinatoError("the head liger was asked for", what, "use the head chunked or auto")
    return "liger", "asked for"


def full(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, softcap: float | None, product_dtype: torch.dtype,
         between: Between) -> Tensor:  # fmt: skip
    """`nats` by autograd through all logits at once, without `between`."""
    scores_NV = logits(x_ND, weight_VD, softcap, product_dtype)
    return F.cross_entropy(scores_NV, targets_N, ignore_index=-1, reduction="none").double()


def chunked(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, softcap: float | None, product_dtype: torch.dtype,
            between: Between) -> Tensor:  # fmt: skip
    """`nats` in chunks of tokens. What is not counted is not computed either, on a CPU and where no gradient is asked for."""
    gradient = torch.is_grad_enabled() and (x_ND.requires_grad or weight_VD.requires_grad)
    if (targets_N.device.type == "cpu" or not gradient) and bool((targets_N < 0).any()):
        kept = (targets_N >= 0).nonzero()[:, 0]
        some = chunked(x_ND[kept], weight_VD, targets_N[kept], softcap, product_dtype, between)
        return some.new_zeros(len(targets_N)).index_copy(0, kept, some)
    if gradient:
        return _Nats.apply(x_ND, weight_VD, targets_N, softcap, product_dtype, between)
    return _chunks(x_ND, weight_VD, targets_N, softcap, product_dtype, between, None, (False, False))[0]


def by_liger(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, softcap: float | None, product_dtype: torch.dtype,
             between: Between) -> Tensor:  # fmt: skip
    """`nats` by the kernels of liger.py; a gradient that is not one number for all tokens goes through our chunks."""
    if torch.is_grad_enabled() and (x_ND.requires_grad or weight_VD.requires_grad):
        return _Nats.apply(x_ND, weight_VD, targets_N, softcap, product_dtype, between, True)
    return liger.chunks(x_ND, weight_VD, targets_N, softcap, product_dtype, (False, False))[0]


HEADS: dict[str, Callable[[Tensor, Tensor, Tensor, float | None, torch.dtype, Between], Tensor]] = {
    "chunked": chunked, "full": full, "liger": by_liger}  # fmt: skip


class _Nats(torch.autograd.Function):
    """Losses, and with them the gradient of their plain sum."""

    @staticmethod
    def forward(ctx: FunctionCtx, x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, softcap: float | None,
                product_dtype: torch.dtype, between: Between, liger_first: bool = False) -> Tensor:  # fmt: skip
        ctx.save_for_backward(x_ND, weight_VD, targets_N)
        ctx.how, wanted = (softcap, product_dtype, between), ctx.needs_input_grad[:2]
        if liger_first:
            nats_N, *ctx.ready = liger.chunks(x_ND, weight_VD, targets_N, softcap, product_dtype, wanted)
        else:
            nats_N, *ctx.ready = _chunks(x_ND, weight_VD, targets_N, softcap, product_dtype, between, None, wanted)
        return nats_N

    @staticmethod
    def backward(ctx: FunctionCtx, grad_N: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # torch's once_differentiable would let it pass, as a constant
            raise OstinatoError("a second derivative through the head in chunks", "it has a first one only", "use the head `full`")
        given, ready, ctx.ready = ctx.saved_tensors, ctx.ready, None  # given away: a second backward pass computes them again
        if ready is None or not _uniform(grad_N):
            _, *found = _chunks(*given, *ctx.how, grad_N, ctx.needs_input_grad[:2])
        else:
            found = [None if part is None else part.mul_(grad_N[0]) for part in ready] if len(grad_N) else ready
        return (*found, None, None, None, None, None)


def _uniform(grad_N: Tensor) -> bool:
    """Whether all tokens have the same upstream gradient; read only where the strides do not say so."""
    return len(grad_N) <= 1 or grad_N.stride(0) == 0 or bool((grad_N == grad_N[0]).all())


def softmax(scores_CV: Tensor, place_C1: Tensor, softcap: float | None, slope: bool) -> tuple[Tensor, Tensor]:
    """From z to nats, float64 [C], and with `slope` to dz / cap, which takes the place of z: all that lies between the products."""
    capped_CV = None if softcap is None else scores_CV.tanh_()
    scores_CV = scores_CV if softcap is None else scores_CV * softcap
    wanted_C1, most_C = scores_CV.gather(1, place_C1), scores_CV.amax(1)
    softmax_CV = torch.softmax(scores_CV, 1, out=scores_CV)
    nats_C = most_C.double() - wanted_C1[:, 0] - softmax_CV.amax(1).double().log()  # the highest share is never near 0
    if slope:
        softmax_CV.scatter_add_(1, place_C1, softmax_CV.new_full((), -1).expand_as(place_C1))
        if capped_CV is not None:
            softmax_CV.addcmul_(softmax_CV, capped_CV.square_(), value=-1)
    return nats_C, softmax_CV


def _chunks(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, softcap: float | None, product_dtype: torch.dtype, between: Between,
            upstream_N: Tensor | None, wanted: tuple[bool, bool]) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """Nats, and where wanted dx and dW of the sum of upstream · nats (None: of the sum of nats), in the dtypes of x and weight."""
    exact, cast_VD = torch.promote_types(product_dtype, torch.float32), weight_VD.to(product_dtype)
    counted_N = targets_N >= 0
    places_N, upstream_N = targets_N.clamp_min(0), counted_N if upstream_N is None else upstream_N * counted_N
    nats_N = x_ND.new_empty(len(x_ND), dtype=torch.float64)
    dx_ND = torch.empty_like(x_ND) if wanted[0] else None
    dweight_VD = torch.zeros_like(weight_VD, dtype=exact) if wanted[1] else None
    most = HEAD_LOGITS * (1 if torch.get_num_threads() == 1 else SHARED)
    size = head_chunk(len(x_ND), len(weight_VD), LEAST.get(x_ND.device.type, HEAD_LEAST), most)
    room_CV = cast_VD.new_empty(size, len(weight_VD))
    for first in range(0, len(x_ND), max(1, size)):
        part = slice(first, first + size)
        x_CD, place_C1 = x_ND[part], places_N[part, None]
        product_CD = (x_CD if softcap is None else x_CD / softcap).to(product_dtype)
        scores_CV = torch.mm(product_CD, cast_VD.t(), out=room_CV[: len(x_CD)]).to(exact)
        nats_N[part], dz_CV = between(scores_CV, place_C1, softcap, any(wanted))
        if not any(wanted):
            continue
        dz_CV, scale_C1 = dz_CV.to(product_dtype), upstream_N[part, None].to(x_CD.dtype)
        if dx_ND is not None:
            dx_ND[part] = torch.mm(dz_CV, cast_VD) * scale_C1
        if dweight_VD is not None:
            scaled_CD = (x_CD * scale_C1).to(product_dtype)
            if exact == product_dtype:
                dweight_VD.addmm_(dz_CV.t(), scaled_CD)
            else:
                dweight_VD += torch.mm(dz_CV.t(), scaled_CD)
    dweight_VD = None if dweight_VD is None else dweight_VD.to(weight_VD.dtype)
    return nats_N.masked_fill_(~counted_N, 0), dx_ND, dweight_VD
