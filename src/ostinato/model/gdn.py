"""The recurrent token mixer: Gated DeltaNet (Yang et al., arXiv 2412.06464), a state of fixed size instead of keys and values.

    q, k, v = silu(conv(W x))          each its own depthwise convolution over four tokens, without bias
    g = −exp(A_log) · softplus(W_a x + dt_bias)          β = σ(W_b x)          log decay and writing strength of every head
    o = gated delta rule of q, k, v, g, β (delta.py)
    y = W_o (rms(o) · weight · silu(W_g x))          the norm over the channels of a head, one weight for all heads

Positions, windows and masks do not enter: the order of tokens is in the recurrence. Six of the seven projections are two
products of weights laid one below the other. The layer agrees with Qwen3-Next's of the same weights (tests/model/test_gdn.py).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ostinato.model.cache import DeltaSlot
from ostinato.model.convolution import Taps, convolve
from ostinato.model.delta_rule import DeltaBackend, gated_delta_rule
from ostinato.model.linear import Linear, unset
from ostinato.model.norm import RMSNorm
from ostinato.model.spans import Spans


class GatedDeltaNet(nn.Module):
    """The mixer above: H heads of E channels for keys and for values.  backend: of the delta rule, see delta_rule.py."""

    def __init__(self, width: int, heads: int, head_dim: int, taps: int, eps: float, backend: DeltaBackend = "auto"):
        super().__init__()
        self.heads, self.head_dim, self.taps, self.backend = heads, head_dim, taps, backend
        inner = heads * head_dim
        self.q, self.k, self.v, self.g = (Linear(width, inner) for _ in range(4))
        self.o = Linear(inner, width)
        self.a, self.b = Linear(width, heads), Linear(width, heads)
        self.A_log, self.dt_bias = unset(heads), unset(heads)
        self.q_conv, self.k_conv, self.v_conv = (Taps(inner, taps) for _ in range(3))
        self.o_norm = RMSNorm(head_dim, True, eps)

    def forward(self, x_BTD: Tensor, spans: Spans | None = None, slot: DeltaSlot | None = None) -> Tensor:
        """[B, T, D] -> [B, T, D].  spans: where documents begin (None: nowhere).  slot: the application's place in a cache."""
        heads, inner = self.heads, self.heads * self.head_dim
        x_BTC, rest_BTC = (F.linear(x_BTD, torch.cat([part.weight for part in parts]).to(x_BTD.dtype))
                           for parts in ((self.q, self.k, self.v), (self.g, self.a, self.b)))  # fmt: skip
        gate_BTC, a_BTH, b_BTH = rest_BTC.split((inner, heads, heads), -1)
        before_BWC = None if slot is None else slot.before(x_BTC, self.taps - 1)
        taps_CW = torch.cat([part.weight[:, 0] for part in (self.q_conv, self.k_conv, self.v_conv)])
        mixed_BTC = convolve(x_BTC, taps_CW, spans and spans.seen, before_BWC)
        q_BTHE, k_BTHE, v_BTHE = (part.unflatten(-1, (heads, -1)) for part in mixed_BTC.chunk(3, -1))
        exact = self.A_log.dtype
        g_BTH = -self.A_log.exp() * F.softplus(a_BTH.to(exact) + self.dt_bias)
        y_BTHE, state_BHEE = gated_delta_rule(q_BTHE, k_BTHE, v_BTHE, g_BTH, b_BTH.to(exact).sigmoid(), spans=spans,
                                              initial_state=slot and slot.state_BHEE, final=slot is not None,
                                              backend=self.backend)  # fmt: skip
        if slot is not None:
            slot.keep(torch.cat((before_BWC, x_BTC), 1)[:, 1 - self.taps :], state_BHEE)
        y_BTHE = self.o_norm(y_BTHE) * F.silu(gate_BTC).unflatten(-1, (heads, -1))
        return self.o(y_BTHE.flatten(2).to(x_BTD.dtype))
