"""What ends a study first: jobs and threads by a made-up calibration, and whether compiling pays."""

from __future__ import annotations

import pytest

from ostinato.ledger.choice import COMPILE_STEPS, Choice, choose, compile_pays, seconds_left
from ostinato.ledger.plan import plan
from ostinato.ledger.seconds import Calibration, CompiledProbe, Pace
from ostinato.study import load_study


@pytest.mark.parametrize(("running", "waiting", "slots", "speed", "expected"), [
    ([], [], 2, None, 0.0),
    ([(100.0, 10.0)], [], 2, None, 10.0),
    ([(100.0, 10.0), (300.0, 10.0)], [], 2, None, 30.0),
    ([(100.0, 10.0), (300.0, 10.0)], [200.0], 2, 10.0, 30.0),
    ([(100.0, 10.0), (300.0, 10.0)], [200.0, 400.0], 2, 10.0, 70.0),
    ([(100.0, None)], [100.0], 1, 5.0, 40.0),
    ([], [100.0, 100.0, 100.0], 2, 10.0, 20.0),
    ([(100.0, None)], [], 1, None, None),
    ([(100.0, 10.0)], [5.0], 1, None, None),
])  # fmt: skip
def test_seconds_left(running, waiting, slots, speed, expected):
    assert seconds_left(running, waiting, slots, speed) == expected


def machine(cores=8, gain=1.2, start=0.0, compiled=(), error=0.0):
    """A calibration on which all threads are `gain` times as fast as one."""
    rate = {"products": 1e-11}
    faster = {"products": 1e-11 / gain}
    paces = (Pace(1, cores, "float32", rate, rate, start), Pace(cores, 1, "float32", faster, faster, start, error))
    return Calibration("made up", cores, "2026-11-30T00:00:00+00:00", paces, compiled)


@pytest.fixture(scope="module")
def study():
    return load_study("quickstart")


def runs(study, count):
    return [(study.arms[0], 512, {"validation": 1000, "held_out": 1000})] * count


def test_without_a_calibration_one_run_a_core(study):
    assert choose(runs(study, 3), study.evaluate, None, 4) == Choice(4, 1)
    assert choose(runs(study, 3), study.evaluate, None, 4, threads=2) == Choice(2, 2)
    assert choose(runs(study, 3), study.evaluate, None, 4, jobs=3) == Choice(3, 1)
    assert choose(runs(study, 3), study.evaluate, None, 2, jobs=3, threads=4) == Choice(3, 4)


def test_one_run_a_core_where_threads_gain_little(study):
    found = choose(runs(study, 16), study.evaluate, machine(), 8)
    assert (found.jobs, found.threads, found.calibrated) == (8, 1, True)
    assert str(found) == "8 runs at a time, 1 thread each"


def test_fewer_runs_than_cores_get_threads(study):
    found = choose(runs(study, 2), study.evaluate, machine(gain=6.0), 8)
    assert (found.jobs, found.threads) == (2, 4)
    assert choose(runs(study, 1), study.evaluate, machine(gain=6.0), 8).threads == 8
    assert choose(runs(study, 2), study.evaluate, machine(gain=1.02), 8).threads == 1, "2% are not worth other bits"
    assert choose(runs(study, 1), study.evaluate, machine(gain=1.2), 8).threads == 8
    assert choose(runs(study, 1), study.evaluate, machine(gain=1.2, error=0.3), 8).threads == 1, "a gain that may be none"


def test_what_the_user_gives_wins(study):
    fast = machine(gain=7.9)
    assert choose(runs(study, 8), study.evaluate, fast, 8, jobs=8) == choose(runs(study, 8), study.evaluate, fast, 8, jobs=8, threads=1)
    found = choose(runs(study, 8), study.evaluate, fast, 8, jobs=2)
    assert found.jobs == 2 and found.threads == 4
    assert choose(runs(study, 8), study.evaluate, fast, 8, threads=2).jobs == 4


def test_a_number_format_that_was_not_measured_is_not_guessed(study):
    arm = study.arms[0]
    other = arm.model_copy(update={"recipe": arm.recipe.model_copy(update={"dtype": "bfloat16"})})
    found = choose([(other, 512, None)], study.evaluate, machine(), 8)
    assert found == Choice(8, 1) and found.seconds is None


def test_compiling_pays_by_what_it_saves(study):
    ledgers = plan(study).ledgers
    assert not compile_pays(ledgers, None, gpu=False) and not compile_pays(ledgers, machine(), gpu=False)
    assert not compile_pays(ledgers, machine(compiled=(CompiledProbe(64, 1.5, 30.0),)), gpu=False), "seconds of training each"
    assert compile_pays(ledgers, machine(compiled=(CompiledProbe(64, 1.5, 0.1), CompiledProbe(512, 0.9, 30.0))), gpu=False)
    assert not compile_pays(ledgers, machine(compiled=(CompiledProbe(64, 0.9, 0.0),)), gpu=False)
    assert compile_pays(ledgers, None, gpu=True) == (min(ledger.steps for ledger in ledgers) >= COMPILE_STEPS)
