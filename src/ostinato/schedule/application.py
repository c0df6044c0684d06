"""One use of a layer at one place of the forward pass, and what a list of them amounts to.

Everything that costs or remembers something (FLOPs, caches, residual scalars) is indexed by application, never by layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Part = Literal["both", "attn", "mlp"]


@dataclass(frozen=True, slots=True)
class Application:
    """index: place in the schedule, from 0.  layer: from 1.  part: which sublayers run.

    pass_: 1 + the most often that any of the sublayers it runs has run before, so `1:attn 1:mlp` is pass 1 and pass 1.
    enters_pass: a later pass of a group begins here (input injection, where the model has it, happens at these).
    """

    index: int
    layer: int
    part: Part
    pass_: int
    enters_pass: bool

    @property
    def attn(self) -> bool:
        """Does the token mixer run?"""
        return self.part != "mlp"

    @property
    def mlp(self) -> bool:
        """Does the MLP run?"""
        return self.part != "attn"

    @property
    def sublayers(self) -> tuple[str, ...]:
        """The names of the sublayers that run, in the order in which they run."""
        return ("attn", "mlp") if self.part == "both" else (self.part,)

    def __str__(self) -> str:
        return str(self.layer) if self.part == "both" else f"{self.layer}:{self.part}"


def number(steps: Iterable[tuple[int, Part]]) -> tuple[Application, ...]:
    """Applications of (layer, part) steps in the order given, each with its index and its pass."""
    runs: dict[tuple[int, str], int] = {}
    applications: list[Application] = []
    for index, (layer, part) in enumerate(steps):
        sublayers = ("attn", "mlp") if part == "both" else (part,)
        pass_ = 1 + max(runs.get((layer, sublayer), 0) for sublayer in sublayers)
        for sublayer in sublayers:
            runs[layer, sublayer] = runs.get((layer, sublayer), 0) + 1
        previous = applications[-1] if applications else None
        enters = pass_ >= 2 and previous is not None and (pass_ != previous.pass_ or layer <= previous.layer)
        applications.append(Application(index, layer, part, pass_, enters))
    return tuple(applications)


def effective_depth(applications: Sequence[Application]) -> float:
    """Length of the schedule in whole layers: an application of one sublayer counts one half."""
    return sum(2 if application.part == "both" else 1 for application in applications) / 2


def unique_layers(applications: Sequence[Application]) -> int:
    """How many different layers run at least once, in whole or in part."""
    return len({application.layer for application in applications})
