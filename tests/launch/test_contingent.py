"""Arms that wait for a result run once it is there, in the same launch, and those that do not run say why."""

from __future__ import annotations

import pytest

from ostinato.analysis import results_table
from ostinato.judge.contingent import contingent_arms
from ostinato.launch import run_study


@pytest.fixture
def waiting(tiny):
    """`first` and, behind it, `second` wait for what is surely so; `never` for what is not, and `stuck` for an arm that does not run."""
    study = tiny()
    later = study.arms[-1].model_copy(update={"contingent": None})
    conditions = {"first": "loss(twice) > 0", "second": "loss(first) > 0", "never": "gain(twice) > 100", "stuck": "gain(never) > 0"}
    arms = []
    for depth, (name, text) in enumerate(conditions.items(), 3):
        model = later.model.model_copy(update={"layers": ("gqa",) * depth})
        arms.append(later.model_copy(update={"name": name, "run_if": text, "model": model}))
    return study.model_copy(update={"arms": (*study.arms[:2], *arms)})


def test_they_run_by_themselves_and_the_rest_is_said_and_logged_once(waiting, store, console):
    outcome = run_study(waiting, store, jobs=2, console=console)
    assert {row["arm"] for row in outcome.done} == {"plain", "twice", "first", "second"} and not outcome.failed
    shown = console.file.getvalue()
    assert "first runs: loss(twice) > 0 holds" in shown and shown.index("first runs") < shown.index("second runs")
    assert "never is not run: gain(twice) > 100 does not hold" in shown
    assert "stuck is not run: it depends on never, which is not run" in shown
    states = {name: one.state for name, one in contingent_arms(waiting, store).items()}
    assert states == {"first": "ran", "second": "ran", "never": "not run", "stuck": "not run"}
    assert {one.name: one.runs[0].state for one in results_table(waiting, store)}["never"] == "not asked"

    again = run_study(waiting, store, jobs=2, console=console)
    assert not again.done and {row["arm"] for row in again.reused} == {"plain", "twice", "first", "second"}
    logged = [(event["arm"], event["state"]) for event in store.study_folder(waiting.name).events() if event["event"] == "contingent"]
    assert sorted(logged) == sorted(states.items())


def test_named_arms_alone_call_for_none(waiting, store, console):
    outcome = run_study(waiting, store, arms=["plain", "twice"], jobs=2, console=console)
    assert {row["arm"] for row in outcome.done} == {"plain", "twice"}
    assert contingent_arms(waiting, store)["first"].state == "due"
