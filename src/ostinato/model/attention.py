"""The token mixer: causal softmax attention with grouped queries (Ainslie et al., arXiv 2305.13245).

Query head h reads key-value head h // (H / K). Norms of q and k (Henry et al., arXiv 2010.04245): `plain` has no weight and comes
after RoPE, as in loop2; `weight` has one per channel and comes before RoPE, as in Qwen3.

A gate (Qiu et al., arXiv 2505.06708, their position G1): what attention gives a head, times σ(W x), x the sublayer's normed input, before
the output projection; `head` has one number a head, `channel` one for each of its channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ostinato.model.cache import Slot
from ostinato.model.linear import Linear
from ostinato.model.masks import Masks
from ostinato.model.norm import RMSNorm
from ostinato.model.positions import rotate


class Attention(nn.Module):
    """o(gate · softmax(q k / sqrt(E)) v).  The window, the mask and the positions come from outside: they belong to the application."""

    def __init__(self, width: int, heads: int, kv_heads: int, head_dim: int, qk_norm: str, eps: float, gate: str = "none"):
        super().__init__()
        self.head_dim, self.qk_norm = head_dim, qk_norm
        self.q = Linear(width, heads * head_dim)
        self.k = Linear(width, kv_heads * head_dim)
        self.v = Linear(width, kv_heads * head_dim)
        self.o = Linear(heads * head_dim, width)
        if gate != "none":
            self.gate = Linear(width, heads if gate == "head" else heads * head_dim)
        self.gated = gate != "none"
        if qk_norm != "none":
            self.q_norm = RMSNorm(head_dim, qk_norm == "weight", eps)
            self.k_norm = RMSNorm(head_dim, qk_norm == "weight", eps)

    def forward(self, x_BTD: Tensor, masks: Masks, window: int | None, angles: tuple[Tensor, Tensor] | None,
                value_BTKE: Tensor | None = None, slot: Slot | None = None) -> Tensor:  # fmt: skip
        """[B, T, D] -> [B, T, D].  value_BTKE: added to the values.  slot: the application's place in a cache."""
        q_BTHE, k_BTKE, v_BTKE = self.project(x_BTD, angles, value_BTKE)
        q_BHTE, k_BKSE, v_BKSE = (part.to(x_BTD.dtype).transpose(1, 2) for part in (q_BTHE, k_BTKE, v_BTKE))
        if slot is not None:
            k_BKSE, v_BKSE = slot.extend(k_BKSE, v_BKSE)
        y_BHTE = masks.of(window, k_BKSE.shape[2]).attend(q_BHTE, k_BKSE, v_BKSE)
        y_BTHE = y_BHTE.transpose(1, 2)
        if self.gated:
            y_BTHE = y_BTHE * torch.sigmoid(self.gate(x_BTD)).unflatten(-1, (y_BTHE.shape[2], -1))
        return self.o(y_BTHE.flatten(2))

    def project(self, x_BTD: Tensor, angles: tuple[Tensor, Tensor] | None, value_BTKE: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """q [B, T, H, E], k and v [B, T, K, E]: after norms and rotation, what attention sees, before it is cast to the dtype of x."""
        q_BTHE, k_BTKE, v_BTKE = (part(x_BTD).unflatten(-1, (-1, self.head_dim)) for part in (self.q, self.k, self.v))
        if value_BTKE is not None:
            v_BTKE = v_BTKE + value_BTKE
        if self.qk_norm == "weight":
            q_BTHE, k_BTKE = self.q_norm(q_BTHE), self.k_norm(k_BTKE)
        if angles is not None:
            q_BTHE, k_BTKE = rotate(q_BTHE, *angles), rotate(k_BTKE, *angles)
        if self.qk_norm == "plain":
            q_BTHE, k_BTKE = self.q_norm(q_BTHE), self.k_norm(k_BTKE)
        return q_BTHE, k_BTKE, v_BTKE
