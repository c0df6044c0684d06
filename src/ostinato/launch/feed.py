"""The worker's end of a tracker: numbers go into the pipe of a process of its own (`tracking.py`), and nothing is ever waited for."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from ostinato.launch import codes
from ostinato.launch.track import TITLES

SCRIPT = Path(__file__).with_name("tracking.py")
HANG_SECONDS = 120.0
_PIECE = 1 << 16

notices = logging.getLogger("ostinato.trackers")


class Feed:
    """One tracker of one run, as training knows trackers (`train.trackers.Tracker`)."""

    def __init__(self, name: str, request: Path):
        self.title = TITLES[name]
        self.process = subprocess.Popen([sys.executable, "-P", str(SCRIPT), name, str(request)], stdin=subprocess.PIPE)
        self._pipe = self.process.stdin.fileno()
        os.set_blocking(self._pipe, False)
        self._unsent, self._taken, self._over = bytearray(), time.monotonic(), False

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        """Raises RuntimeError when the process has died without a word, or takes nothing for HANG_SECONDS."""
        if not self._over:
            self._taken = self._taken if self._unsent else time.monotonic()
            self._unsent += json.dumps({"step": step, "scalars": dict(scalars)}).encode() + b"\n"
            self._send()

    def close(self, until: float) -> None:
        """End its input. The process goes on by itself when it is not ready in time. Raises RuntimeError as `log` does."""
        while self._unsent and time.monotonic() < until:
            self._send()
            time.sleep(0.01)
        if self._over:
            return
        self.process.stdin.close()
        try:
            self._ended(self.process.wait(max(0.1, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            notices.warning("%s: still sending what it has, beside all else and for five minutes at most", self.title)

    def _send(self) -> None:
        while self._unsent:
            try:
                sent = os.write(self._pipe, self._unsent[:_PIECE])
            except BlockingIOError:
                if time.monotonic() - self._taken > HANG_SECONDS:
                    self.process.kill()
                    self._end_input()
                    raise RuntimeError(f"it has taken nothing for {HANG_SECONDS:.0f} seconds") from None
                return
            except BrokenPipeError:
                self._end_input()
                self._ended(self.process.wait(5.0))
                return
            del self._unsent[:sent]
            self._taken = time.monotonic()

    def _end_input(self) -> None:
        self._over = True
        self._unsent.clear()
        self.process.stdin.close()

    def _ended(self, code: int) -> None:
        if code not in (codes.DONE, codes.SAID):
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise RuntimeError(f"its process {how}")


@contextlib.contextmanager
def noticed(path: Path) -> Iterator[None]:
    """What is said of trackers is also written to `path`, where the launcher reads it."""
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(message)s"))
    notices.addHandler(handler)
    try:
        yield
    finally:
        notices.removeHandler(handler)
        handler.close()
