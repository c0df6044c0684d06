"""The naive twin of the gated delta rule: one row, one head, one token at a time, straight from the equation.

    S_t = α_t S_{t-1} (I − β_t k_t k_tᵀ) + β_t v_t k_tᵀ          o_t = S_t q_t

Yang et al., arXiv 2412.06464, equation 10. α = exp(g) is the share of the state that a token leaves, β the strength with which it
writes. k and q are divided by √(|x|² + 1e-6), and q by √E besides. A token that begins a document finds a state of zeros.
It shares no code with the fast path and is for short rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def delta_rule(q_TE: Tensor, k_TE: Tensor, v_TE: Tensor, g_T: Tensor, beta_T: Tensor, documents: Sequence[int],
               state_EE: Tensor | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Outputs [T, E] and the state after the last token.

    g_T: log decay, at most 0.  documents: document of every token.  state_EE: before the first token, [key, value] (None: zeros);
    the returned one is laid out alike, the transpose of S above.
    """
    size = q_TE.shape[1]
    zeros = torch.zeros(size, size, dtype=q_TE.dtype)
    state = zeros if state_EE is None else state_EE.T
    outputs = []
    for t in range(len(q_TE)):
        if t > 0 and documents[t] != documents[t - 1]:
            state = zeros
        q, k, v, beta = _unit(q_TE[t]) / math.sqrt(size), _unit(k_TE[t]), v_TE[t], beta_T[t]
        state = torch.exp(g_T[t]) * (state - beta * torch.outer(state @ k, k)) + beta * torch.outer(v, k)
        outputs.append(state @ q)
    return torch.stack(outputs), state.T


def _unit(x: Tensor) -> Tensor:
    return x / torch.sqrt(sum(value * value for value in x) + 1e-6)
