"""A stand-in for trackio with its signatures: a run is found again by its name."""

from __future__ import annotations

import os

from pretending import Diary, go_wrong

diary = Diary("trackio")


class Run:
    def __init__(self, name):
        self.name = name
        steps = [row["step"] for row in diary.read("log") if row["run"] == name]
        self._next_step = max(steps) + 1 if steps else 0

    def log(self, metrics, step=None):
        go_wrong("log")
        diary.write(call="log", data=metrics, step=step, run=self.name)

    def finish(self):
        go_wrong("finish")
        diary.write(call="finish")


def init(
    project, name=None, group=None, space_id=None, server_url=None, config=None, resume="never", settings=None, private=None, embed=True
):
    go_wrong("init")
    space = os.environ.get("TRACKIO_SPACE_ID")
    if space:
        raise ValueError("You must be logged in")
    diary.write(call="init", project=project, name=name, group=group, config=config, resume=resume)
    return Run(name)
