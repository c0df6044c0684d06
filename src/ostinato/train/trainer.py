"""A model in training: what it is after so many steps, and how it takes the next one. It writes nothing.

Everything follows from (arm, seed, prepared data): a trainer that was restarted or that loaded a checkpoint takes the
same steps as one that was never interrupted.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from ostinato.data import BatchPlan, Prepared, rows
from ostinato.errors import TrainingError
from ostinato.ledger.inventory import inventory
from ostinato.ledger.memory import micro_batch_tokens
from ostinato.model.decoder import build
from ostinato.model.noise import row_keys
from ostinato.study.derive import optimizer_groups, recipe_steps
from ostinato.study.records import Arm
from ostinato.train.checkpoints import Checkpoint
from ostinato.train.groups import assign
from ostinato.train.machine import Machine
from ostinato.train.optimizers import Optimizers
from ostinato.train.schedules import settings
from ostinato.train.step import accumulate, clip, micro_batches


@dataclass(frozen=True)
class StepRecord:
    """One line of the log of steps.

    step: from 1.  tokens: trained on so far.  loss: nats per counted token of the whole step, before the update.
    lr: the recipe's rate at this step.  grad_norm: before clipping.  seconds: of this step.
    """

    step: int
    tokens: int
    loss: float
    lr: float
    grad_norm: float
    seconds: float

    def row(self) -> dict[str, float]:
        """As the store keeps it."""
        return asdict(self)


class Trainer:
    """The decoder and the optimizers of one run, and the number of steps done."""

    def __init__(self, arm: Arm, seed: int, prepared: Prepared, machine: Machine):
        self.arm, self.seed, self.machine, self.prepared = arm, seed, machine, prepared
        self.steps = recipe_steps(arm.recipe)
        self.plan = BatchPlan(rows(prepared, "train", arm.recipe.context), self.steps.rows, seed)
        self.rows_at_once = micro_batch_tokens(arm.recipe) // arm.recipe.context
        self.restart()

    def restart(self) -> None:
        """Back to the initial weights."""
        arm, prepared = self.arm, self.prepared
        self.decoder = build(arm.model, prepared.vocab, arm.recipe.context, self.seed, self.machine.device, bos=prepared.bos,
                             compute_dtype=self.machine.compute_dtype, compiled=self.machine.compiled)  # fmt: skip
        self.decoder.activation_checkpointing = arm.recipe.activation_checkpointing
        roles = {row.name: row.role for row in inventory(arm.model, prepared.vocab, arm.recipe.context)}
        self.optimizers = Optimizers(assign(self.decoder, roles, optimizer_groups(arm.recipe, arm.model)), arm.recipe.muon)
        self.step_number = 0

    @property
    def tokens(self) -> int:
        """Trained on so far."""
        return self.step_number * self.steps.tokens_per_step

    def load(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint of this run."""
        checkpoint.load(self.decoder, self.optimizers)
        self.step_number = checkpoint.step

    def step(self) -> StepRecord:
        """Take the next step. Raises TrainingError, with model and optimizers as before, when loss or gradient is not finite."""
        began, recipe, device = time.perf_counter(), self.arm.recipe, self.machine.device
        keys = row_keys(self.seed, self.step_number, self.steps.rows) if self.decoder.draws else None
        batches = micro_batches(
            self.plan.batch(self.step_number), self.rows_at_once, self.prepared.bos if self.arm.data.document_mask else None, device, keys
        )
        self.optimizers.clear_gradients()
        try:
            loss = accumulate(self.decoder, batches, self.optimizers.tensors)
        except TrainingError as error:
            raise TrainingError(f"step {self.step_number + 1}: {error.what}", error.rule, error.fix) from None
        if recipe.clip is not None:
            clip(self.optimizers.tensors, loss.grad_norm, recipe.clip)
        at = settings(recipe, self.tokens, self.steps.tokens_per_step, self.steps.tokens)
        self.optimizers.step(at)
        self.step_number += 1
        return StepRecord(self.step_number, self.tokens, loss.loss, recipe.lr * at.rate, loss.grad_norm, time.perf_counter() - began)
