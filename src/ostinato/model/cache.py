"""What generation remembers: the keys and values of every attention application, not of every layer; of a recurrent one its state.

A layer that runs twice sees two different streams and needs two slots. A slot whose window is w keeps the newest w keys
(the query's own included) and forgets the rest; a slot without a window keeps all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Slot:
    """Keys and values of one application, [B, K, S, E], oldest first, after positions and norms were applied."""

    window: int | None
    k: Tensor | None = None
    v: Tensor | None = None

    def extend(self, k_BKTE: Tensor, v_BKTE: Tensor) -> tuple[Tensor, Tensor]:
        """What the new queries may see, the new keys last (for one query exactly its window); then only the window is kept."""
        k = k_BKTE if self.k is None else torch.cat((self.k, k_BKTE), dim=2)
        v = v_BKTE if self.v is None else torch.cat((self.v, v_BKTE), dim=2)
        if self.window is None:
            self.k, self.v = k, v
            return k, v
        needed = self.window + k_BKTE.shape[2] - 1
        self.k, self.v = k[:, :, -self.window :].clone(), v[:, :, -self.window :].clone()
        return k[:, :, -needed:], v[:, :, -needed:]

    @property
    def bytes(self) -> int:
        """Memory that the slot holds."""
        return 0 if self.k is None else 2 * self.k.numel() * self.k.element_size()


@dataclass
class DeltaSlot:
    """Of one application of a gated delta layer, whatever the number of tokens: the last inputs of its convolutions, [B, 3, channels],
    zeros before the first token, and its state, [B, H, key, value]."""

    inputs_BWC: Tensor | None = None
    state_BHEE: Tensor | None = None

    def before(self, x_BTC: Tensor, tokens: int) -> Tensor:
        """The inputs of so many tokens before x."""
        return x_BTC.new_zeros(len(x_BTC), tokens, x_BTC.shape[2]) if self.inputs_BWC is None else self.inputs_BWC

    def keep(self, inputs_BWC: Tensor, state_BHEE: Tensor) -> None:
        """What the next call goes on from."""
        self.inputs_BWC, self.state_BHEE = inputs_BWC.clone(), state_BHEE

    @property
    def bytes(self) -> int:
        """Memory that the slot holds."""
        return 0 if self.inputs_BWC is None else sum(part.numel() * part.element_size() for part in (self.inputs_BWC, self.state_BHEE))


@dataclass
class Cache:
    """One slot for every application with attention or a state, by the application's index.  `Decoder.cache()` makes one.

    tokens: how many positions were seen.  last_B: the last token of each row (the bigram table needs it).
    """

    slots: dict[int, Slot | DeltaSlot]
    tokens: int = 0
    last_B: Tensor | None = field(default=None, repr=False)

    @property
    def bytes(self) -> int:
        """Memory of all slots."""
        return sum(slot.bytes for slot in self.slots.values())
