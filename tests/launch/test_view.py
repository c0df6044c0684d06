"""The time that is left, and how it is written: pure functions."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from ostinato.launch.progress import Display, bars, line
from ostinato.launch.view import RunView, StudyView, duration
from ostinato.study.records import Measure


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "…"), (0, "0:00"), (7.4, "0:07"), (59.6, "1:00"), (750, "12:30"), (11100, "3:05:00"), (-3, "0:00")]
)
def test_duration(seconds, text):
    assert duration(seconds) == text


VIEW = StudyView(
    runs=(
        RunView("plain", 1, "running", 500, 1000, 3.25, 1234.5, 61.0),
        RunView("plain", 2, "done", 1000, 1000),
        RunView("twice", 1, "waiting", 0, 1000),
        RunView("twice", 2, "failed", 0, 1000, error="loss is not finite"),
    ),
    work_done=30.0,
    work_total=80.0,
    seconds=60.0,
    seconds_left=125.0,
)


def test_shares_and_counts():
    assert VIEW.share == 0.375 and VIEW.count("done", "reused") == 1 and VIEW.count("failed") == 1
    assert StudyView((), 0.0, 0.0, 0.0, 0.0).share == 1.0


def drawn(view):
    console = Console(width=120, force_terminal=True, color_system=None, record=True, file=io.StringIO())
    console.print(bars(view))
    return console.export_text()


def test_bars_show_speed_loss_and_time_left():
    shown = drawn(VIEW)
    for part in (
        "plain, seed 1",
        "50%",
        "1,234 tokens/s",
        "loss 3.250",
        "1:01 left",
        "38%",
        "1 of 4 runs",
        "1 waiting, 1 failed",
        "2:05 left",
    ):
        assert part in shown
    assert "twice" not in shown, "only running runs have a bar"


def test_measuring_is_said_instead_of_a_speed():
    view = StudyView((RunView("plain", 1, "running", 1000, 1000, 3.25, 1234.5, 61.0, measuring=0.4),), 1.0, 2.0, 60.0, None)
    assert "measuring 40%" in drawn(view) and "tokens/s" not in drawn(view) and "1:01 left" in drawn(view)


def test_a_line_says_the_same():
    assert line(VIEW) == "38% of the study, 1 of 4 runs done, about 2:05 left (plain, seed 1, 50%, 1,234 tokens/s, loss 3.250, 1:01 left)"


def test_a_run_that_starts_does_not_say_how_long_it_takes():
    told = line(StudyView((RunView("plain", 1, "running", 0, 1000),), 0.0, 80.0, 1.0, None))
    assert told.endswith("(plain, seed 1, 0%, starting)")


def test_many_due_runs_are_counted_and_the_first_named():
    def told(*arms):
        jobs = [SimpleNamespace(arm=SimpleNamespace(name=name), seed=seed, measuring_work=0.0, work=1.0,
                                folder=SimpleNamespace(given=dict)) for name in arms for seed in (2, 1)]  # fmt: skip
        console = Console(width=80, record=True, file=io.StringIO())
        Display(SimpleNamespace(name="study"), console).found(jobs, jobs, 2)
        return console.export_text().splitlines()

    assert told("a", "b")[1] == "4 runs due, 2 at a time: a (seeds 1, 2), b (seeds 1, 2)"
    few = "arm 0 (seeds 1, 2), arm 1 (seeds 1, 2), arm 2 (seeds 1, 2), arm 3 (seeds 1, 2)"
    reused, due = told(*(f"arm {index}" for index in range(40)))
    assert (reused, due) == (f"80 runs found done already: {few}, 72 more", f"80 runs due, 2 at a time: {few}, 72 more")
    assert "more" not in told(*"abcde")[1], "one arm more takes no more room than its number"


@pytest.mark.parametrize(
    ("pairs", "points", "named"), [("blimp", 1.0, "minimal pairs"), (None, 1.0, "speed ("), (None, 1e12, "losses at the points")]
)
def test_the_measure_that_takes_the_most_is_named(small_model, pairs, points, named):
    model = small_model()
    arm, work = SimpleNamespace(name="plain", model=model), {"work": points + 100, "measuring_work": points + 99.0, "taking_work": 99.0}
    job = SimpleNamespace(arm=arm, seed=1, measure=Measure(pairs=pairs), **work)
    console = Console(width=200, record=True, file=io.StringIO())
    Display(SimpleNamespace(name="study"), console).found([], [job], 1)
    hint = console.export_text().splitlines()[-1]
    assert hint.startswith("measuring is ") and f"most of it {named}" in hint
