"""Where documents begin, in the forms that recurrent layers need: made once a forward pass and shared by all applications.

    documents      0 0 0 1 1 2          starts   · · · ■ · ■          a state is left behind at ■
    lag 1 seen       1 1 0 1 0          lag 2 seen   1 0 0 0          what a convolution may look back to
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Spans:
    """The documents of some rows.

    starts_BT: bool, where a document begins that is not the one before; never at a row's first position, which continues what a cache
    holds.  seen: for every lag of a convolution [B, T, 1], 1 where the token so far back is of the same document, else 0.
    bounds: int64, where the stretches begin and end when the rows are laid end to end; a row always begins one.
    """

    starts_BT: Tensor
    seen: tuple[Tensor, ...]
    bounds: Tensor

    @classmethod
    def of(cls, documents_BT: Tensor, taps: int, dtype: torch.dtype) -> Spans:
        """documents_BT: int64, the document of every position.  taps: of the convolutions.  dtype: of `seen`."""
        length = documents_BT.shape[1]
        same = [documents_BT[:, lag:] == documents_BT[:, : max(length - lag, 0)] for lag in range(taps)]
        seen = tuple(F.pad(part, (length - part.shape[1], 0))[..., None].to(dtype) for part in same)
        starts_BT = F.pad(~same[1], (1, 0)) if taps > 1 and length > 1 else torch.zeros_like(documents_BT, dtype=torch.bool)
        return cls(starts_BT, seen, row_bounds(starts_BT))


def row_bounds(starts_BT: Tensor) -> Tensor:
    """`bounds` of Spans."""
    begins_BT = starts_BT.clone()
    begins_BT[:, 0] = True
    return F.pad(begins_BT.flatten().nonzero()[:, 0], (0, 1), value=begins_BT.numel())
