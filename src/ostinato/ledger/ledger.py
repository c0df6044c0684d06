"""What an arm costs, as frozen records of plain numbers: one `Ledger` an arm, one `ApplicationRow` an application."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from ostinato.ledger import settings
from ostinato.study.records import Arm


@dataclass(frozen=True, slots=True)
class ApplicationRow:
    """One application.  FLOPs: forward, per token, published convention.

    params: numbers that it uses, tables left out, its own scalars included; params_new: those that no earlier application used.
    window: keys a query may see, itself included (None for gdn and where attention does not run).
    cache_bytes_per_token: for each token kept; at most cache_tokens are kept (None: no limit). cache_bytes_fixed: recurrent state.
    """

    index: int
    layer: int
    kind: str
    part: str
    pass_: int
    enters_pass: bool
    window: int | None
    params: int
    params_new: int
    flops_forward: float
    cache_bytes_per_token: int
    cache_tokens: int | None
    cache_bytes_fixed: int


@dataclass(frozen=True)
class Ledger:
    """All that an arm costs.

    params_total: every number once.  params_nonembedding: without embedding, head, positions, value and bigram tables.
    params_applied: the numbers that applications use, counted as often as they are used.
    flops_per_token: training, published convention; flops_forward_per_token: a third, or more where passes run without gradient;
    flops_per_token_trainer: the other convention.
    flops_total: flops_per_token × tokens.  tokens, steps, tokens_per_step: whole steps.  Where passes are drawn every step, flops_per_token
    are to be expected, flops_total are those of the very steps, on average over the arm's seeds, and memory is that of the step with the
    most passes; all else is as the model is measured.
    epochs: passes over the training part; first_pass_ends: tokens at the end of the first; words: of the training part (None: unknown).
    memory: bytes by what they are for, an estimate (see `memory`).  cache_bytes_per_token: as long as no window is full;
    cache_bytes_per_token_full: once every window is full; cache_bytes_fixed: recurrent states.  unused: parameters no application uses.
    """

    arm: Arm
    vocab: int
    params_total: int
    params_nonembedding: int
    params_by_role: dict[str, int]
    params_applied: int
    unused: tuple[str, ...]
    params_unused: int
    applications: tuple[ApplicationRow, ...]
    flops_per_token: float
    flops_forward_per_token: float
    flops_per_token_trainer: float
    flops_total: float
    tokens: int
    steps: int
    tokens_per_step: int
    epochs: float | None
    first_pass_ends: int | None
    words: int | None
    effective_depth: float
    unique_layers: int
    memory: dict[str, int]
    cache_bytes_per_token: int
    cache_bytes_per_token_full: int
    cache_bytes_fixed: int

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.arm.name

    @cached_property
    def settings(self) -> dict[str, str]:
        """What the arm sets beside its costs, in words."""
        return settings.settings(self.arm)

    @property
    def flops_total_trainer(self) -> float:
        """FLOPs of the run by the `trainer` convention, in which a grid's budgets of FLOPs are given (study/grid.py)."""
        return self.flops_per_token_trainer * self.tokens

    @property
    def memory_total(self) -> int:
        """Bytes of training, with activation checkpointing as the recipe has it."""
        kept = "activations_checkpointed" if self.arm.recipe.activation_checkpointing else "activations"
        return sum(self.memory[part] for part in ("weights", "gradients", "optimizer", kept))

    def row(self) -> dict[str, Any]:
        """Plain values for JSON: `arm` is the name, applications are a list of dictionaries."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("arm", "applications", "unused")}
        return {"arm": self.name, **values, "unused": list(self.unused), "applications": [asdict(row) for row in self.applications]}


def cache_bytes(ledger: Ledger, tokens: int) -> int:
    """Bytes that the cache holds after `tokens` tokens of one sequence."""
    return sum(
        row.cache_bytes_fixed + row.cache_bytes_per_token * min(tokens, tokens if row.cache_tokens is None else row.cache_tokens)
        for row in ledger.applications
    )
