"""Where a token stands: rotary angles on queries and keys, or a bias on the scores by distance.

RoPE (Su et al., arXiv 2104.09864) in the half-split pairing: channel i turns together with channel i + E/2, by
position · base^(-2i/E).  ALiBi (Press et al., arXiv 2108.12409): score − slope_h · (query position − key position).
Learned positions are a table of the decoder; `none` is no code at all.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rotation(positions_T: Tensor, head_dim: int, base: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every angle, each [T, E/2]; computed in float64, so that far positions keep their digits."""
    powers = torch.arange(0, head_dim, 2, dtype=torch.float64, device=positions_T.device) / head_dim
    angle = positions_T.double()[:, None] * base**-powers
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x_BTHE: Tensor, cos_TE: Tensor, sin_TE: Tensor) -> Tensor:
    """Turn every pair (i, i + E/2) of every head by its position's angle."""
    cos, sin = cos_TE[:, None], sin_TE[:, None]
    a, b = x_BTHE.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def alibi_slopes(heads: int) -> list[float]:
    """One slope a head: 2^(-8/n), 2^(-16/n), … for n heads, n a power of two.

    For another number, those of the power of two below it, then every other one of twice that power: 12 heads have the
    slopes of 8, then .7071 .3536 .1768 .0884.
    """
    whole = 1 << (heads.bit_length() - 1)
    slopes = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    return slopes + [2 ** (-4 * (2 * i + 1) / whole) for i in range(heads - whole)]
