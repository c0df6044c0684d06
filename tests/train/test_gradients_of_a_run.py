"""The gradients of a whole run: with them or without it is the same run, and going on leaves the log as an unbroken run writes it."""

from __future__ import annotations

import numpy as np
import pytest

from ostinato.store.runs import RunFolder
from ostinato.study.records import Checkpoints, Evaluate, Gradients, Measure
from ostinato.train import RunRequest, checkpoints, train

EVALUATE = Evaluate(every="640", targets=300, context=16)
TWICE = {"schedule": "1..2 1..2"}


@pytest.fixture
def run(small_text, small_arm, tmp_path):
    """run(name, every=4, evaluate=EVALUATE, **rest) -> RunFolder of 20 steps of two layers that run twice."""

    def start(name, every=4, evaluate=EVALUATE, threads=1, **rest):
        folder = RunFolder(tmp_path / "runs" / name, tmp_path / "targets")
        request = RunRequest(small_arm(model=TWICE), 1, evaluate, Checkpoints(every="320", keep="all"),
                             Measure(gradients=Gradients(every=every)))  # fmt: skip
        train(request, small_text, folder, **{"device": "cpu", "threads": threads, "tensorboard": False, **rest})
        return folder

    return start


def stop_after(steps):
    seen = []
    return {"stop": lambda: len(seen) >= steps, "on_step": seen.append}


def gradients(folder):
    return folder.gradients().drop(["seconds"]).to_pylist()


def test_with_them_or_without_it_is_the_same_run(run):
    plain, watched = run("plain", every=0), run("watched")
    assert plain.gradients().num_rows == 0 and not plain.finished_gradients_path.exists()
    rows = [{**row, "seconds": None} for row in watched.steps().to_pylist()]
    assert rows == [{**row, "seconds": None} for row in plain.steps().to_pylist()]
    for point in plain.measured():
        np.testing.assert_array_equal(plain.read_losses(*point).losses, watched.read_losses(*point).losses)
    ends = [checkpoints.newest(folder.checkpoints_path).manifest["files"] for folder in (plain, watched)]
    assert ends[0] == ends[1]
    assert sorted(set(watched.gradients()["step"].to_pylist())) == [1, 4, 8, 12, 16, 20]
    assert watched.finished_gradients_path.exists() and not watched.gradients_path.exists()


def test_stopped_and_gone_on_they_are_those_of_an_unbroken_run(run):
    whole = run("whole")
    run("parts", **stop_after(7))
    run("parts", **stop_after(6))
    parts = run("parts")
    assert gradients(parts) == gradients(whole)


def test_steps_lost_with_a_checkpoint_are_looked_at_again_once(run):
    whole = run("whole")
    folder = run("torn", **stop_after(13))
    (checkpoints.newest(folder.checkpoints_path).path / "manifest.json").write_text("{")
    assert gradients(run("torn")) == gradients(whole)


def test_steps_taken_again_for_a_new_point_add_nothing(run):
    folder = run("again")
    before = gradients(folder)
    run("again", evaluate=EVALUATE.model_copy(update={"every": "448"}))
    assert ("validation", 448) in folder.measured() and gradients(folder) == before


class Kept:
    title = "kept"

    def __init__(self):
        self.told = {}

    def log(self, scalars, step):
        self.told.setdefault(step, {}).update(scalars)

    def close(self, until):
        pass


def test_trackers_draw_shares_cosines_and_growth(run):
    kept = Kept()
    run("tracked", trackers=[lambda steps_done: kept])
    names = {"gradients/share_1", "gradients/share_2", "gradients/cosine_1_2", "gradients/growth"}
    drawn = {step: {name for name in scalars if name.startswith("gradients/")} for step, scalars in kept.told.items()}
    assert all(drawn[step] == (names if step in (1, 4, 8, 12, 16, 20) else set()) for step in range(1, 21))
    assert kept.told[4]["gradients/share_1"] + kept.told[4]["gradients/share_2"] == pytest.approx(1.0)
