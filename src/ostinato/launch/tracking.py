"""A tracker in a process of its own, fed by a worker: `python -P tracking.py NAME REQUEST.json`, one JSON object a line on standard input.

The packages of trackers open connections, start threads and services, retry for minutes and hook into the end of a process. Here they can
do all that beside the run: the worker only writes into a pipe, and this process goes on for a while when the worker has ended or was
killed. What a person should know is written, one line each, into the run's notices and into its log.

Steps that the tracker has already are not given to it again: it is asked how far the run's curve goes, and where it cannot say, what was
given to it is written down. That file is also the lock that keeps two processes from drawing one curve.

This file imports nothing of the project and no package but the tracker's, so that it is there at once. It runs at a low priority.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import re
import socket
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SAID = 4  # exit code, as in codes.py: it gave up, and said so
START_SECONDS, CALL_SECONDS, FINISH_SECONDS = 120.0, 60.0, 300.0  # nobody waits for them
REACH_SECONDS, ANSWER_SECONDS = 3.0, 30.0
END = None


class Run:
    """What a tracker is told of a run; see `launch.process` for the request."""

    def __init__(self, request: dict[str, Any]):
        given, resolved = request["given"], request["resolved"]
        self.folder = Path(request["folder"])
        self.arm, self.name = given["arm"], f"{given['arm']}/{given['seed']}"
        self.fingerprint: str = resolved["fingerprint"]
        self.study: str = given["study"]
        self.config = {"study": given["study"], "size": given["size"], **resolved}

    def project(self, variable: str) -> str:
        """As the variable says, else the study's name; of characters that every tracker takes."""
        return re.sub(r"[^\w.-]+", "-", os.environ.get(variable) or self.study)[:100].strip("-.") or "ostinato"


class Wandb:
    """Weights & Biases: online, or offline without account or network. The run is found again by its id."""

    title = "Weights & Biases"

    def __init__(self, run: Run):
        import wandb

        os.environ.setdefault("WANDB_DIR", str(run.folder))
        settings = wandb.Settings(console="off", init_timeout=ANSWER_SECONDS)
        known = {"project": run.project("WANDB_PROJECT"), "id": run.fingerprint[:16], "name": run.name, "group": run.arm,
                 "config": run.config, "settings": settings}  # fmt: skip
        why = unreachable(wandb.setup().settings)
        if why is None:
            try:
                self._run = wandb.init(**known, resume="allow")
                why = "as it is set on this machine"
            except Exception as error:
                why = "no account here: wandb login" if re.search("api.?key", str(error), re.IGNORECASE) else _said(error)
                wandb.teardown()  # what failed holds the run's id
                self._run = wandb.init(**known, mode="offline")
        else:
            self._run = wandb.init(**known, mode="offline")
        self._run.define_metric("validation/nats", step_metric="validation/step")
        self.last = self._run.step - 1 if self._run.step else None
        kept = Path(os.environ["WANDB_DIR"])
        kept = run.folder.parent / "*" if kept == run.folder else kept
        self.later = f"wandb sync {kept}/wandb/offline-run-*"
        self.where = f"offline ({why}); its curves are kept, and sent later by: {self.later}"
        if not self._run.offline:
            self.later = f"wandb sync {kept}/wandb/run-*"
            self.where = self._run.project_url or "disabled by WANDB_MODE"

    def log(self, scalars: dict[str, float], step: int) -> None:
        """A step that is behind is dropped by W&B; what is measured late therefore joins the newest step, and says its own."""
        if any(name.startswith("validation/") for name in scalars):
            self._run.log({**scalars, "validation/step": step}, commit=False)
        else:
            self._run.log(scalars, step=step)

    def finish(self) -> None:
        self._run.finish()


class Trackio:
    """trackio: on this machine, or in a Space where TRACKIO_SPACE_ID says so. The run is found again by its name, which says its id."""

    title = "trackio"

    def __init__(self, run: Run):
        import trackio

        project = run.project("TRACKIO_PROJECT")
        known = {"project": project, "name": f"{run.name} {run.fingerprint[:8]}", "group": run.arm, "config": run.config, "resume": "allow",
                 "embed": False}  # fmt: skip
        space = os.environ.get("TRACKIO_SPACE_ID") or os.environ.get("TRACKIO_SERVER_URL")
        self.where = space or f"project {project} on this machine"
        self.later = f"trackio sync --project {project}"
        try:
            self._run = trackio.init(**known)
        except Exception as error:
            if not space:
                raise
            os.environ.pop("TRACKIO_SPACE_ID", None)
            os.environ.pop("TRACKIO_SERVER_URL", None)
            self._run = trackio.init(**known)
            self.where = f"{space} is out of reach ({_said(error)}); its curves are kept on this machine, and sent later by: {self.later}"
        following = getattr(self._run, "_next_step", None)
        self.last = None if following is None else following - 1

    def log(self, scalars: dict[str, float], step: int) -> None:
        self._run.log(scalars, step=step)

    def finish(self) -> None:
        self._run.finish()


