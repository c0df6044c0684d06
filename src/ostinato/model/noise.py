"""Normal noise that is computed and not drawn: a function of (key of a row, place, position, channel), the same on every device and in
any batch. It is what the state of a repeated group is before its first pass, where a model has `h0: noise` (model/decoder.py).

    row key         two words of 32 bits: of sha256("h0|seed|step|row") in training, so that every step has noise of its own that follows
                    from the run's seed, the step and the row's place in the step alone; one fixed key in measuring and generation, so that
                    a loss is a function of the weights and the text, and a cache changes nothing
    a, b            32 bits each: mix(mix(key ^ mix(position)) ^ mix(channel pair, place)), once with each word of the key
    z               Box and Muller (Ann. Math. Stat. 29, 1958): r = sqrt(-2 ln((a + ½)/2³²)), θ = 2πb/2³²; two channels r cos θ, r sin θ

`mix` is a permutation of 32-bit numbers by shifts and two odd factors, from Wellons' search for the least biased of that form ("Prospecting
for hash functions", 2018; the pair 21f0aaad, 735a2d97). Both factors are below 2³¹, so that a product fits 63 bits: torch has no unsigned
64-bit arithmetic on every device. Angles and logarithms are float64, then rounded: float32 noise is float64 noise to its digits.

Shapes, as suffixes of names: B rows   T positions   P pairs of channels   D channels
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor

WORD = (1 << 32) - 1
SPREAD = 0x9E3779B1  # 2³² over the golden ratio, made odd: keeps small numbers apart before they are mixed


def row_keys(seed: int, step: int, rows: int) -> Tensor:
    """The keys of the rows of a training step (from 0): int64 [rows, 2], each a word of 32 bits."""
    return torch.tensor([_words(f"h0|{seed}|{step}|{row}") for row in range(rows)], dtype=torch.int64).view(rows, 2)


def fixed_key() -> Tensor:
    """The key of measuring and generation, for every row: int64 [1, 2]."""
    return torch.tensor([_words("h0|fixed")], dtype=torch.int64)


def normal(keys_B2: Tensor, place: int, start: int, length: int, width: int, dtype: torch.dtype) -> Tensor:
    """N(0, 1) noise [B, length, width] on the keys' device, for positions from `start`.  place: keeps the groups of a model apart."""
    device = keys_B2.device
    position_T = _mix(torch.arange(start, start + length, device=device))
    pair_P = torch.arange((width + 1) // 2, device=device)
    pair_P = _mix(pair_P * SPREAD + (place + 1) * 0x85EBCA6B & WORD)
    a_BTP, b_BTP = (_mix(_mix(key_B[:, None] ^ position_T)[..., None] ^ pair_P) for key_B in keys_B2.unbind(1))
    radius_BTP = torch.sqrt(-2 * torch.log((a_BTP.double() + 0.5) / 2**32))
    angle_BTP = b_BTP.double() * (2 * math.pi / 2**32)
    z_BTP2 = torch.stack((radius_BTP * angle_BTP.cos(), radius_BTP * angle_BTP.sin()), -1)
    return z_BTP2.flatten(-2)[..., :width].to(dtype)


def _mix(word: Tensor) -> Tensor:
    """A permutation of the numbers below 2³², held in int64."""
    word = ((word >> 16) ^ word) * 0x21F0AAAD & WORD
    word = ((word >> 15) ^ word) * 0x735A2D97 & WORD
    return (word >> 15) ^ word


def _words(text: str) -> tuple[int, int]:
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")
