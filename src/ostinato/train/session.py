"""One process's work on a run: from where its folder says it stands to where it is done, or told to stop.

The folder says what is missing: steps that are not in its log, evaluation points without losses. Each is a goal, in the
order of its tokens, and a goal is reached from the newest complete checkpoint at or before it. Steps that the log already
has are taken again silently (a new evaluation point of an old run): they are the same steps, and that is checked.
Checkpoints by the clock change nothing but how much is lost when a process is killed.
"""

from __future__ import annotations

import io
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from ostinato.data import Prepared
from ostinato.files import write_atomic
from ostinato.store.runs import RunFolder
from ostinato.study.points import points
from ostinato.study.records import Arm, Checkpoints, Evaluate, Measure
from ostinato.train import checkpoints
from ostinato.train.evaluation import Evaluations
from ostinato.train.gradients import Gradients, curves
from ostinato.train.groups import rows as group_rows
from ostinato.train.groups import table
from ostinato.train.machine import Machine
from ostinato.train.peak import Peak
from ostinato.train.rows import asked, remembered
from ostinato.train.trackers import Opener, Trackers, tensorboard
from ostinato.train.trainer import StepRecord, Trainer

log = logging.getLogger("ostinato")

WRITE_SECONDS = 0.5


@dataclass(frozen=True)
class RunRequest:
    """What a run is: an arm, a seed, and what is measured and kept of it."""

    arm: Arm
    seed: int
    evaluate: Evaluate = field(default_factory=Evaluate)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    measure: Measure = field(default_factory=Measure)


