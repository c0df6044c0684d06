"""`run_study`: every run of a study that is due, as many at a time as there are cores or GPUs, each in a process of its own.

The text is prepared once, here; then workers train and measure: the reference arm, then the longest runs first. One that fails does not
stop the others. Whatever ends this process or a worker, the same command goes on from the last checkpoints, and the numbers are those of
an unbroken run.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ostinato.errors import StudyError
from ostinato.launch.jobs import all_jobs, prepare_texts, select, write_floors
from ostinato.launch.pool import Outcome, Pool
from ostinato.launch.process import gpu_names
from ostinato.launch.progress import Display
from ostinato.launch.track import asked, installed, places
from ostinato.launch.view import StudyView
from ostinato.store import Store, usable_cores
from ostinato.store.environment import DEVICES
from ostinato.study.load import is_shipped
from ostinato.study.records import Study

if TYPE_CHECKING:
    from rich.console import Console


def run_study(
    study: Study,
    store: Store,
    arms: Collection[str] | None = None,
    seeds: Collection[int] | None = None,
    jobs: int | None = None,
    device: str = "auto",
    compiled: bool = False,
    track: Iterable[str] | None = None,
    console: Console | None = None,
    on_update: Callable[[StudyView], None] | None = None,
) -> Outcome:
    """Train and measure what is due of `study`; returns when all of it has ended, or after Ctrl-C when the workers have saved.

    arms, seeds: only these (contingent arms run only when named). jobs: runs at a time (default: one a core, or one a GPU).
    device: auto, cpu or cuda. compiled: through torch.compile, on a GPU. console: where progress is shown (None: standard output).
    track: trackers by name, `wandb` or `trackio` (None: those of $OSTINATO_TRACK); TensorBoard has the curves wherever it is installed.
    on_update: told of the state about five times a second.
    Raises StudyError, DataError or StoreError before anything runs; a run that fails is in the outcome, with its error.
    """
    trackers, gpu = asked(track), gpu_names(device)
    if device not in DEVICES:
        raise StudyError(f"device {device!r}", f"a device is one of {', '.join(DEVICES)}", "use auto")
    if not gpu and (device == "cuda" or compiled):
        what = "device cuda" if device == "cuda" else "compilation, which is for a GPU,"
        raise StudyError(f"{what} without a GPU", "this machine has no GPU that is visible", "use --device auto, without --compile")
    display = Display(study, console)
    with display.preparing() as progress:
        everything = all_jobs(study, store, prepare_texts(study, progress))
        chosen = select(everything, arms, seeds)
        store.create().study_folder(study.name).write(study, {(job.arm.name, job.seed): job.fingerprint for job in everything})
        write_floors(chosen, store, study.evaluate, progress)
    pool = Pool(study, store, chosen, jobs or len(gpu) or usable_cores(), device, compiled, gpu, display, on_update,
                track=installed(trackers, display.message))  # fmt: skip
    if pool.due and (where := places(pool.track, store.root / "runs")):
        display.message(f"curves: {where}")
    with display.running(), pool.signals():
        pool.run()
    extra = ([] if device == "auto" else ["--device", device]) + (["--compile"] if compiled else [])
    extra += [part for name in (trackers if track is not None else ()) for part in ("--track", name)]
    outcome = pool.outcome(shlex.join(_command(study, store, arms, seeds) + extra))
    display.ended(outcome)
    return outcome


def _command(study: Study, store: Store, arms: Collection[str] | None, seeds: Collection[int] | None) -> list[str]:
    """The command that goes on, in words."""
    path = Path(study.path or study.name)
    parts = ["ostinato", "run", os.path.relpath(path) if study.path and not is_shipped(study) else path.stem]
    parts += ["--size", study.size] if study.size else []
    parts += [part for arm in arms or () for part in ("--arm", arm)] + [part for seed in seeds or () for part in ("--seed", str(seed))]
    if store.root.absolute() != Path("ostinato-runs").absolute() and not os.environ.get("OSTINATO_STORE"):
        parts += ["--store", str(store.root)]
    return parts
