"""Case 17: 20 steps against 10 + resume + 10, and a kill at any moment, with any number of workers: bit-equal weights, optimizer,
losses and next batches.

One real process imports torch once and forks the workers: each trains a run in its own folder, some stop when told, some are
killed with SIGKILL after a delay, wherever that finds them (between steps, in a step, in a save, in a measurement).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from ostinato.store.runs import RunFolder
from ostinato.train import checkpoints
from ostinato.train.machine import choose
from ostinato.train.trainer import Trainer

DRIVER = """
import json, os, signal, sys, time, traceback
from pathlib import Path
from ostinato.data.prepare import prepare
from ostinato.store.runs import RunFolder
from ostinato.study.records import Arm, Checkpoints, Evaluate
from ostinato.train import RunRequest, train
from ostinato.train.machine import choose
from ostinato.train.trainer import Trainer

given = json.loads(Path(sys.argv[1]).read_text())
root = Path(given["root"])
arm = Arm.model_validate(given["arm"])
prepared = prepare(arm.data, Path(given["cache"]))
Trainer(arm, 1, prepared, choose("cpu", "float32", 1, False))  # what is imported late is imported before the forks
request = RunRequest(arm, 1, Evaluate.model_validate(given["evaluate"]), Checkpoints(every=given["every"], keep="all"))

def start(name, stop_after=None, seconds=60.0):
    worker = os.fork()
    if worker:
        return worker
    try:
        seen = []
        stop = (lambda: len(seen) >= stop_after) if stop_after else None
        folder = RunFolder(root / "runs" / name, root / "targets")
        train(request, prepared, folder, device="cpu", threads=1, stop=stop, on_step=seen.append, safety_seconds=seconds, tensorboard=False)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)

def finish(*workers):
    codes = [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers]
    assert all(code in (0, -signal.SIGKILL) for code in codes), codes
    return sum(code == -signal.SIGKILL for code in codes)

assert finish(start("whole")) == 0
for steps in given["parts"]:
    assert finish(start("parts", steps)) == 0
killed = 0
names = [f"killed{number}" for number in range(given["workers"])]
for delay in given["delays"]:
    workers = [start(name, seconds=0.02) for name in names]
    for number, worker in enumerate(workers):
        time.sleep(delay if number == 0 else delay / 3)
        os.kill(worker, signal.SIGKILL)
    killed += finish(*workers)
assert finish(*[start(name) for name in names]) == 0
print(json.dumps({"killed": killed}))
"""


@pytest.fixture(scope="module")
def runs(small_arm, small_text, tmp_path_factory):
    """(folders by name, arm): `whole`, `parts` (10, then the rest) and three that were killed again and again."""
    root = tmp_path_factory.mktemp("resume")
    switches = {"schedule": "1..2 1..2", "inject": "linear", "h0": "noise", "pass_norm": True, "attn_gate": "head"}
    arm = small_arm(model={"layers": ("gdn", "gqa"), **switches})
    given = {"root": str(root), "cache": str(small_text.cache), "arm": arm.model_dump(mode="json"), "every": "256", "workers": 3,
             "parts": [10, 99], "evaluate": {"every": "320", "targets": 300, "context": 16},
             "delays": [0.02, 0.05, 0.08, 0.12, 0.16, 0.2, 0.1, 0.15]}  # fmt: skip
    (root / "driver.py").write_text(DRIVER)
    (root / "given.json").write_text(json.dumps(given))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, str(root / "driver.py"), str(root / "given.json")], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["killed"] >= 3, "the runs were too short to be killed"
    names = ["whole", "parts", "killed0", "killed1", "killed2"]
    return {name: RunFolder(root / "runs" / name, root / "targets") for name in names}, arm


OTHERS = ["parts", "killed0", "killed1", "killed2"]


@pytest.mark.parametrize("name", OTHERS)
def test_every_run_ends_and_says_so(runs, name):
    assert runs[0][name].status()["state"] == "done"
    assert not list(runs[0][name].checkpoints_path.glob(".*"))


@pytest.mark.parametrize("name", OTHERS)
def test_steps_are_those_of_the_unbroken_run(runs, name):
    def trajectory(folder):
        return folder.steps().select(["step", "tokens", "loss", "lr", "grad_norm"]).to_pylist()

    assert len(trajectory(runs[0]["whole"])) == 20
    assert trajectory(runs[0][name]) == trajectory(runs[0]["whole"])


@pytest.mark.parametrize("name", OTHERS)
def test_measured_losses_are_bit_equal(runs, name):
    whole, other = runs[0]["whole"], runs[0][name]
    assert whole.measured() == other.measured() == [(part, at) for part in ("held_out", "validation") for at in (320, 640, 960, 1280)]
    for point in whole.measured():
        np.testing.assert_array_equal(whole.read_losses(*point).losses, other.read_losses(*point).losses)


@pytest.mark.parametrize("name", OTHERS)
def test_weights_and_optimizer_are_bit_equal_at_every_point(runs, name):
    def sums(folder):
        return {found.tokens: found.manifest["files"] for found in checkpoints.listing(folder.checkpoints_path)}

    whole, other = sums(runs[0]["whole"]), sums(runs[0][name])
    assert set(whole) == {256, 512, 768, 1024, 1280} <= set(other)
    assert all(other[tokens] == files for tokens, files in whole.items())


def test_the_next_batches_are_those_of_the_unbroken_run(runs, small_text):
    folders, arm = runs
    machine = choose("cpu", "float32", 1, False)
    unbroken, resumed = Trainer(arm, 1, small_text, machine), Trainer(arm, 1, small_text, machine)
    for _ in range(12):
        unbroken.step()
    resumed.load(checkpoints.newest(folders["parts"].checkpoints_path, tokens=768))
    for _ in range(3):
        np.testing.assert_array_equal(resumed.plan.batch(resumed.step_number), unbroken.plan.batch(unbroken.step_number))
        first, second = resumed.step(), unbroken.step()
        assert (first.step, first.loss, first.grad_norm) == (second.step, second.loss, second.grad_norm)
