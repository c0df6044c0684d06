"""Where a token stands: rotary angles on queries and keys, or a bias on the scores by distance.

RoPE (Su et al., arXiv 2104.09864) in the half-split pairing: channel i turns together with channel i + E/2, by
position · base^(-2i/E).  ALiBi (Press et al., arXiv 2108.12409): score − slope_h · (query position − key position).
Learned positions are a table of the decoder; `none` is no code at all.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rotation(positions_T: Tensor, heads: int, head_dim: int, base: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """What `rotate` needs, two tensors [T, H, E]: cosines, and sines with those of the first half negated.

    Angles are computed in float64, so that far positions keep their digits. Repeating them for every head costs a little memory and
    makes the products run over long stretches of it: on one CPU core a third of the time of two separate halves.
    """
    powers = torch.arange(0, head_dim, 2, dtype=torch.float64, device=positions_T.device) / head_dim
    angle = (positions_T.double()[:, None] * base**-powers)[:, None]
    cos, sin = angle.cos(), angle.sin()
    return tuple(torch.cat(halves, -1).repeat(1, heads, 1).to(dtype) for halves in ((cos, cos), (-sin, sin)))


def rotate(x_BTHE: Tensor, cos_THE: Tensor, sin_THE: Tensor) -> Tensor:
    """Turn every pair (i, i + E/2) of every head by its position's angle; x may have fewer heads than the angles."""
    heads, half = x_BTHE.shape[2], x_BTHE.shape[3] // 2
    return torch.addcmul(x_BTHE * cos_THE[:, :heads], x_BTHE.roll(half, -1), sin_THE[:, :heads])


def alibi_slopes(heads: int) -> list[float]:
    """One slope a head: 2^(-8/n), 2^(-16/n), … for n heads, n a power of two.

    For another number, those of the power of two below it, then every other one of twice that power: 12 heads have the
    slopes of 8, then .7071 .3536 .1768 .0884.
    """
    whole = 1 << (heads.bit_length() - 1)
    slopes = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    return slopes + [2 ** (-4 * (2 * i + 1) / whole) for i in range(heads - whole)]
