"""A model in training: what it is after so many steps, and how it takes the next one. It writes nothing.

Everything follows from (arm, seed, prepared data): a trainer that was restarted or that loaded a checkpoint takes the
same steps as one that was never interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from ostinato.data import BatchPlan, Prepared, rows
from ostinato.errors import TrainingError
from ostinato.ledger.inventory import inventory
from ostinato.measure.halving import halving, out_of_memory
from ostinato.model.decoder import Decoder, build
from ostinato.model.depth import at_passes
from ostinato.study.derive import optimizer_groups, recipe_steps
from ostinato.study.draws import drawn
from ostinato.study.records import Arm, Passes
from ostinato.train.batches import Batches
from ostinato.train.checkpoints import Checkpoint
from ostinato.train.crew import LEAST, Crew
from ostinato.train.groups import assign
from ostinato.train.machine import Machine
from ostinato.train.optimizers import Optimizers
from ostinato.train.rows import Rows, asked, fitting, free_bytes
from ostinato.train.schedules import settings
from ostinato.train.step import StepLoss, accumulate, clip

LESS = "set recipe.activation_checkpointing: yes, or take a smaller recipe.context or model"


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
    """The decoder and the optimizers of one run, and the number of steps done.

    rows: how many go through the model at once, in every step; a session that goes on sets what the run remembers.
    look: called in a step when its gradient is there, before it is clipped.
    """

    def __init__(self, arm: Arm, seed: int, prepared: Prepared, machine: Machine):
        self.arm, self.seed, self.machine, self.prepared = arm, seed, machine, prepared
        self.steps = recipe_steps(arm.recipe)
        self.plan = BatchPlan(rows(prepared, "train", arm.recipe.context), self.steps.rows, seed)
        self.restart()
        self.batches = Batches(self.plan, prepared.bos if arm.data.document_mask else None, self.decoder.draws, machine.device)
        self.rows = Rows(asked(arm), [(0, self.first_rows())])
        shared = machine.device.type == "cpu" and machine.threads > 1
        self.crew = Crew(machine.threads, LEAST // arm.model.d_model) if shared else None
        self.look: Callable[[], None] | None = None

    def restart(self) -> None:
        """Back to the initial weights. Raises TrainingError when there is no memory for them."""
        try:
            self._begin()
        except Exception as error:
            if not out_of_memory(error):
                raise
            raise TrainingError(f"no memory for weights and optimizer states ({error})", "they are there whole, whatever the micro-batch",
                                "take a smaller model or vocabulary") from None  # fmt: skip

    def _begin(self) -> None:
        arm, prepared = self.arm, self.prepared
        self.decoder = build(arm.model, prepared.vocab, arm.recipe.context, self.seed, self.machine.device, bos=prepared.bos,
                             compute_dtype=self.machine.compute_dtype, compiled=self.machine.compiled)  # fmt: skip
        self.decoder.activation_checkpointing = arm.recipe.activation_checkpointing
        roles = {row.name: row.role for row in inventory(arm.model, prepared.vocab, arm.recipe.context)}
        self.arranged: dict[int, Decoder] = {}
        self.optimizers = Optimizers(assign(self.decoder, roles, optimizer_groups(arm.recipe, arm.model)), arm.recipe.muon)
        self.step_number = 0

    def first_rows(self) -> int:
        """Rows at once before memory has run out: those of the recipe's micro-batch, else of the whole step; on a GPU those that fit."""
        rows = asked(self.arm)
        if rows is None and self.machine.device.type == "cuda":
            return fitting(self.arm, self.prepared.vocab, free_bytes(self.machine.device))
        return rows or self.steps.rows

    @property
    def rows_at_once(self) -> int:
        """Of the next step."""
        return self.rows.of(self.step_number)

    @property
    def tokens(self) -> int:
        """Trained on so far."""
        return self.step_number * self.steps.tokens_per_step

    def load(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint of this run."""
        checkpoint.load(self.decoder, self.optimizers)
        self.step_number = checkpoint.step

    def step(self) -> StepRecord:
        """Take the next step, with half the rows at once from here on whenever memory runs out.

        Raises TrainingError, with model and optimizers as before, when loss or gradient is not finite, or one row does not fit.
        """
        began, recipe, rows = time.perf_counter(), self.arm.recipe, self.rows_at_once
        loss, fitted = halving(rows, self._gradient, self.machine.device, f"step {self.step_number + 1}", LESS)
        if fitted < rows:
            self.rows.fewer(self.step_number, fitted)
        if self.look is not None:
            self.look()
        if recipe.clip is not None:
            clip(self.optimizers.tensors, loss.grad_norm, recipe.clip)
        at = settings(recipe, self.tokens, self.steps.tokens_per_step, self.steps.tokens)
        try:
            self.optimizers.step(at)
        except Exception as error:
            if not out_of_memory(error):
                raise
            raise TrainingError(f"step {self.step_number + 1}: out of memory while the optimizer moved the weights",
                                "what is half moved is not saved: the run goes on from its newest checkpoint", LESS) from None  # fmt: skip
        self.step_number += 1
        return StepRecord(self.step_number, self.tokens, loss.loss, recipe.lr * at.rate, loss.grad_norm, time.perf_counter() - began)

    def of_step(self, step: int) -> Decoder:
        """The decoder as it runs in a step (from 0): with the passes that are drawn for it, else as it is. All share their parameters."""
        draw = self.arm.model.passes
        if not isinstance(draw, Passes):
            return self.decoder
        passes = drawn(draw, self.seed, step)
        if passes not in self.arranged:
            self.arranged[passes] = at_passes(self.decoder, passes)
        return self.arranged[passes]

    def _gradient(self, rows_at_once: int) -> StepLoss:
        """The gradient of the next step and its loss; no gradient at all after an error."""
        self.optimizers.clear_gradients()
        step = self.step_number
        try:
            return accumulate(self.of_step(step), self.batches.of(step, rows_at_once), self.optimizers.tensors,
                              lambda: self.batches.ahead(step + 1, rows_at_once), self.crew)  # fmt: skip
        except TrainingError as error:
            self.optimizers.clear_gradients()
            raise TrainingError(f"step {step + 1}: {error.what}", error.rule, error.fix) from None
        except Exception:
            self.optimizers.clear_gradients()
            raise
