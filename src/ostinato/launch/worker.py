"""One run in a process of its own: `python -m ostinato.launch.worker REQUEST.json`. It says how it ended by its exit code.

It saves and leaves on SIGTERM or SIGINT, and when the process that started it is gone. It holds the run's lock all the while, and what
goes wrong is written into the run's status. Nothing of torch is imported before the signals are heard.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ostinato.errors import OstinatoError, StoreError
from ostinato.launch.codes import BUSY, DONE, FAILED, STOPPED
from ostinato.launch.feed import Feed, noticed
from ostinato.store import RunFolder

LOCK_SECONDS = 10.0

log = logging.getLogger("ostinato")


class Stop:
    """Whether to save and leave: a signal came, or the parent is gone."""

    def __init__(self, parent: int):
        self.parent, self.asked = parent, False

    def listen(self) -> Stop:
        """From now on SIGTERM, SIGINT and SIGHUP ask to stop."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._ask)
        return self

    def _ask(self, number: int, frame: Any) -> None:
        self.asked = True

    def __call__(self) -> bool:
        return self.asked or os.getppid() != self.parent


def main(path: Path) -> int:
    """Do what the request says; the exit code: DONE, STOPPED (saved), FAILED (the status says why), BUSY (another process has the run)."""
    request = json.loads(path.read_text(encoding="utf-8"))
    stop = Stop(request["parent"]).listen()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    folder = RunFolder(Path(request["folder"]), Path(request["targets"]), request["evaluation"])
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(folder.lock(LOCK_SECONDS, f"process {os.getpid()} of `ostinato run`"))
        except StoreError as error:
            log.info("%s", error)
            return BUSY
        try:
            return {"done": DONE, "stopped": STOPPED, "failed": FAILED}[_work(request, folder, stop)]
        except OstinatoError as error:
            log.error("%s", error)
            _record_failure(folder, str(error))
        except Exception as error:
            log.exception("the run failed")
            _record_failure(folder, f"{type(error).__name__}: {error} (the whole story is in {folder.log_path})")
        return FAILED


def _work(request: dict[str, Any], folder: RunFolder, stop: Stop) -> str:
    from ostinato.data.prepared import open_prepared
    from ostinato.study.records import Arm, Checkpoints, Evaluate, Measure

    arm, evaluate = Arm.model_validate(request["resolved"]["arm"]), Evaluate.model_validate(request["evaluate"])
    folder.write_record(request["given"], request["resolved"], request["environment"])
    folder.write_evaluation(request["evaluate"])
    prepared = open_prepared(Path(request["prepared"]), arm.data, Path(request["cache"]))

    gc.disable()  # an eighth of the time to import torch goes into looking for garbage; what is imported stays out of every later search
    from ostinato.train import RunRequest, train

    gc.freeze()
    gc.enable()

    measure = Measure.model_validate(request["measure"])
    wanted = RunRequest(arm, request["resolved"]["seed"], evaluate, Checkpoints.model_validate(request["checkpoints"]), measure)
    trackers = [lambda steps_done, name=name: Feed(name, folder.path / "request.json") for name in request["track"]]
    with noticed(folder.notices_path):
        state = train(wanted, prepared, folder, device=request["device"], compiled=request["compiled"], stop=stop,
                      threads=request["threads"], trackers=trackers)  # fmt: skip
    if state != "done":
        return state
    from ostinato.launch.measuring import measure_at_end

    return measure_at_end(folder, prepared, arm, evaluate, measure, request["device"], stop)


def _record_failure(folder: RunFolder, error: str) -> None:
    with contextlib.suppress(OSError):  # a full disk must not hide the first error, which the log has
        if folder.status().get("error") != error:
            folder.set_status("failed", error=error)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
