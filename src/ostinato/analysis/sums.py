"""Sums, then one division: a metric may not change because the same targets were cut into other batches.

Losses are summed in float64 (compensated across parts), tokens and bytes are counted in int64, and nothing is ever a mean of means.
Bits per byte are sum(nats) / (ln 2 * sum of the UTF-8 bytes of the targets); specials are no targets, so they are out of both sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ostinato.errors import StoreError
from ostinato.store.losses import rates


@dataclass(frozen=True)
class Sums:
    """nats: summed losses; targets and bytes: how many. Rates are None ("not estimable") where nothing was counted."""

    nats: float = 0.0
    targets: int = 0
    bytes: int = 0

    @property
    def nats_per_token(self) -> float | None:
        return rates(self.nats, self.targets, self.bytes)["nats"]

    @property
    def bits_per_byte(self) -> float | None:
        return rates(self.nats, self.targets, self.bytes)["bits_per_byte"]

    @property
    def perplexity(self) -> float | None:
        """exp(nats per token); comparable only between runs with the same tokenizer and windows."""
        return rates(self.nats, self.targets, self.bytes)["perplexity"]


def total(parts: Iterable[Sums]) -> Sums:
    """The sums of all parts together."""
    listed = list(parts)
    return Sums(math.fsum(part.nats for part in listed), sum(part.targets for part in listed), sum(part.bytes for part in listed))


def summary(losses: np.ndarray, target_bytes: np.ndarray) -> Sums:
    """losses: [N] nats; target_bytes: [N]. Raises StoreError when their lengths differ."""
    losses, target_bytes = np.asarray(losses), np.asarray(target_bytes)
    if losses.shape != target_bytes.shape:
        raise StoreError(f"{losses.shape} losses for {target_bytes.shape} targets", "one loss for each target", "read both from one store")
    return Sums(float(losses.sum(dtype=np.float64)), int(losses.size), int(target_bytes.sum(dtype=np.int64)))


def mean_nats(loss_sums: Iterable[float], token_counts: Iterable[int]) -> float | None:
    """Nats per token of batches given as (loss sum, token count); None when no token was counted."""
    count = sum(int(tokens) for tokens in token_counts)
    return math.fsum(loss_sums) / count if count else None
