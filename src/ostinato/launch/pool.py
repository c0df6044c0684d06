"""The runs under way: workers are begun as slots become free, watched, asked to stop, and taken note of when they end."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ostinato.errors import StoreError
from ostinato.launch.jobs import Job, unfinished
from ostinato.launch.process import Worker
from ostinato.launch.progress import Display
from ostinato.launch.view import RunView, StudyView
from ostinato.ledger.choice import seconds_left
from ostinato.store import Store, environment
from ostinato.study.counted import several
from ostinato.study.records import Study

POLL_SECONDS = 0.2
ELSEWHERE_SECONDS = 2.0
SIGNAL_SECONDS = 0.5


@dataclass(frozen=True)
class Outcome:
    """What became of the runs, each as {arm, seed, run} (and error). reused: done before, here or for another study. command: goes on."""

    done: list[dict[str, Any]]
    reused: list[dict[str, Any]]
    failed: list[dict[str, Any]]
    stopped: list[dict[str, Any]]
    interrupted: bool
    seconds: float
    command: str

    def then(self, later: Outcome) -> Outcome:
        """This launch and one that followed it."""
        both = {name: getattr(self, name) + getattr(later, name) for name in ("done", "reused", "failed", "stopped", "seconds")}
        return replace(later, **both)

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return asdict(self)


@dataclass
class Pool:
    """One launch. chosen: every run that was asked for; slots: how many at a time; threads: of each that has not begun with others;
    gpus: as CUDA_VISIBLE_DEVICES names them; track: names of trackers."""

    study: Study
    store: Store
    chosen: list[Job]
    slots: int
    threads: int
    device: str
    compiled: bool
    gpus: list[str]
    display: Display
    on_update: Callable[[StudyView], None] | None
    workers: list[Worker] = field(default_factory=list)
    ended: dict[str, tuple[str, str | None]] = field(default_factory=dict)  # fingerprint -> (state, error)
    track: tuple[str, ...] = ()
    interrupts: int = 0
    speeds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.queue = unfinished(self.chosen, self.study.reference)
        self.due = list(self.queue)
        self.slots = max(1, min(self.slots, len(self.queue)))
        self.environment = environment()
        self.looked = 0.0
        self.heard = -SIGNAL_SECONDS
        self.elsewhere: list[Job] = []
        waiting = {job.fingerprint for job in self.queue}
        self.noticed: set[str] = set()
        self.ended |= {job.fingerprint: ("reused", None) for job in self.chosen if job.fingerprint not in waiting}

    # --- the loop

    def run(self) -> None:
        """Until nothing is left to do, or to wait for."""
        self.display.found([job for job in self.chosen if job.fingerprint in self.ended], self.due, self.slots)
        handled = 0
        try:
            while self.workers or ((self.queue or self.elsewhere) and not self.interrupts):
                if self.interrupts > handled:
                    handled = self._interrupt(handled)
                if not self.interrupts:
                    self._look_elsewhere()
                    self._fill()
                self._bury()
                self._tell()
                if self.workers or self.elsewhere:
                    time.sleep(POLL_SECONDS)
        finally:
            for worker in self.workers:  # only after an error of this very loop: nobody would watch them any more
                worker.stop()
        self._tell()

    def _fill(self) -> None:
        while self.queue and len(self.workers) < self.slots:
            job, threads = self.queue[0], self._threads(self.queue[0])
            if self.workers and sum(worker.threads for worker in self.workers) + threads > self.slots * self.threads:
                return
            self.queue.pop(0)
            if job.folder.in_use():
                self.elsewhere.append(job)
                self.display.message(f"{job.name}: another process works on it; waiting for that one")
            elif job.state() == "done":
                self.ended[job.fingerprint] = ("reused", None)
            else:
                taken = [worker.gpu for worker in self.workers]
                gpu = min(self.gpus, key=taken.count) if self.gpus else None
                if threads != self.threads and not self.gpus:
                    self.display.message(f"{job.name}: as it began, with {several(threads, 'thread')}")
                self.workers.append(
                    Worker(job, self.study, self.store, self.device, self.compiled, gpu, threads, self.environment, self.track)
                )

    def _threads(self, job: Job) -> int:
        """What the run began with, because only the same number gives the same bits; else what this launch has for each."""
        try:
            before = job.folder.begun()
        except StoreError:  # its worker says so
            return self.threads
        return int(before.get("threads", self.threads)) if before.get("device", "cpu") == "cpu" else self.threads

    def _look_elsewhere(self) -> None:
        if not self.elsewhere or time.monotonic() - self.looked < ELSEWHERE_SECONDS:
            return
        self.looked = time.monotonic()
        for job in list(self.elsewhere):
            if not job.folder.in_use():
                self.elsewhere.remove(job)
                self.queue.append(job)

    def _bury(self) -> None:
        """Take note of the workers that have ended."""
        for worker in list(self.workers):
            ending = worker.ending()
            self._notice(worker)
            if ending is None:
                continue
            self.workers.remove(worker)
            job, error = worker.job, None
            if ending == "busy":
                self.elsewhere.append(job)
                continue
            if ending == "killed":
                ending, error = ("stopped", None) if self.interrupts else ("failed", worker.record_death())
            elif ending == "failed":
                error = job.folder.status().get("error") or worker.record_death()
            elif ending == "done":
                self.speeds.append((job.work - worker.began_at) / max(1e-9, time.time() - worker.started))
            self.ended[job.fingerprint] = (ending, error)
            self.display.run_ended(job, ending, error)

    def _notice(self, worker: Worker) -> None:
        """Show what is said of trackers, the same thing once."""
        for line in worker.notices():
            if line not in self.noticed:
                self.noticed.add(line)
                self.display.message(f"{worker.job.name}: {line}")

    # --- stopping

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Ctrl-C, SIGTERM and SIGHUP ask the workers to save and leave. Only a program's main thread hears signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, self._interrupted) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _interrupted(self, number: int, frame: Any) -> None:
        """Signals that come together (a closed terminal sends several) count as one."""
        if time.monotonic() - self.heard >= SIGNAL_SECONDS:
            self.interrupts += 1
        self.heard = time.monotonic()

    def _interrupt(self, handled: int) -> int:
        """The first interrupt asks the workers to save; one more ends them at once."""
        if handled == 0:
            self.display.message("stopping: the running runs save where they are (Ctrl-C once more ends them at once)")
        for worker in self.workers:
            if handled == 0 and self.interrupts == 1:
                worker.stop()
            else:
                worker.kill()
        return self.interrupts

    # --- telling

    def _tell(self) -> None:
        view = self.view()
        self.display.update(view)
        if self.on_update:
            self.on_update(view)

    def view(self) -> StudyView:
        """The state of every run that was asked for; one that two arms share is there once, under the arm that comes first."""
        running, done = {}, 0.0
        by_run = {worker.job.fingerprint: worker for worker in self.workers}
        every = {job.fingerprint: job for job in reversed(self.chosen)}
        pending: dict[str, tuple[float, float | None]] = {}
        tokens: dict[str, int] = {}
        for job in every.values():
            if self.ended.get(job.fingerprint, ("",))[0] in ("done", "reused"):
                done += job.work
                continue
            worker = by_run.get(job.fingerprint)
            progress = worker.progress() if worker else job.folder.progress()
            tokens[job.fingerprint] = int(progress.get("tokens") or 0)
            reached = job.work_done(tokens[job.fingerprint], progress.get("measuring"), progress.get("taking"))
            if worker:
                reached = max(reached, worker.began_at)
                pace = job.token_work * (progress.get("tokens_per_s") or 0.0)  # of its steps; how long it took to start says nothing
                pending[job.fingerprint] = (job.work - reached, pace or None)
                running[job.fingerprint] = progress
            done += reached
        paces = self.speeds[-self.slots :] or [pace for _, pace in pending.values() if pace]
        speed = sum(paces) / len(paces) if paces else 1.0 if all(job.seconds for job in self.due) else None
        waiting = [job.work - job.work_done(tokens[job.fingerprint]) for job in [*self.queue, *self.elsewhere]]
        left = seconds_left(list(pending.values()), waiting, self.slots, speed)
        own = {run: work / (pace or speed) for run, (work, pace) in pending.items() if pace or speed}  # as in the study's, so they agree
        views = tuple(self._run_view(job, running, own.get(job.fingerprint)) for job in reversed(every.values()))
        total = sum(job.work for job in every.values())
        return StudyView(views, done, total, time.monotonic() - self.began, None if self.interrupts else left, self.interrupts > 0)

    def _run_view(self, job: Job, running: dict[str, dict[str, Any]], left: float | None) -> RunView:
        state, error = self.ended.get(job.fingerprint, ("waiting", None))
        progress = running.get(job.fingerprint)
        if progress is not None:
            state = "running"
        elif any(other.fingerprint == job.fingerprint for other in self.elsewhere):
            state, progress = "elsewhere", job.folder.progress()
        said, total = progress or {}, job.ledger.tokens
        tokens = total if state in ("done", "reused") else int(said.get("tokens") or 0)
        return RunView(
            job.arm.name, job.seed, state, tokens, total, said.get("loss"), said.get("tokens_per_s"), left, error,
            said.get("measuring") if said.get("taking") is None else said["taking"],
        )  # fmt: skip

    def outcome(self, command: str) -> Outcome:
        """What became of every run that was asked for."""
        lists: dict[str, list[dict[str, Any]]] = {"done": [], "reused": [], "failed": [], "stopped": []}
        for job in self.chosen:
            state, error = self.ended.get(job.fingerprint, ("stopped", None))
            lists[state].append(job.ids() | ({"error": error} if state == "failed" else {}))
        return Outcome(**lists, interrupted=self.interrupts > 0, seconds=time.monotonic() - self.began, command=command)
