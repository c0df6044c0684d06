"""What stand-ins for the packages of trackers share: they keep what they are told in a file, and can go wrong.

$FAKE is the folder that they keep it in; $FAKE_WRONG says what happens at which call: "raise log", "hang init", "exit finish".
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path


class Diary:
    """All calls to one package, of every process."""

    def __init__(self, package: str):
        self.path = Path(os.environ["FAKE"]) / f"{package}.jsonl"

    def write(self, **what):
        with open(self.path, "a") as file:
            file.write(json.dumps(what, default=str) + "\n")

    def read(self, call):
        if not self.path.exists():
            return []
        return [row for row in map(json.loads, self.path.read_text().splitlines()) if row["call"] == call]


def go_wrong(call):
    how, _, at = os.environ.get("FAKE_WRONG", "").partition(" ")
    if at != call:
        return
    if how == "raise":
        raise ConnectionError("the server\nis on fire")
    if how == "hang":
        time.sleep(1000)
    if how == "exit":
        os._exit(7)
