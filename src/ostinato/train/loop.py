"""`train`: bring one run to its end, or to the step at which it is told to stop; what happens in between is session.py."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from ostinato.data import Prepared
from ostinato.store.environment import no_compiler
from ostinato.store.runs import RunFolder
from ostinato.train.evaluation import Evaluations
from ostinato.train.machine import Machine, choose
from ostinato.train.session import RunRequest, Session
from ostinato.train.trackers import Opener
from ostinato.train.trainer import StepRecord

SAFETY_SECONDS = 60.0

log = logging.getLogger("ostinato")


def train(request: RunRequest, prepared: Prepared, folder: RunFolder, *, device: str = "auto", stop: Callable[[], bool] | None = None,
          on_step: Callable[[StepRecord], None] | None = None, threads: int | None = None, compiled: bool = False,
          safety_seconds: float = SAFETY_SECONDS, tensorboard: bool = True, trackers: Sequence[Opener] = ()) -> str:  # fmt: skip
    """Bring a run to its end, or to the step at which `stop()` says so; returns "done" or "stopped".

    stop: asked between steps; a checkpoint is saved before the return.  on_step: told of every new step.
    threads: of the CPU (None: as torch has them).  A run that has begun keeps its number of threads and its choice to compile, whatever
    is given here.  safety_seconds: between checkpoints by the clock.  tensorboard: draw curves there, where it is installed.
    trackers: where else; none of them can hurt the run.
    Raises TrainingError when loss or gradient is not finite, StoreError when a checkpoint cannot be saved, a folder is in use or
    holds losses of other targets; the folder then says "failed" and why, and the newest complete checkpoint stays.
    """
    with contextlib.ExitStack() as held:
        held.enter_context(folder.lock())
        machine = remembered(folder, choose(device, request.arm.recipe.dtype, threads, compiled))
        held.enter_context(machine.session())
        evaluations = Evaluations(request.arm, request.evaluate, prepared, folder)
        if folder.status()["state"] == "done" and folder.finished_steps_path.exists() and not evaluations.missing():
            return "done"
        folder.set_status("running")
        try:
            session = Session(request, prepared, folder, evaluations, machine, safety_seconds, tensorboard, trackers)
            with contextlib.closing(session):
                state = session.work(stop or (lambda: False), on_step or (lambda record: None))
            tokens = session.steps.tokens if state == "done" else session.trainer.tokens
            folder.set_status(state, tokens=tokens, seconds=folder.training_seconds())
            return state
        except Exception as error:
            with contextlib.suppress(OSError):
                folder.set_status("failed", error=str(error) or type(error).__name__)
            raise
        except KeyboardInterrupt:
            folder.set_status("stopped")
            raise


def remembered(folder: RunFolder, machine: Machine) -> Machine:
    """The machine with the threads and the choice to compile of the run's first session; this one's when no step was taken before.

    On another kind of device there are no bits to keep: the run goes on as that device has it. Nor are there any where the run was compiled
    and this machine cannot.
    """
    before = folder.begun()
    if before.get("device", machine.device.type) != machine.device.type:
        before = {}
    if before.get("compiled") and machine.device.type == "cpu" and not machine.compiled and (missing := no_compiler()):
        log.warning("the run began compiled; without %s it goes on not compiled, and the last digits may differ from here on", missing)
        before = before | {"compiled": False}
    kept = replace(machine, **{name: before[name] for name in ("threads", "compiled") if name in before})
    if kept != machine:
        log.info("as the run began: %d threads, %s", kept.threads, "compiled" if kept.compiled else "not compiled")
    settings = {"device": kept.device.type, "threads": kept.threads, "compiled": kept.compiled}
    if not settings.items() <= folder.session().items():
        folder.write_session(**settings)
    return kept
