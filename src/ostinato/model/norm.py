"""Root-mean-square normalisation, y = x / sqrt(mean(x²) + eps) · weight, with or without a weight per channel.

Zhang and Sennrich, arXiv 1910.07467.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from ostinato.model.linear import unset


def rms_norm(x: Tensor, eps: float, weight: Tensor | None = None) -> Tensor:
    """Normalise the last dimension; same shape. A weight of more digits than x lends them to the result."""
    x = x if weight is None else x.to(weight.dtype)
    return F.rms_norm(x, x.shape[-1:], weight, eps)


class RMSNorm(nn.Module):
    """rms_norm over `size` channels.  weight [size], or no parameter at all."""

    def __init__(self, size: int, weight: bool, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = unset(size) if weight else None

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] -> [..., size]."""
        return rms_norm(x, self.eps, self.weight)
