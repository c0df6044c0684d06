"""A stand-in for Weights & Biases with its signatures: online with a key, a server that knows how far a run is."""

from __future__ import annotations

import os

from pretending import Diary, go_wrong

diary = Diary("wandb")


class Settings:
    def __init__(self, *, console="auto", init_timeout=90.0):
        self.mode = os.environ.get("WANDB_MODE", "online")
        self.base_url = os.environ.get("WANDB_BASE_URL", "http://127.0.0.1:9")


class Setup:
    settings = Settings()


def setup():
    return Setup()


def teardown(exit_code=None):
    diary.write(call="teardown")


class Run:
    def __init__(self, offline, id, step):
        self.offline, self.id, self.step = offline, id, step
        self.project_url = None if offline else "https://wandb.example/me/p"

    def define_metric(self, name, step_metric=None, *, step_sync=None, hidden=None, summary=None, goal=None, overwrite=None):
        diary.write(call="define_metric", name=name, step_metric=step_metric)

    def log(self, data, step=None, commit=None):
        go_wrong("log")
        if step is not None:
            if step < self.step:
                return
            self.step = step
        diary.write(call="log", data=data, step=self.step, offline=self.offline)

    def finish(self, exit_code=None):
        go_wrong("finish")
        diary.write(call="finish")


def init(
    entity=None,
    project=None,
    dir=None,
    id=None,
    name=None,
    notes=None,
    tags=None,
    config=None,
    group=None,
    job_type=None,
    mode=None,
    reinit=None,
    resume=None,
    settings=None,
):
    go_wrong("init")
    offline = (mode or os.environ.get("WANDB_MODE")) == "offline"
    if not offline and not os.environ.get("WANDB_API_KEY"):
        raise RuntimeError("No API key configured. Use `wandb login` to log in.")
    steps = [] if offline or resume != "allow" else [row["step"] for row in diary.read("log") if not row["offline"]]
    diary.write(call="init", project=project, id=id, name=name, group=group, config=config, offline=offline, dir=os.environ["WANDB_DIR"])
    return Run(offline, id, max(steps) + 1 if steps else 0)
