"""Text for gpu.py, as much of it as is asked for and with nothing to download: a chain of tokens whose best possible loss is known.

The next token is BOS once in 800, else one of four followers of the token before it (0.4, 0.2, 0.1, 0.05), else a draw from a Zipf-like
distribution. So there is something to learn in 50M tokens, and every loss can be read beside that of the chain itself. It is no
language: what a second pass through a layer is worth does not show on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ostinato.data.prepared import Prepared
from ostinato.study.records import Data

BOS, ONCE_IN = 0, 800
SHARES = np.array([0.4, 0.2, 0.1, 0.05])
LANES = 4096


@dataclass(frozen=True)
class Text(Prepared):
    """Streams of tokens in memory, for a trainer: only what training and `rows` ask for is there."""

    streams: dict[str, np.ndarray]

    def tokens(self, part: str) -> np.ndarray:
        return self.streams[part]


def text(vocab: int, training: int, validation: int, document_mask: bool = False) -> Text:
    """At least so many tokens of each part, uint16, each token below `vocab`."""
    data = Data(packing="contiguous", document_mask=document_mask)
    streams = {"train": chain(vocab, training, 1), "validation": chain(vocab, validation, 2)}
    return Text(Path(), {"vocab": vocab, "bos": BOS}, data, Path(), streams)


def chain(vocab: int, tokens: int, seed: int) -> np.ndarray:
    """A stream of the chain: uint16 [tokens], in stretches of tokens / LANES."""
    draw, (often_V, followers_V4) = np.random.Generator(np.random.Philox(seed)), source(vocab)
    lanes = min(LANES, max(1, tokens // 64))
    length, upto_V, upto_4 = -(-tokens // lanes), np.cumsum(often_V), np.cumsum(SHARES)
    found, last = np.empty((lanes, length), np.uint16), np.zeros(lanes, np.int64)
    for place in range(length):
        any_token = np.minimum(np.searchsorted(upto_V, draw.random(lanes)), vocab - 1)
        which = np.searchsorted(upto_4, draw.random(lanes))
        follows = followers_V4[last, np.minimum(which, 3)]
        last = np.where(draw.random(lanes) < 1 / ONCE_IN, BOS, np.where(which < 4, follows, any_token))
        found[:, place] = last
    return found.reshape(-1)[:tokens]


def best_nats(vocab: int, stream: np.ndarray) -> float:
    """Nats a token of whoever knows the chain."""
    often_V, followers_V4 = source(vocab)
    before, after = stream[:-1].astype(np.int64), stream[1:].astype(np.int64)
    of_others = (1 - SHARES.sum()) * often_V[after] + ((followers_V4[before] == after[:, None]) * SHARES).sum(1)
    return float(-np.log((1 - 1 / ONCE_IN) * of_others + (after == BOS) / ONCE_IN).mean())


def source(vocab: int) -> tuple[np.ndarray, np.ndarray]:
    """How often a token comes by itself [V], and its followers [V, 4]; the same for every stream."""
    often_V = 1 / (np.arange(vocab) + 10.0)
    often_V[BOS] = 0
    often_V /= often_V.sum()
    return often_V, np.random.Generator(np.random.Philox(0)).choice(vocab, (vocab, 4), p=often_V)
