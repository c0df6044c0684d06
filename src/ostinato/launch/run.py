"""`run_study`: every run of a study that is due, each in a process of its own.

The text is prepared once, here; then workers train and measure: the reference arm, then the longest runs first, as many at a time and with
as many threads as ends the study first on this machine. One that fails does not stop the others. Whatever ends this process or a worker,
the same command goes on from the last checkpoints, and the numbers are those of an unbroken run.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ostinato.errors import OstinatoError, StudyError
from ostinato.files import default_cache
from ostinato.launch.calibrate import calibrate
from ostinato.launch.codes import THREADS
from ostinato.launch.contingent import called_for, say_the_rest
from ostinato.launch.jobs import Job, all_jobs, prepare_texts, select, unfinished, write_floors
from ostinato.launch.pool import Outcome, Pool
from ostinato.launch.process import gpu_names
from ostinato.launch.progress import Display, calibrating
from ostinato.launch.track import asked, installed, places
from ostinato.launch.view import StudyView, duration
from ostinato.ledger.choice import Choice, choose, compile_pays
from ostinato.ledger.seconds import Calibration
from ostinato.measure.all import check_pairs
from ostinato.store import Store, usable_cores
from ostinato.store.calibration import calibration_key, read_calibration
from ostinato.store.environment import DEVICES, need_compiler, no_compiler
from ostinato.study.counted import several
from ostinato.study.load import is_shipped
from ostinato.study.records import Study

if TYPE_CHECKING:
    from rich.console import Console

GUESS_FLOPS = 20e9  # a second and core, of small models; only for whether a calibration is worth its minute
LONG_SECONDS = 600.0


def run_study(
    study: Study,
    store: Store,
    arms: Collection[str] | None = None,
    seeds: Collection[int] | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    device: str = "auto",
    compiled: bool | None = None,
    track: Iterable[str] | None = None,
    console: Console | None = None,
    on_update: Callable[[StudyView], None] | None = None,
) -> Outcome:
    """Train and measure what is due of `study`; returns when all of it has ended, or after Ctrl-C when the workers have saved.

    arms, seeds: only these (contingent arms run only when named, or, where no arm is named, once their `run_if` holds). jobs: runs at a
    time; threads: of each, on a CPU (None: as the study ends first by the calibration of this machine, which is made now if the study is
    long; without one, a run a core; one a GPU).
    device: auto, cpu or cuda. compiled: through torch.compile (None: where it pays). console: where progress is shown (None: standard
    output). A run that has begun goes on as it began.
    track: trackers by name, `wandb` or `trackio` (None: those of $OSTINATO_TRACK); TensorBoard has the curves wherever it is installed.
    on_update: told of the state about five times a second.
    Raises StudyError, DataError (minimal pairs included) or StoreError before anything runs; a run that fails is in the outcome, with its
    error.
    """
    trackers, gpu = asked(track), gpu_names(device)
    if device not in DEVICES:
        raise StudyError(f"device {device!r}", f"a device is one of {', '.join(DEVICES)}", "use auto")
    if not gpu and device == "cuda":
        raise StudyError("device cuda without a GPU", "this machine has no GPU that is visible", "use --device auto")
    if compiled and not gpu:
        need_compiler(StudyError, "--compile on a CPU", "give --no-compile")
    for option, value in (("jobs", jobs), ("threads", threads)):
        if value is not None and (type(value) is not int or value < 1):
            raise StudyError(f"{option} {value!r}", f"{option} is a whole number, 1 or more", "leave it out: the study then ends first")
    if threads and not gpu and threads > (most := os.cpu_count() or 1):
        raise StudyError(f"--threads {threads}", f"this machine has {most} processors; more threads wait for each other, and a run "
                         "keeps to the number that it began with", f"give --threads {most} or fewer, or leave it out")  # fmt: skip
    display = Display(study, console)
    with display.preparing() as progress:
        everything = all_jobs(study, store, prepare_texts(study, progress))
        chosen = select(everything, arms, seeds)
        due = unfinished(chosen, study.reference)
        check_pairs(study.measure, (job.lacks() for job in due))
        store.create().study_folder(study.name).write(study, {(job.arm.name, job.seed): job.fingerprint for job in everything})
        write_floors(chosen, store, study.evaluate, progress)
    asked_to = [] if compiled is None else ["--compile" if compiled else "--no-compile"]
    extra = ([] if device == "auto" else ["--device", device]) + asked_to
    extra += [part for name, count in (("--jobs", jobs), ("--threads", threads)) if count is not None for part in (name, str(count))]
    extra += [part for name in (trackers if track is not None else ()) for part in ("--track", name)]
    command = shlex.join(_command(study, store, arms, seeds) + extra)
    wishes = Wishes(jobs, threads, device, compiled, tuple(trackers), gpu, on_update)
    tried: set[str] = set()

    def call(also: Sequence[Job] = ()) -> list[Job]:
        """`also`, and the runs of contingent arms that results call for by now."""
        tried.update(job.fingerprint for job in also)
        called = [*also, *(() if arms else called_for(study, store, everything, seeds, tried, display.message))]
        tried.update(job.fingerprint for job in called)
        return called

    outcome = _round(study, store, call(chosen), wishes, display, command)
    while not outcome.interrupted and (called := call()):
        outcome = outcome.then(_round(study, store, called, wishes, display, command))
    if not arms and not outcome.interrupted:
        say_the_rest(study, store, display.message)
    display.ended(outcome)
    return outcome


@dataclass(frozen=True)
class Wishes:
    """How the runs of a launch are made, as `run_study` is asked.  gpu: the names of the GPUs that there are."""

    jobs: int | None
    threads: int | None
    device: str
    compiled: bool | None
    trackers: tuple[str, ...]
    gpu: list[str]
    on_update: Callable[[StudyView], None] | None


def _round(study: Study, store: Store, chosen: list[Job], wishes: Wishes, display: Display, command: str) -> Outcome:
    """Train and measure what is due of `chosen`, as many at a time and with as many threads as ends them first."""
    write_floors(chosen, store, study.evaluate)  # of contingent arms; those of the others are there
    due, gpu = unfinished(chosen, study.reference), wishes.gpu
    calibration = _calibration(due, bool(gpu), display)
    if gpu:
        choice = Choice(wishes.jobs or len(gpu), wishes.threads or THREADS)
    else:
        runs = [(job.arm, job.prepared.vocab, job.prepared.sizes) for job in due]
        choice = choose(runs, study.evaluate, calibration, usable_cores(), wishes.jobs, wishes.threads)
    if calibration is not None:
        timed = [job.timed(calibration, study.evaluate, choice.threads) for job in chosen]
        chosen = timed if all(job.seconds for job in timed) else chosen
    if choice.calibrated and due:
        display.message(f"{choice}: about {duration(choice.seconds)} ({calibration.pace_words(choice.threads)})")
    if due and not gpu and (busy := min(choice.jobs, len(due)) * choice.threads) > (cores := usable_cores()):
        display.message(f"{busy} threads at once for {several(cores, 'processor')}: they wait for each other")
    compiled = wishes.compiled
    if compiled is None:
        compiled = compile_pays([job.ledger for job in due], calibration, bool(gpu), choice.threads)
        compiled = compiled and (bool(gpu) or no_compiler() is None)
        if compiled:
            display.message("models are compiled: it saves more than it takes (--no-compile: not)")
    pool = Pool(study, store, chosen, choice.jobs, choice.threads, wishes.device, compiled, gpu, display, wishes.on_update,
                track=installed(wishes.trackers, display.message))  # fmt: skip
    if pool.due and (where := places(pool.track, store.root / "runs")):
        display.message(f"curves: {where}")
    with display.running(), pool.signals():
        pool.run()
    return pool.outcome(command)


def _calibration(due: Sequence[Job], gpu: bool, display: Display) -> Calibration | None:
    """That of this machine; a CPU's is made now when there is none and the study is long enough for a minute not to matter."""
    found, why = read_calibration(default_cache(), key := calibration_key("auto" if gpu else "cpu"))
    if why:
        display.message(why)
    guess = sum(job.ledger.flops_total + job.measuring_work for job in due) / (GUESS_FLOPS * key["cores"])
    if found is not None or gpu or guess < LONG_SECONDS:
        return found
    try:
        with calibrating(display.console, f"calibrating {key['device']} for studies as long as this one") as progress:
            made = calibrate("cpu", progress=progress)
    except OstinatoError as error:
        display.message(f"not calibrated: {error.what}")
        return None
    if made.path is None:
        display.message("the calibration is not kept: the cache folder cannot be written")
    return made.calibration


def _command(study: Study, store: Store, arms: Collection[str] | None, seeds: Collection[int] | None) -> list[str]:
    """The command that goes on, in words."""
    path = Path(study.path or study.name)
    parts = ["ostinato", "run", os.path.relpath(path) if study.path and not is_shipped(study) else path.stem]
    parts += ["--size", study.size] if study.size else []
    parts += [part for arm in arms or () for part in ("--arm", arm)] + [part for seed in seeds or () for part in ("--seed", str(seed))]
    if store.root.absolute() != Path("ostinato-runs").absolute() and not os.environ.get("OSTINATO_STORE"):
        parts += ["--store", str(store.root)]
    return parts
