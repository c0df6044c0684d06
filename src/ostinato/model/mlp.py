"""The channel mixer: SwiGLU (Shazeer, arXiv 2002.05202) or squared ReLU (So et al., arXiv 2109.08668), without biases."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from ostinato.model.linear import Linear


class SwiGLU(nn.Module):
    """y = down(silu(gate x) · up x)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate = Linear(width, hidden)
        self.up = Linear(width, hidden)
        self.down = Linear(hidden, width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x_BTD)) * self.up(x_BTD))


class ReLU2(nn.Module):
    """y = down(relu(up x)²)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up = Linear(width, hidden)
        self.down = Linear(hidden, width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(F.relu(self.up(x_BTD)).square())


MLPS = {"swiglu": SwiGLU, "relu2": ReLU2}
