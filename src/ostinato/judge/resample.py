"""How often each document is in a sample drawn with replacement: the weights that every bootstrap here is made with.

Weights of one seed are the same in every process, so a report made twice is the same, and arms are compared on the same samples.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

DRAWS = 2000
"""Samples of a bootstrap: an end of a 95% interval is then known to about a thirtieth of its standard error."""
_AT_ONCE = 1 << 22


def samples(documents: int, draws: int = DRAWS, seed: int = 0) -> Iterator[np.ndarray]:
    """float64 [B, K] each, B adding up to `draws`: how often each of the K documents is in a sample of K."""
    random = np.random.Generator(np.random.Philox(seed))
    rows = max(1, min(draws, _AT_ONCE // documents))
    for start in range(0, draws, rows):
        here = min(rows, draws - start)
        drawn = random.integers(0, documents, (here, documents)) + documents * np.arange(here)[:, None]
        yield np.bincount(drawn.ravel(), minlength=here * documents).reshape(here, documents).astype(np.float64)


def ratios(gains_AK: np.ndarray, sizes_K: np.ndarray, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
    """[draws, A]: sum(gains) / sum(sizes) of every sample, of A arms on the same samples of the same documents."""
    return np.concatenate([(counts @ gains_AK.T) / (counts @ sizes_K)[:, None] for counts in samples(len(sizes_K), draws, seed)])