TRACKERS = {"wandb": Wandb, "trackio": Trackio}


class Watch:
    """Ends this process, with a line, when something takes longer than it may: a call that hangs cannot be left in any other way."""

    def __init__(self, say: Any):
        self._say, self._what, self._until = say, "", float("inf")
        self._last = (float("inf"), "")
        threading.Thread(target=self._look, daemon=True).start()

    @contextlib.contextmanager
    def at_most(self, seconds: float, what: str) -> Iterator[None]:
        """what: said of it when it takes longer."""
        self._what, self._until = what, time.monotonic() + seconds
        yield
        self._until = float("inf")

    def end_within(self, seconds: float, what: str) -> None:
        """From now on all of it may take so long."""
        self._last = (time.monotonic() + seconds, what)

    def _look(self) -> None:
        while True:
            time.sleep(0.1)
            for until, what in ((self._until, self._what), self._last):
                if time.monotonic() > until:
                    self._say(what)
                    _leave(SAID)


def main(name: str, path: Path) -> int:
    """Feed the tracker until the worker has no more; 0, or SAID."""
    stream = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a tracker that asks for a key must not read the worker's numbers
    os.nice(5)
    run, kind = Run(json.loads(path.read_text(encoding="utf-8"))), TRACKERS[name]

    def say(text: str) -> None:
        line = f"{kind.title}: {text}"
        print(line, flush=True)
        with open(run.folder / "notices.txt", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    watch, coming = Watch(say), queue.SimpleQueue()
    threading.Thread(target=_receive, args=(stream, coming, watch), daemon=True).start()
    try:
        _feed(run, kind, name, coming, watch, say)
    except (Exception, SystemExit) as error:
        say(f"{_said(error)}; its curves end here, the run goes on")
        return SAID
    return 0


def _receive(stream: Any, coming: queue.SimpleQueue, watch: Watch) -> None:
    """Take from the pipe as it comes, so that it never fills, also while the tracker starts."""
    for line in stream:
        with contextlib.suppress(ValueError):  # a worker that was killed in the middle of a line
            coming.put(json.loads(line))
    watch.end_within(FINISH_SECONDS, f"not all was sent within {FINISH_SECONDS:.0f} seconds after the run; what is kept can be sent later")
    coming.put(END)


def _feed(run: Run, kind: Any, name: str, coming: queue.SimpleQueue, watch: Watch, say: Any) -> None:
    with open(run.folder / f"track-{name}.step", "a+", encoding="ascii") as mark:
        with watch.at_most(START_SECONDS, "another process draws this run; its curves end here, the run goes on"):
            fcntl.flock(mark, fcntl.LOCK_EX)
        with watch.at_most(START_SECONDS, f"no answer for {START_SECONDS:.0f} seconds; no curves there, the run goes on"):
            tracker = kind(run)
        say(tracker.where)
        mark.seek(0)
        last = tracker.last if tracker.last is not None else int(mark.read() or 0)
        while (message := coming.get()) is not END:
            scalars, step = message["scalars"], message["step"]
            fresh = {key: value for key, value in scalars.items() if not key.startswith("train/") or step > last}
            last = max(last, step)
            mark.truncate(0)
            mark.write(str(last))
            mark.flush()
            if fresh:
                with watch.at_most(CALL_SECONDS, f"no answer for {CALL_SECONDS:.0f} seconds; its curves end here, the run goes on"):
                    tracker.log(fresh, step)
        watch.end_within(FINISH_SECONDS, f"not all was sent within {FINISH_SECONDS:.0f} seconds after the run; later: {tracker.later}")
        tracker.finish()


def unreachable(settings: Any) -> str | None:
    """Why the server that `settings` name cannot be reached, found at once: the package would try for minutes. A proxy is left to it."""
    url = urllib.parse.urlsplit(settings.base_url or "")
    if settings.mode != "online" or not url.hostname or urllib.request.getproxies():
        return None
    try:
        socket.create_connection((url.hostname, url.port or (443 if url.scheme == "https" else 80)), REACH_SECONDS).close()
    except OSError as error:
        return f"no way to {url.hostname}: {error.strerror or error}"
    return None


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')[:200]}"


def _leave(code: int) -> None:
    """At once: what a tracker has hooked into the end of the process could hang as well."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _leave(main(sys.argv[1], Path(sys.argv[2])))
