"""Worker processes as the launcher sees them: started, watched through their progress files, asked to stop, and buried."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ostinato
from ostinato.errors import StoreError
from ostinato.files import write_atomic
from ostinato.launch.codes import BUSY, DONE, FAILED, STOPPED, THREADS
from ostinato.launch.jobs import Job, resolved
from ostinato.store import Store
from ostinato.store.environment import gpus
from ostinato.study.records import Study

ENDINGS = {DONE: "done", FAILED: "failed", STOPPED: "stopped", BUSY: "busy"}
_KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_ARENA_MAX": "1"}
"""glibc keeps what a step frees for the next one instead of giving it back to the system: 3% and more of a small step on a CPU. It keeps it
in one place for all threads; in places of their own, which glibc gives back whenever they are empty, it would keep nothing."""
_LIBRARY_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Worker:
    """A process that works on one job. It is in a session of its own, so that Ctrl-C reaches the launcher alone.

    threads: that it computes with.  environment: what `store.environment` says of the launcher, whose command and folder are the user's.
    track: names of trackers.
    """

    def __init__(self, job: Job, study: Study, store: Store, device: str, compiled: bool, gpu: str | None, threads: int,
                 environment: dict[str, Any], track: Sequence[str] = ()):  # fmt: skip
        self.job, self.gpu, self.threads, self.started = job, gpu, threads, time.time()
        self.began_at = job.work_done(int(job.folder.progress().get("tokens") or 0))
        folder = job.folder
        request = {
            "parent": os.getpid(), "folder": str(folder.path.absolute()), "targets": str(store.targets_path.absolute()),
            "evaluation": folder.evaluation, "prepared": str(job.prepared.path.absolute()), "cache": str(job.prepared.cache.absolute()),
            "device": device, "compiled": compiled, "threads": threads, "evaluate": study.evaluate.model_dump(mode="json"),
            "checkpoints": study.checkpoints.model_dump(mode="json"), "measure": study.measure.model_dump(mode="json"),
            "resolved": resolved(job, study),
            "environment": environment, "track": list(track),
            "given": {"study": study.name, "size": study.size, "arm": job.arm.name, "seed": job.seed,
                      "file": study.path, "text": study.given},
        }  # fmt: skip
        self._heard = 0
        folder.notices_path.unlink(missing_ok=True)
        path = folder.path / "request.json"
        write_atomic(path, json.dumps(request, indent=1))
        with open(folder.log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ostinato.launch.worker", str(path)], env=worker_environment(gpu, threads), stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def progress(self) -> dict[str, Any]:
        """What the run last said of itself, {} as long as that is from an earlier session."""
        try:
            if (self.job.folder.path / "progress.json").stat().st_mtime < self.started:
                return {}
        except FileNotFoundError:
            return {}
        return self.job.folder.progress()

    def notices(self) -> list[str]:
        """What was said of its trackers since this was last asked."""
        try:
            lines = self.job.folder.notices_path.read_text(encoding="utf-8").split("\n")[:-1]
        except FileNotFoundError:
            return []
        heard, self._heard = self._heard, len(lines)
        return lines[heard:]

    def ending(self) -> str | None:
        """None while it runs; then done, failed, stopped or busy. A worker that was killed has failed, unless it was asked to stop."""
        code = self.process.poll()
        if code is None:
            return None
        return ENDINGS.get(code, "killed" if code < 0 else "failed")

    def stop(self) -> None:
        """Ask it to save and leave."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once; what it did since its last checkpoint is lost."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def record_death(self) -> str:
        """Write into the run's status that the worker died without a word, and return what is written."""
        code = self.process.returncode
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        hint = " (out of memory?)" if code == -signal.SIGKILL else ""
        error = (
            f"the worker process was {how}{hint}; the same command goes on from its last checkpoint. Its log: {self.job.folder.log_path}"
        )
        try:
            with self.job.folder.lock(5.0):
                if self.job.folder.status()["state"] != "failed" or code < 0:
                    self.job.folder.set_status("failed", error=error)
        except (StoreError, OSError):
            pass  # another process has taken the run up already, or the disk is full: the other runs go on
        return error


def worker_environment(gpu: str | None, threads: int = THREADS) -> dict[str, str]:
    """The environment of a worker: so many threads in every library, its GPU, and this very package."""
    found = dict(os.environ)
    found |= dict.fromkeys(_LIBRARY_THREADS, str(threads)) | {"TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
    found = _KEEP_MEMORY | found
    found.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    found.setdefault("KINETO_LOG_LEVEL", "6")  # looking at the memory of a step would print lines of the profiler's own into the log
    if gpu is not None:
        found["CUDA_VISIBLE_DEVICES"] = gpu
    home = Path(ostinato.__file__).parents[1]
    if not {"site-packages", "dist-packages"} & set(home.parts):  # run from a source tree: the worker must find the same one
        found["PYTHONPATH"] = os.pathsep.join(filter(None, [str(home), os.environ.get("PYTHONPATH")]))
    return found


def gpu_names(device: str) -> list[str]:
    """The GPUs that workers may be given, as CUDA_VISIBLE_DEVICES names them; [] on a CPU."""
    if device == "cpu":
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() and name.strip() != "-1"]
    return [str(index) for index in range(len(gpus()))]