class Session:
    """frontier: the last step that is logged and kept; what comes after it is new, what comes before is taken again."""

    def __init__(
        self,
        request: RunRequest,
        prepared: Prepared,
        folder: RunFolder,
        evaluations: Evaluations,
        machine: Machine,
        safety_seconds: float,
        board: bool,
        trackers: Sequence[Opener] = (),
    ):
        self.request, self.folder, self.evaluations, self.machine = request, folder, evaluations, machine
        self.safety_seconds, self.root = safety_seconds, folder.checkpoints_path
        self.trainer = Trainer(request.arm, request.seed, prepared, machine)
        self.gradients = Gradients(self.trainer, request.measure.gradients.every)
        self.peak = Peak(self.trainer, lambda peak: folder.write_peak(peak, machine.device.type))
        self.steps = self.trainer.steps
        self.save_points = frozenset(points(request.checkpoints.every, self.steps.tokens, self.steps.tokens_per_step))
        self.recent: deque[float] = deque(maxlen=20)
        self.loss: float | None = None
        self.remembered_rows: dict | None = None
        self.last_saved = self.last_written = time.monotonic()
        checkpoints.sweep(self.root)
        self.frontier = self._frontier()
        self._rows()
        self.logged = dict(zip(*(folder.steps().column(name).to_pylist() for name in ("step", "loss")), strict=True))
        boards = tensorboard(folder.tensorboard_path) if board and self.frontier < self.steps.steps else []
        self.trackers = Trackers([*boards, *trackers], self.frontier)

    def work(self, stop: Callable[[], bool], on_step: Callable[[StepRecord], None]) -> str:
        """Reach every goal; "done" or "stopped"."""
        goals = set(self.evaluations.missing()) | ({self.steps.tokens} if self.frontier < self.steps.steps else set())
        if goals:
            self._announce()
        for goal in sorted(goals):
            self._jump(goal)
            while self.trainer.tokens < goal:
                if stop():
                    return self._stopped()
                self._step(on_step)
            self._measure(goal)
        self.folder.finish_steps()
        self._prune()
        self._write_end()
        log.info("done: %s tokens in %.0f s of training", f"{self.steps.tokens:,}", self.folder.training_seconds() or 0.0)
        return "done"

    def close(self) -> None:
        """Let go of what is open."""
        self.trackers.close()

    # --- where to begin

    def _frontier(self) -> int:
        """Where the run stands; a log that goes on beyond the newest complete checkpoint is cut there: those steps are taken again."""
        if self.folder.finished_steps_path.exists():
            return self.steps.steps
        found = checkpoints.newest(self.root)
        step, logged = found.step if found else 0, self.folder.steps().num_rows
        if logged or found:
            where = f"the checkpoint at {found.tokens:,} tokens" if found else "the start: there is no complete checkpoint"
            log.info("going on from %s", where)
        if logged < step:
            log.warning("the log of steps lacks %d of the first %d: the run goes on without them", step - logged, step)
        self.folder.keep_steps(step)
        return step

    def _rows(self) -> None:
        """How many rows go through the model at once, as the run remembers it; from here on as the recipe has it, if that has changed."""
        trainer = self.trainer
        kept, wanted = self.folder.session().get("rows_at_once"), asked(self.request.arm)
        before = remembered(kept)
        if before is not None:
            if before.asked != wanted:
                before.asked_anew(self.frontier, wanted, trainer.first_rows())
            trainer.rows = before
        elif kept is not None and wanted is None:  # of the newest checkpoint, because session.json is gone
            trainer.rows.fewer(0, min(kept, trainer.first_rows()))
        self._remember_rows()

    def _remember_rows(self) -> None:
        record = self.trainer.rows.record()
        if record != self.remembered_rows:
            self.folder.write_session(rows_at_once=record)
            self.remembered_rows = record

    def _jump(self, goal: int) -> None:
        """Go to the newest complete checkpoint at or before the goal, if it is ahead of where the trainer stands."""
        found = checkpoints.newest(self.root, tokens=goal)
        if found is not None and found.tokens > self.trainer.tokens:
            other = found.differences(self._about("", found.step))
            if other:
                log.warning(
                    "the checkpoint at %s tokens was written with %s: the last digits may differ from here on", f"{found.tokens:,}", other
                )
            self.trainer.load(found)

    # --- one step

    def _step(self, on_step: Callable[[StepRecord], None]) -> None:
        new = self.trainer.step_number >= self.frontier
        record, gradients = self.gradients.of(self.peak.step) if new else (self.peak.step(), None)
        self._remember_rows()  # before the step is logged: whoever takes it again must know how it was taken
        self.recent.append(record.seconds)
        self.loss = record.loss
        if new:
            self.frontier = record.step
            if gradients:
                self.folder.append_gradients(gradients)
            self.folder.append_step(record.row())
            self.trackers.step(record, self._tokens_per_s(), curves(gradients))
            if record.tokens in self.save_points:
                self._save("point")
            on_step(record)
        else:
            self._compare_losses(record)
        if time.monotonic() - self.last_saved >= self.safety_seconds:
            self._save("safety")
        self._write_progress(now=record.step == self.steps.steps)

    def _compare_losses(self, record: StepRecord) -> None:
        """A step taken again must have the loss that its log says; the first that has not is named."""
        logged = self.logged.get(record.step, record.loss)
        if logged != record.loss:
            log.warning(
                "step %d taken again has loss %r, its log says %r: another machine or version wrote it", record.step, record.loss, logged
            )
            self.logged.clear()

    def _stopped(self) -> str:
        if self.trainer.step_number:
            self._save("stop")
        self._write_progress(now=True)
        log.info("stopped after %s of %s tokens; the same command goes on from there", f"{self.trainer.tokens:,}", f"{self.steps.tokens:,}")
        return "stopped"

    def _measure(self, tokens: int) -> None:
        if tokens in self.evaluations.missing():
            began = time.monotonic()
            nats = self.evaluations.measure(self.trainer.decoder, tokens, lambda share: self._write_progress(measuring=(share, began)))
            if nats is not None:
                self.trackers.validation(nats, self.trainer.step_number)

    # --- what is written

    def _announce(self) -> None:
        trainer, arm = self.trainer, self.request.arm
        log.info("%s, seed %d: %s", arm.name, self.request.seed, self.machine.line(
            trainer.decoder, arm.recipe.context, arm.data.document_mask, trainer.optimizers.kernels))  # fmt: skip
        if arm.recipe.micro_batch is not None and arm.recipe.micro_batch < arm.recipe.context:
            log.info("micro_batch %d is less than a row of %d tokens: one row at a time", arm.recipe.micro_batch, arm.recipe.context)
        groups = trainer.optimizers.groups
        written = io.StringIO()
        Console(file=written, width=120).print(table(groups))
        log.info("%s", "\n".join(line.rstrip() for line in written.getvalue().splitlines()))
        write_atomic(self.folder.path / "optimizer_groups.json", json.dumps(group_rows(groups), indent=1))

    def _about(self, why: str, step: int) -> dict:
        machine, request = self.machine, self.request
        return {"why": why, "arm": request.arm.name, "seed": request.seed, "tokens_total": self.steps.tokens,
                "device": machine.device.type, "threads": machine.threads, "compiled": machine.compiled,
                "rows_at_once": self.trainer.rows.of(step)}  # fmt: skip

    def _save(self, why: str) -> None:
        trainer = self.trainer
        if self.folder.steps_path.exists():
            with open(self.folder.steps_path, "rb") as file:
                os.fsync(file.fileno())
        about = self._about(why, trainer.step_number)
        checkpoints.save(self.root, trainer.step_number, trainer.tokens, trainer.decoder, trainer.optimizers.state(), about)
        self.last_saved = time.monotonic()
        if trainer.step_number == self.frontier:
            self._prune()

    def _prune(self) -> None:
        checkpoints.prune(self.root, self.request.checkpoints.keep, self.evaluations.kept_points(), self.save_points)

    def _tokens_per_s(self) -> float:
        return self.steps.tokens_per_step * len(self.recent) / sum(self.recent) if self.recent else 0.0

    def _write_end(self) -> None:
        """The run is at its end, wherever this session stands: it may have come only for points that were not measured."""
        steps = self.steps
        loss = self.loss if self.trainer.step_number == steps.steps and self.loss is not None else self.logged.get(steps.steps)
        place = {"step": steps.steps, "steps": steps.steps, "tokens": steps.tokens, "total": steps.tokens}
        self.folder.write_progress(place | {"loss": loss, "tokens_per_s": self._tokens_per_s(), "seconds_left": 0.0, "measuring": None})

    def _write_progress(self, now: bool = False, measuring: tuple[float, float] | None = None) -> None:
        """Where the run is, at most twice a second unless it must be now.  measuring: the share that is measured, and when it began."""
        clock, trainer = time.monotonic(), self.trainer
        if not now and clock - self.last_written < WRITE_SECONDS:
            return
        self.last_written = clock
        speed, left, share = self._tokens_per_s(), None, None
        untrained = self.steps.tokens - trainer.tokens
        if speed or not untrained:
            ahead = sum(point > trainer.tokens for point in self.evaluations.wanted)
            left = (untrained / speed if untrained else 0.0) + ahead * (self.evaluations.seconds or 0.0)
        if measuring:
            share, began = measuring
            left = None if left is None or not share else left + (clock - began) * (1 - share) / share
        place = {"step": trainer.step_number, "steps": self.steps.steps, "tokens": trainer.tokens, "total": self.steps.tokens}
        self.folder.write_progress(place | {"loss": self.loss, "tokens_per_s": speed, "seconds_left": left, "measuring": share})
