"""Root-mean-square normalisation, y = x / sqrt(mean(x²) + eps) · weight, with or without a weight per channel.

Zhang and Sennrich, arXiv 1910.07467. On a CPU torch composes it of single operations that keep two tensors as large as x and go back
through eight; here the backward pass is written down, with r = 1 / sqrt(mean(x²) + eps) and one r a position kept beside x:

    dx = r · dy·w − x · r³ · mean(dy·w·x)        dw = Σ over positions of r · dy·x
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ostinato.model.linear import unset


def rms_norm(x: Tensor, eps: float, weight: Tensor | None = None) -> Tensor:
    """Normalise the last dimension; same shape. A weight of more digits than x lends them to the result."""
    x = x if weight is None else x.to(weight.dtype)
    if x.is_cpu and x.dtype in (torch.float32, torch.float64) and not torch.compiler.is_dynamo_compiling():
        return _RMSNorm.apply(x, eps, weight)
    return F.rms_norm(x, x.shape[-1:], weight, eps)


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, eps: float, weight: Tensor | None) -> Tensor:
        inverse = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, inverse, weight)
        y = x * inverse
        return y if weight is None else y.mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy: Tensor) -> tuple[Tensor | None, None, Tensor | None]:
        x, inverse, weight = ctx.saved_tensors
        size = x.shape[-1]
        product = dy * x
        if weight is None:
            dot, dweight, dx = product.sum(-1, keepdim=True), None, torch.mul(dy, inverse, out=product)
        else:
            flat = product.reshape(-1, size)  # in the order of dy, which need not be that of x
            dot, dweight = torch.mv(flat, weight).view(inverse.shape), torch.mv(flat.T, inverse.reshape(-1))
            dx = torch.mul(dy, weight, out=product).mul_(inverse)
        return dx.addcmul_(x, dot.mul_(inverse.pow(3)), value=-1 / size), None, dweight


class RMSNorm(nn.Module):
    """rms_norm over `size` channels.  weight [size], or no parameter at all."""

    def __init__(self, size: int, weight: bool, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = unset(size) if weight else None

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] -> [..., size]."""
        return rms_norm(x, self.eps, self.weight)
