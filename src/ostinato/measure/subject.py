"""What can be measured of a model, ours or somebody else's: its losses, the stream after every application, and what the head reads there.

Shapes, as suffixes of names: B rows, T tokens, D d_model, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from ostinato.analysis.applications import called
from ostinato.model.decoder import Decoder

Watch = Callable[[int | None, Tensor], None]
"""Sees the stream, [B, T, D], before the first application (None) and after each, by its index."""


@dataclass(frozen=True)
class Label:
    """Which application a row or column is about: its index, from 0, and what it applies.  part: both, attn or mlp."""

    index: int
    layer: int
    part: str
    pass_: int

    def __str__(self) -> str:
        return called(self.record())

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return asdict(self)


class Subject(Protocol):
    """A model that is measured.  bos: None where it has none.  context: the most positions, None without a bound.
    Document masks are given as documents_BT, the document of every position."""

    name: str
    labels: tuple[Label, ...]
    vocab: int
    bos: int | None
    context: int | None
    device: torch.device

    def losses(self, tokens_BT: Tensor, targets_BT: Tensor, documents_BT: Tensor | None = None) -> Tensor:
        """Nats of every target, float64 [B, T], 0 where the target is -1 (not counted)."""
        ...

    def hidden(self, tokens_BT: Tensor, documents_BT: Tensor | None = None, *, skip: frozenset[int] = frozenset(),
               watch: Watch | None = None) -> Tensor:  # fmt: skip
        """The stream after the final norm, [B, T, D].  skip: applications, by index, whose sublayers do not run."""
        ...

    def readout(self, x_BTD: Tensor) -> Tensor:
        """Logits [B, T, V] of a stream that the final norm has not seen, by its own norm statistics."""
        ...

    def parameters(self): ...


class Ours:
    """A decoder of this package as a Subject."""

    def __init__(self, decoder: Decoder, name: str = "decoder"):
        self.decoder, self.name = decoder, name
        self.labels = tuple(Label(a.index, a.layer, a.part, a.pass_) for a in decoder.applications)
        self.vocab, self.bos, self.device = decoder.vocab, decoder.bos, decoder.embedding.weight.device
        self.context = decoder.context if decoder.model.positions == "learned" else None

    def losses(self, tokens_BT: Tensor, targets_BT: Tensor, documents_BT: Tensor | None = None) -> Tensor:
        """As Subject has it."""
        return self.decoder.losses(tokens_BT, targets_BT, documents_BT)

    def hidden(self, tokens_BT: Tensor, documents_BT: Tensor | None = None, *, skip: frozenset[int] = frozenset(),
               watch: Watch | None = None) -> Tensor:  # fmt: skip
        """As Subject has it; several streams are seen as their mean. What moves the stream between applications (scalars, injection, a norm
        at the end of a pass) still acts."""
        parts = [replace(own, attn=None, mlp=None) if index in skip else own for index, own in enumerate(self.decoder.parts)]
        seen = watch and (lambda application, x_BTD: watch(application and application.index, self.decoder.whole(x_BTD)))
        return self.decoder.hidden(tokens_BT, documents_BT=documents_BT, parts=parts if skip else None, watch=seen)

    def readout(self, x_BTD: Tensor) -> Tensor:
        """As Subject has it."""
        return self.decoder.logits(self.decoder.final_norm(x_BTD))

    def parameters(self):
        """Of the decoder."""
        return self.decoder.parameters()
