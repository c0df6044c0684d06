"""What a token brings with it beside its embedding: the pair it forms with the token before, and a value for attention.

The bigram table adds one row a pair to the input. A row is found by a hash in the field of p = 2³¹ − 1 elements:

    h = (A·previous + B·current + C) mod p          row = (h⁵ mod p) mod rows

The line alone (Carter and Wegman 1979) fills the rows unevenly when pairs form a grid of small numbers, with 5.7 times the
variance of chance; the fifth power is a permutation of the field, because 5 does not divide p − 1, and brings it to that of
chance. No product exceeds 2⁶³. The first token of a row, and of a document when documents are masked, has no token before it:
the vocabulary's size stands for that.

Value embeddings (Zhou et al., arXiv 2410.17897, in the gated form of karpathy/autoresearch) add a table's row to the
values of a layer: v + 2σ(W x[:32]) · table[token], one gate a key-value head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ostinato.model.linear import Linear
from ostinato.study.derive import GATE_CHANNELS

A, B, C, PRIME = 1_640_531_527, 839_872_933, 374_761_393, 2**31 - 1


def bigram_rows(tokens_BT: Tensor, previous_B: Tensor | None, documents_BT: Tensor | None, vocab: int, rows: int) -> Tensor:
    """The table's row of every position, int64 [B, T].

    previous_B: the token before each row's first (generation), None when there is none.
    """
    first = torch.full_like(tokens_BT[:, :1], vocab) if previous_B is None else previous_B[:, None]
    previous_BT = torch.cat((first, tokens_BT[:, :-1]), dim=1)
    if documents_BT is not None:
        starts = documents_BT[:, 1:] != documents_BT[:, :-1]
        previous_BT = torch.cat((first, previous_BT[:, 1:].masked_fill(starts, vocab)), dim=1)
    hashed_BT = (A * previous_BT + B * tokens_BT + C) % PRIME
    square_BT = hashed_BT * hashed_BT % PRIME
    return square_BT * square_BT % PRIME * hashed_BT % PRIME % rows


def gated_value(gate: Linear, x_BTD: Tensor, value_BTC: Tensor) -> Tensor:
    """The looked-up value, its heads scaled by their gates: [B, T, K·E] -> [B, T, K, E].  x_BTD: the normed input of the sublayer."""
    gate_BTK = 2 * torch.sigmoid(gate(x_BTD[..., :GATE_CHANNELS]))
    return gate_BTK[..., None] * value_BTC.to(x_BTD.dtype).unflatten(-1, (gate_BTK.shape[-1], -1))
