"""The two ways a weight meets data: a matrix product and a row look-up. Neither has a bias.

Weights stay in their own dtype (float32 in training); a product runs in the dtype of its input, so a bfloat16 forward
casts the weight and not the stored parameter. New weights are NaN until `init.initialise` or `save.load_weights` fills
them: a model that was never initialised cannot pass for one that was.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def unset(*shape: int) -> nn.Parameter:
    """A parameter of this shape whose value is still to come."""
    return nn.Parameter(torch.full(shape, float("nan")))


class Linear(nn.Module):
    """y = W x.  weight [out, in]."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.weight = unset(outputs, inputs)

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out], in the dtype of x."""
        return F.linear(x, self.weight.to(x.dtype))


class Table(nn.Module):
    """Row i of a matrix.  weight [rows, width]."""

    def __init__(self, rows: int, width: int):
        super().__init__()
        self.weight = unset(rows, width)

    def forward(self, index: Tensor) -> Tensor:
        """int64 [...] -> [..., width], in the dtype of the weight."""
        return F.embedding(index, self.weight)
