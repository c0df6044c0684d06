"""The probes run as processes and their seconds are fitted and kept; what goes wrong is an error with a way out."""

from __future__ import annotations

import io
import json
import os
import select

import pytest
from rich.console import Console

from ostinato.errors import TrainingError
from ostinato.launch import calibrate as room
from ostinato.launch import probe, run_study
from ostinato.launch import run as launch_run
from ostinato.launch.calibrate import calibrate
from ostinato.launch.probes import CPU, GPU, Probe
from ostinato.ledger import work
from ostinato.ledger.choice import Choice
from ostinato.store.calibration import calibration_key, read_calibration

TINY = (Probe(16, "1", 8, 2, 300), Probe(16, "1", 8, 2, 300, "adamw", heads=4))


def test_every_probe_is_an_arm_with_a_step():
    for one in (*CPU, *GPU):
        assert work.step_work(one.arm(), one.vocab)["products"] > 0


def test_a_probe_says_what_its_steps_took(capsys, monkeypatch):
    monkeypatch.setattr(select, "select", lambda *given: ([True], [], []))
    request = {"device": "cpu", "dtype": "float32", "threads": 1, "probes": [vars(one) for one in TINY], "turn": 1, "seconds": 0.0,
               "compiled": False}  # fmt: skip
    probe.main(request)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said[0] == {"ready": True} and said[-1] == {"done": True}
    assert [one["probe"] for one in said[1:-1]] == [1, 0] and all(one["step"] > 0 and one["forward"] > 0 for one in said[1:-1])


def test_a_calibration_is_kept_and_found(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "MOST_AT_ONCE", 1)
    told = []
    made = calibrate("cpu", cache=tmp_path, probes=TINY, seconds=0.0, progress=lambda stage, share: told.append(share))
    assert told[-1] == 1.0 and told == sorted(told)
    assert read_calibration(tmp_path, calibration_key("cpu")) == (made.calibration, None)
    assert made.calibration.paces[0].start > 0 and made.record()["file"] == str(made.path)
    assert "calibrated in" in str(made) and "kept in" in str(made)


def test_a_cache_that_cannot_be_written_is_no_crash(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_measured", lambda *given: [{"ready": True, "start": 1.0}, *(
        {"probe": index, "step": 0.1, "forward": 0.1, "scored": 100} for index in range(len(TINY)))])  # fmt: skip
    (tmp_path / "cache").write_text("a file where the folder would be")
    made = calibrate("cpu", cache=tmp_path / "cache", probes=TINY)
    assert made.path is None and "not kept" in str(made)


def test_a_probe_that_dies_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "worker_environment", lambda gpu, threads: {**os.environ, "PYTHONPATH": "/nowhere", "PYTHONSAFEPATH": "1"})
    bad = (Probe(16, "1", 8, 2, 300, heads=3),)
    with pytest.raises(TrainingError, match="a probe's process ended"):
        calibrate("cpu", cache=tmp_path, probes=bad, seconds=0.0)


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


def test_a_long_study_calibrates_first_and_says_how_it_runs(tiny, store, console, monkeypatch, tmp_path):
    """The guess is made long, the calibration and the workers are stand-ins: what is passed on is looked at."""
    from ostinato.ledger.seconds import Calibration, Pace

    rates = {"products": 1e-10}
    fast = {"products": 1e-12}
    cores = launch_run.usable_cores()
    paces = (Pace(1, cores, "float32", rates, rates, 0.0), Pace(cores, 1, "float32", fast, fast, 0.0))
    made = room.Calibrated(Calibration("made up", cores, "2026-11-30T00:00:00+00:00", paces), None, 1.0)
    monkeypatch.setattr(launch_run, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(launch_run, "calibrate", lambda device, progress: progress("starting", 0.0) or made)
    monkeypatch.setattr(launch_run, "read_calibration", lambda cache, key: (None, "a file is ignored"))
    seen = []

    class Looked(launch_run.Pool):
        def run(self):
            seen.append((self.slots, self.threads, self.view()))

    monkeypatch.setattr(launch_run, "Pool", Looked)
    run_study(tiny(), store, console=console)
    shown = console.file.getvalue()
    assert "calibrating" in shown and "a file is ignored" in shown and "cannot be written" in shown and "at a time" in shown
    slots, threads, view = seen[0]
    assert (slots, threads) == ((1, cores) if cores > 1 else (1, 1))
    assert view.seconds_left == pytest.approx(view.work_total) and view.share == 0, "before anything runs, by the calibration"
    monkeypatch.setattr(launch_run, "LONG_SECONDS", 1e9)
    monkeypatch.setattr(launch_run, "read_calibration", lambda cache, key: (None, None))
    run_study(tiny(), store, console=console, threads=1, jobs=2)
    assert seen[-1][:2] == (2, 1) and seen[-1][2].seconds_left is None
    assert Choice(2, 1).seconds is None
