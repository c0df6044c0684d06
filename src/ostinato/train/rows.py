"""How many rows of a step go through the model at once, step by step, as the run remembers it.

The recipe's micro_batch says so. Without one it is the whole step on a CPU, and on a GPU what the ledger estimates to fit. Where memory
runs out all the same it is halved (measure/halving.py), from that step on. The digits after the seventh depend on it, so a run that goes on
takes every step again as it was taken: the places of all changes are kept, not only the last number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ostinato.ledger import account
from ostinato.study.derive import recipe_steps
from ostinato.study.records import Arm

SHARE = 0.85
"""Of the free memory that the estimate may fill: it leaves out temporary tensors and the allocator's slack (decisions 0022, 0110)."""


@dataclass
class Rows:
    """asked: rows by the recipe's micro_batch, None without one.  at: (step from 0, rows from there on), ascending by step, from step 0."""

    asked: int | None
    at: list[tuple[int, int]] = field(default_factory=list)

    def of(self, step: int) -> int:
        """Rows at once in a step (from 0)."""
        return next(rows for first, rows in reversed(self.at) if first <= step)

    def fewer(self, step: int, rows: int) -> None:
        """From this step on at most so many."""
        later = [(first, fewer) for first, fewer in self.at if first > step and fewer < rows]
        self._from(step, rows, later)

    def asked_anew(self, step: int, asked: int | None, rows: int) -> None:
        """The recipe says something else than when the run began: so from this step on."""
        self.asked = asked
        self._from(step, rows, [])

    def record(self) -> dict[str, Any]:
        """As the run's folder keeps it."""
        return {"asked": self.asked, "at": [list(place) for place in self.at]}

    def _from(self, step: int, rows: int, later: list[tuple[int, int]]) -> None:
        self.at = [(first, before) for first, before in self.at if first < step] + [(step, rows), *later]


def remembered(record: Any) -> Rows | None:
    """What `Rows.record` wrote; None of a run that has nothing of the kind."""
    if not isinstance(record, Mapping):
        return None
    return Rows(record["asked"], [(step, rows) for step, rows in record["at"]])


def asked(arm: Arm) -> int | None:
    """Rows of the recipe's micro_batch, at least one and at most those of a step; None without one."""
    recipe = arm.recipe
    if recipe.micro_batch is None:
        return None
    return min(max(recipe.micro_batch // recipe.context, 1), recipe_steps(recipe).rows)


def fitting(arm: Arm, vocab: int, free: int) -> int:
    """The most rows, of a step halved and halved again, whose gradients and activations are estimated to fit SHARE of `free` bytes."""
    rows = recipe_steps(arm.recipe).rows
    while rows > 1 and needed(arm, vocab, rows) > SHARE * free:
        rows = -(-rows // 2)
    return rows


def needed(arm: Arm, vocab: int, rows: int) -> int:
    """Bytes that a step holds beside weights and optimizer states, as the ledger estimates them, with so many rows at once."""
    recipe = arm.recipe.model_copy(update={"micro_batch": rows * arm.recipe.context})
    memory = account(arm.model_copy(update={"recipe": recipe}), vocab).memory
    return memory["gradients"] + memory["activations_checkpointed" if recipe.activation_checkpointing else "activations"]


def free_bytes(device: torch.device) -> int:
    """Of a GPU: what the driver has left, and what torch's allocator keeps without using it."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
