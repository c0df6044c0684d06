"""Measures taken of runs: by a worker when its run is trained, and of whole studies whenever they are asked for.

A run whose measures fail is trained all the same: its status stays done and says what failed, and the same command tries it again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.errors import InUse, OstinatoError, StoreError
from ostinato.launch.jobs import Job, all_jobs, prepare_texts, write_floors
from ostinato.launch.progress import Display, calibrating
from ostinato.measure.all import check_pairs, lacking
from ostinato.store import RunFolder, Store
from ostinato.study.records import Arm, Evaluate, Measure, Model, Study

if TYPE_CHECKING:
    from rich.console import Console

    from ostinato.analysis.models import ModelResult
    from ostinato.data import Prepared

log = logging.getLogger("ostinato")

WRITE_SECONDS = 0.5


class Stopped(BaseException):
    """The worker was asked to stop in the middle of a measure; what is caught as an Exception would not stop it."""


def measure_at_end(folder: RunFolder, prepared: Prepared, arm: Arm, evaluate: Evaluate, measure: Measure, device: str,
                   stop: Callable[[], bool]) -> str:  # fmt: skip
    """Take what a trained run lacks: "done", "stopped", or "failed", when its status says what could not be measured."""
    from ostinato.measure.taking import measure_run

    place, began, written = folder.progress(), time.monotonic(), 0.0

    def told(name: str, share: float) -> None:
        nonlocal written
        if stop():
            raise Stopped
        if (now := time.monotonic()) - written >= WRITE_SECONDS:
            written = now
            left = (now - began) * (1 - share) / share if share else None
            folder.write_progress(place | {"taking": share, "seconds_left": left})

    try:
        took = measure_run(folder, measure, device=device, told=told, evaluate=evaluate, prepared=prepared)
        failed = [f"{one.measure}: {one.why}" for one in took if one.state == "failed"]
    except Stopped:
        log.info("stopped while measuring; the same command goes on")
        return "stopped"
    except OstinatoError as error:
        log.error("not measured: %s", error)
        failed = [str(error)]
    except Exception as error:
        log.exception("not measured")
        failed = [f"{type(error).__name__}: {error} (the whole story is in {folder.log_path})"]
    status = folder.status()
    if failed or status.get("error"):
        kept = {name: status[name] for name in ("tokens", "seconds") if name in status}
        folder.set_status("done", **kept, **({"error": "trained, but not measured: " + "; ".join(failed)} if failed else {}))
    return "failed" if failed else "done"


@dataclass(frozen=True)
class Measured:
    """What became of every measure of every run or model.

    rows: arm (or the model's name), seed, run (or the model's digest), measure, state, why and seconds; state as in measure.taking.Took,
    untrained, or elsewhere (another process works on the run: nothing has failed).
    models: beside which arms a model is now (analysis.models), of a model that was measured with a study.
    """

    rows: list[dict[str, Any]]
    models: list[ModelResult] = field(default_factory=list)

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The rows of measures that failed."""
        return [row for row in self.rows if row["state"] == "failed"]


