"""Seconds from a calibration: the fit finds the rates that made the numbers, and work is counted as steps do it."""

from __future__ import annotations

import pytest

from ostinato.launch.probes import CPU
from ostinato.ledger.plan import plan
from ostinato.ledger.seconds import Calibration, Pace, fit, inputs_of, of_work, run_seconds, step_seconds
from ostinato.ledger.work import FORWARD, STEP, measuring_work, step_work
from ostinato.report.plan import PlanSheet, seconds_line
from ostinato.study import load_study
from ostinato.study.records import Evaluate

RATES = {"calls": 1e-5, "products": 1e-11, "elements": 4e-10, "attention": 2e-11, "head": 1.1e-11, "logits": 7e-10, "muon_products": 2e-11,
         "chunks": 3e-4, "tensors": 5e-5}  # fmt: skip
PACE = Pace(1, 2, "float32", RATES, {"products": 1e-11, "calls": 2e-5}, 2.0)
MADE = Calibration("made up", 2, "2026-11-30T00:00:00+00:00", (PACE, Pace(2, 1, "float32", {"products": 5e-12}, {"products": 5e-12}, 1.0)))
PARTS = {"train": 500_000, "validation": 30_000, "held_out": 15_000}


@pytest.fixture(scope="module")
def quickstart():
    return load_study("quickstart")


def test_the_probes_tell_the_rates_apart():
    works = [step_work(probe.arm(), probe.vocab) for probe in CPU]
    rates, error = fit(works, [of_work(RATES, work) for work in works], STEP)
    assert error < 1e-6
    for arm in load_study("hybrid", "desk").arms[:4]:
        work = step_work(arm, 512)
        assert of_work(rates, work) == pytest.approx(of_work(RATES, work), rel=0.02)


def test_rates_are_never_negative():
    works = [step_work(probe.arm(), probe.vocab) for probe in CPU]
    rates, _ = fit(works, [1.0 + index % 3 for index in range(len(works))], STEP)
    assert set(rates) == set(STEP) and min(rates.values()) >= 0


def test_work_of_a_step(quickstart):
    plain = quickstart.arms[0]
    work = {arm.name: step_work(arm, 512) for arm in quickstart.arms}
    tokens = 512
    assert work["plain"]["head"] == 3 * tokens * 2 * 512 * 64
    assert work["early"]["products"] == work["twice"]["products"] == work["deep"]["products"] == 2 * work["plain"]["products"]
    assert work["deep"]["muon"] == 2 * work["plain"]["muon"] == 2 * work["twice"]["muon"]
    assert work["plain"]["steps"] == 1 and work["plain"]["chunks"] == work["plain"]["delta"] == 0
    again = plain.model_copy(update={"recipe": plain.recipe.model_copy(update={"activation_checkpointing": True})})
    assert step_work(again, 512)["products"] == pytest.approx(4 / 3 * work["plain"]["products"])
    one_row = step_work(plain, 512, rows_at_once=1)
    assert one_row["calls"] == 4 * work["plain"]["calls"] and one_row["products"] == work["plain"]["products"]


def test_work_of_measuring_follows_the_windows(quickstart):
    arm = quickstart.arms[0]
    assert inputs_of(1000, Evaluate(), 128) == (2000, 0.5) and inputs_of(1000, Evaluate(windows="rows"), 128) == (1000, 1)
    assert inputs_of(1000, Evaluate(targets=100, context=64, stride=16), 128) == (400, 0.25)
    once, twice = (measuring_work(arm, 512, 128, 0.5, inputs, 16_384) for inputs in (32_768, 65_536))
    assert set(once) == set(FORWARD) and all(twice[name] == 2 * once[name] for name in FORWARD)


def test_seconds_of_a_run(quickstart):
    arm = quickstart.arms[0]
    run = run_seconds(MADE, arm, 512, quickstart.evaluate, PARTS, 1)
    assert run.start == 2.0 and run.training == pytest.approx(585 * step_seconds(MADE, arm, 512, 1))
    assert run.measuring > 0 and run.total == run.start + run.training + run.measuring
    unknown = run_seconds(MADE, arm, 512, quickstart.evaluate, None, 1)
    assert unknown.measuring is None and unknown.total == pytest.approx(run.start + run.training)
    limited = run_seconds(MADE, arm, 512, Evaluate(targets=1000), None, 1)
    assert 0 < limited.measuring < run.measuring


def test_threads_between_those_that_were_measured():
    made = Calibration("made up", 16, "", (Pace(1, 16, "float32", {}, {}, 8.0), Pace(16, 1, "float32", {}, {}, 2.0)))
    assert [made.between("float32", threads, lambda pace: pace.start) for threads in (1, 4, 16, 32)] == pytest.approx([8, 4, 2, 2])
    assert not made.known("bfloat16")


def test_how_far_to_trust_a_calibration_is_said():
    made = Calibration("made up", 2, "2026-11-30", (Pace(1, 2, "float32", {}, {}, 8.0, 0.02), Pace(2, 1, "float32", {}, {}, 2.0, 0.35)))
    assert made.pace_words(1) == "calibrated 2026-11-30, within 2% of its own steps"
    assert "within 35%" in made.pace_words(2) and "rough" in made.pace_words(2)


def test_the_plan_says_seconds_or_how_to_know_them(quickstart):
    without = plan(quickstart)
    assert "ostinato calibrate" in seconds_line(without)
    assert {row["seconds_per_run"] for row in without.rows()} == {None} and {row["calibrated"] for row in without.rows()} == {None}
    made = plan(quickstart, MADE)
    rows = {row["arm"]: row for row in made.rows()}
    assert rows["plain"]["seconds_total"] == 2 * rows["plain"]["seconds_per_run"] and rows["plain"]["threads"] in (1, 2)
    assert rows["plain"]["seconds_study"] == made.choice.seconds > rows["deep"]["seconds_per_run"] > rows["plain"]["seconds_per_run"]
    shown = " ".join(repr(PlanSheet(made)).split())
    assert "a run" in shown and "calibrated 2026-11-30" in shown and "About" in shown
    paper = plan(load_study("loop2"), MADE)
    assert "not calibrated for products in bfloat16" in seconds_line(paper)
