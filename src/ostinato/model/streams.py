"""Hyper-connections: several residual streams, and what a sublayer reads from them, keeps of them and writes to them.

Zhu et al., arXiv 2409.19606, the dynamic kind with tanh (their DHC, the one that they train models with). With N streams x_n of D channels,
M = S + s ∘ tanh(norm(x) Wᵀ) [N, N + 2] at every token, S and s constants that are learned, W a matrix:

    column 0            A_m   what the sublayer reads:  h = Σ_n M[n, 0] x_n
    columns 1 … N       A_r   what is kept:             x'_m = Σ_n M[n, m] x_n + M[m, N + 1] · sublayer(h)
    column N + 1        B     what is written

At the start W = 0, A_r = I, B = 1 and A_m picks stream k mod N, k the number of the sublayer, so that N streams that begin alike stay
alike: the plain residual, exactly. Streams begin as N copies of the embedding and end as their mean; the paper takes their sum, which is
the same to the final norm but for its eps, and a mean is of the size of what lens, norms and measures expect.

Everything else that acts on the stream (injection, scalars, x0, a norm at the end of a pass) acts on each stream alike, and so keeps that
start. S, s, W and the norm belong to the layer and to one of its sublayers: another pass through a layer uses them again.

Shapes, as suffixes of names: B rows   T tokens   N streams   D d_model   C = N + 2
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ostinato.model.linear import Linear, unset
from ostinato.model.norm import RMSNorm

START = 0.01
"""Of both scales s, as published."""


class Connections(nn.Module):
    """Between the streams and one sublayer.  norm: with a weight per channel, or without."""

    def __init__(self, streams: int, width: int, norm: bool, eps: float):
        super().__init__()
        self.norm = RMSNorm(width, norm, eps)
        self.dynamic = Linear(width, streams + 2)
        self.static = unset(streams, streams + 2)
        self.scale = unset(2)  # of what is read and kept, and of what is written

    def forward(self, x_BTND: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """The streams after `sublayer`, [B, T, N, D].  sublayer: [B, T, D] -> [B, T, D]."""
        streams = x_BTND.shape[-2]
        scale_C = torch.cat((self.scale[:1].expand(streams + 1), self.scale[1:]))
        m_BTNC = self.static + scale_C * torch.tanh(self.dynamic(self.norm(x_BTND)))
        read_BTN, keep_BTNN, write_BTN = m_BTNC[..., 0], m_BTNC[..., 1:-1], m_BTNC[..., -1]
        y_BTD = sublayer(_mixed(read_BTN, x_BTND))
        kept_BTND = torch.stack([_mixed(keep_BTNN[..., place], x_BTND) for place in range(streams)], -2)
        return torch.addcmul(kept_BTND, write_BTN.unsqueeze(-1), y_BTD.to(x_BTND.dtype).unsqueeze(-2))


def start(streams: int, sublayer: int) -> Tensor:
    """S at the start, [N, N + 2], of the sublayer of this number (from 0, in the order of the layers)."""
    read_N, write_N = torch.zeros(streams, 1), torch.ones(streams, 1)
    read_N[sublayer % streams] = 1
    return torch.cat((read_N, torch.eye(streams), write_N), 1)


def _mixed(weight_BTN: Tensor, x_BTND: Tensor) -> Tensor:
    """Σ_n w_n x_n, by element: N is small, and a product with a matrix of N rows is slower."""
    return (weight_BTN.unsqueeze(-1) * x_BTND).sum(-2)