def measure_study(study: Study, store: Store, measure: Measure, only: Sequence[str] | None = None, tokens: int | None = None,
                  device: str = "auto", console: Console | None = None, passes: int | None = None) -> Measured:  # fmt: skip
    """Take what the trained runs of a study lack of the measures in `measure`, or anew what `only` names, one run after the other.

    tokens: of the checkpoints (default: the newest of each run).  passes: as in `measure_run`.
    Raises StoreError when no run is trained; DataError for the text and for minimal pairs, before anything is taken.
    A run whose checkpoint cannot be read is named, and the others go on. One that another process works on is tried again behind the
    others; where it still does, that is said.
    """
    display = Display(study, console)
    with display.preparing() as progress:
        jobs = {job.fingerprint: job for job in reversed(all_jobs(study, store, prepare_texts(study, progress)))}
        trained = [job for job in reversed(jobs.values()) if job.folder.checkpoints()]
        if not trained:
            raise StoreError(f"no run of {study.name} is trained in {store.root}", "what is measured is a checkpoint of a run",
                             f"ostinato run {study.name}, or name the store with --store")  # fmt: skip
        check_pairs(measure, (_lacking(job.folder, job.arm.model, measure, only, tokens, passes) for job in trained))
        write_floors(trained, store, study.evaluate, progress)
    untrained = [{"measure": "", "state": "untrained", "why": "it has no checkpoint yet", "seconds": 0.0}]
    found: dict[str, list[dict[str, Any]]] = {job.fingerprint: untrained for job in reversed(jobs.values())}

    def take(job: Job) -> None:
        found[job.fingerprint] = measured_run(job.folder, job.name, measure, only, tokens, device, console, evaluate=study.evaluate,
                                              prepared=job.prepared, passes=passes)  # fmt: skip

    for job in trained:
        take(job)
    for job in trained:
        if any(row["state"] == "elsewhere" for row in found[job.fingerprint]):
            take(job)
    return Measured([jobs[fingerprint].ids() | row for fingerprint, rows in found.items() for row in rows])


def measure_one(folder: RunFolder, measure: Measure, only: Sequence[str] | None = None, tokens: int | None = None, device: str = "auto",
                console: Console | None = None, passes: int | None = None) -> Measured:  # fmt: skip
    """`measure_run` of one run of any study. Raises DataError for minimal pairs that cannot be read; what else fails is in the rows."""
    given, arm = folder.given(), Arm.model_validate(folder.resolved()["arm"])
    check_pairs(measure, [_lacking(folder, arm.model, measure, only, tokens, passes)])
    name, ids = f"{given.get('arm')}, seed {given.get('seed')}", {"arm": given.get("arm"), "seed": given.get("seed"), "run": folder.name}
    return Measured([ids | row for row in measured_run(folder, name, measure, only, tokens, device, console, passes=passes)])


def _lacking(folder: RunFolder, model: Model, measure: Measure, only: Sequence[str] | None, tokens: int | None,
             passes: int | None) -> tuple[str, ...]:  # fmt: skip
    """What would be taken of this run. Raises as `RunFolder.record`."""
    return lacking(folder, measure, model, max(folder.checkpoints(), default=None) if tokens is None else tokens, folder.evaluation, only,
                   passes)  # fmt: skip


def measure_folder(path: Path, store: Store, measure: Measure, study: Study | None = None, only: Sequence[str] | None = None,
                   device: str = "auto", trust: bool = False, console: Console | None = None) -> Measured:  # fmt: skip
    """Measure a model that was not trained here (measure/folder.py), and see how it stands beside the study's arms."""
    from ostinato.analysis import results_table
    from ostinato.analysis.models import models_beside
    from ostinato.measure.folder import measure_model

    with calibrating(console, f"measuring {path.resolve().name}") as progress:
        found = measure_model(path, store, measure, study, only, device, trust, progress)
    rows = [{"arm": found.name, "seed": None, "run": found.folder.name} | one.record() for one in found.took]
    beside = models_beside(study, store, results_table(study, store)) if study else []
    return Measured(rows, beside)


def measured_run(folder: RunFolder, name: str, measure: Measure | None, only: Sequence[str] | None, tokens: int | None, device: str,
                 console: Console | None, **text: Any) -> list[dict[str, Any]]:  # fmt: skip
    """`measure_run` with a bar, as rows; a run that cannot be measured at all, or that another process has, is one row."""
    from ostinato.measure.taking import measure_run

    with calibrating(console, f"measuring {name}") as progress:
        try:
            return [one.record() for one in measure_run(folder, measure, only, tokens, device, progress, **text)]
        except InUse as error:
            return [{"measure": "", "state": "elsewhere", "why": f"another process works on it: {error.what}", "seconds": 0.0}]
        except OstinatoError as error:
            return [{"measure": "", "state": "failed", "why": str(error), "seconds": 0.0}]
