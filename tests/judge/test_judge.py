"""A study judged: sealed and exploratory predictions, what changed, runs that are counted, contingent arms, held-out gains, case 19."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from ostinato.judge.contingent import contingent_arms
from ostinato.judge.judge import judge
from ostinato.judge.register import register
from ostinato.study.records import Prediction

ARMS = {"plain": {}, "twice": {}, "deep": {}}
HELPS = {"name": "helps", "claim": "looping helps", "supported": "gain(twice) >= 0.05", "killed": "gain(twice) <= 0"}
LESS = {"name": "less", "supported": "gain(twice) < gain(deep)", "killed": "otherwise"}


def amended(made, *predictions, **changes):
    """The same study with other predictions or keys, written as another run of it would."""
    made.study = made.study.model_copy(update={"predictions": tuple(Prediction(**one) for one in predictions), **changes})
    made.store.study_folder("tiny").write(made.study, made.prints)
    return made.study


def by_name(judgement):
    return {(one.name, one.exploratory): one for one in judgement.verdicts}


@pytest.fixture
def made(bench):
    return bench(ARMS, predictions=(Prediction(**HELPS), Prediction(**LESS)))


def test_sealed_before_the_runs(made):
    register(made.study, made.store)
    made.run("plain", level=3.0).run("twice", level=2.9).run("deep", level=2.95)
    judgement = judge(made.study, made.store)
    helps, less = judgement.verdicts
    assert (helps.kind, helps.strength, helps.registered, helps.exploratory) == ("SUPPORTED", "clear", 1, False) and helps.at
    assert less.kind == "KILLED" and less.strength == "clear" and not less.after_results and not less.changed and not less.withdrawn
    assert helps.holm >= helps.p and judgement.exit_status == 10 and judgement.registrations == 1 and not judgement.notes
    assert judgement.counts["twice"] == {"done": 3, "failed": 0, "missing": 0, "partial": 0, "not asked": 0}
    assert json.loads(json.dumps(judgement.record()))["totals"]["done"] == 9
    event = made.store.study_folder("tiny").events()[-1]
    assert event["event"] == "judged" and event["counts"] == {"SUPPORTED": 1, "KILLED": 1} and len(event["fingerprint"]) == 64


def test_held_out_gains_are_shown_and_looking_before_is_said(made):
    made.run("plain", level=3.0).run("twice", level=2.9)
    judgement = judge(made.study, made.store)
    twice = judgement.held_out["twice"]
    assert twice.validation == pytest.approx(0.1, abs=1e-5) and twice.held_out == pytest.approx(0.1, abs=1e-5) and twice.interval_held_out
    assert judgement.held_out["deep"].held_out is None and "not begun" in judgement.held_out["deep"].reason
    assert not any("held-out" in note for note in judgement.notes) and made.store.study_folder("tiny").held_out_shown() is None
    made.store.study_folder("tiny").log("held_out_shown", by="results")
    assert not any("held-out" in note for note in judge(made.study, made.store).notes), "it was judged before"


def test_looking_before_judging_is_said(made):
    made.run("plain").run("twice")
    made.store.study_folder("tiny").log("held_out_shown", by="results")
    assert any("held-out part was shown on" in note for note in judge(made.study, made.store).notes)


def test_nothing_registered_is_exploratory(made):
    judgement = judge(made.study, made.store)
    assert [one.exploratory for one in judgement.verdicts] == [True, True] and {one.kind for one in judgement.verdicts} == {"NOT ESTIMABLE"}
    assert judgement.exit_status == 20 and "all of them are exploratory" in judgement.notes[0] and judgement.registrations == 0


def test_what_is_amended_is_seen(made):
    register(made.study, made.store)
    made.run("plain", level=3.0).run("twice", level=2.9)
    register(amended(made, {**HELPS, "supported": "gain(twice) >= 0.01"}, LESS), made.store)
    deeper = tuple(arm.model_copy(update={"seeds": (1, 2)}) if arm.name == "twice" else arm for arm in made.study.arms)
    del made.prints["twice", 3]
    amended(made, HELPS, {"name": "new", "supported": "gain(deep) > 0", "killed": "otherwise"}, arms=deeper)
    found = by_name(judge(made.study, made.store))
    assert list(found) == [("helps", False), ("helps", True), ("less", False), ("new", True)]
    helps, mine, less = found["helps", False], found["helps", True], found["less", False]
    assert helps.registered == 2 and "gain(twice) >= 0.01" in helps.conditions[0].text
    seen = {line.split(":")[0] for line in helps.after_results}
    assert seen == {f"{arm}, seed {seed}" for arm in ("plain", "twice") for seed in (1, 2, 3)}
    assert mine.registered is None and not mine.after_results and "0.05" in mine.conditions[0].text
    assert less.registered == 1 and not less.after_results and less.withdrawn, "another one was amended, not this"
    assert any("seeds" in line and "twice" in line for line in helps.changed) and not any("deep" in line for line in helps.changed)


def test_an_edited_registration_is_said(made):
    path = register(made.study, made.store).path / "study.json"
    made.run("plain", level=3.0).run("twice", level=2.9).run("deep", level=2.8)
    assert judge(made.study, made.store).exit_status == 0
    path.write_text(path.read_text().replace("0.05", "0.01"))
    judgement = judge(made.study, made.store)
    assert any("line" in fault and "0.01" in fault for fault in judgement.faults) and judgement.record()["faults"]
    assert all(one.exploratory and one.registered is None and one.at is None for one in judgement.verdicts)
    texts = [(one.name, one.conditions[0].text, one.withdrawn) for one in judgement.verdicts]
    assert texts == [("helps", "gain(twice) >= 0.05", False),
                     ("less", "gain(twice) < gain(deep)", False), ("helps", "gain(twice) >= 0.01", True)]  # fmt: skip
    assert judgement.exit_status == 20, "an edited seal is something missing"
    shutil.rmtree(path.parent)
    judgement = judge(made.study, made.store)
    assert judgement.exit_status == 20 and judgement.faults and not judgement.notes and len(judgement.verdicts) == 2


def test_sizes_are_sealed_in_one_chain_and_judged_each_by_its_own(made):
    large = made.study.model_copy(update={"size": "large", "predictions": made.study.predictions[:1]})
    assert [register(study, made.store).number for study in (made.study, large, made.study)] == [1, 2, 1]
    verdicts = judge(made.study, made.store).verdicts
    assert len(verdicts) == 2 and {(one.registered, one.exploratory, one.withdrawn) for one in verdicts} == {(1, False, False)}


def test_every_run_counts(bench):
    made = bench({**ARMS, "half": {}, "later": {"contingent": "by hand"}}, predictions=(Prediction(**HELPS),))
    made.run("plain").run("twice", 1).run("twice", 2, tokens=(), state="failed", error="loss is not finite").run("twice", 3)
    made.run("half", tokens=(1024,), state="stopped")
    judgement = judge(made.study, made.store)
    wanted = {"plain": {"done": 3}, "twice": {"done": 2, "failed": 1}, "deep": {"missing": 3}, "half": {"partial": 3},
              "later": {"not asked": 3}}  # fmt: skip
    assert {arm: {state: number for state, number in counts.items() if number} for arm, counts in judgement.counts.items()} == wanted
    assert judgement.totals == {"done": 5, "failed": 1, "missing": 3, "partial": 3, "not asked": 3}
    assert "twice is judged on seeds 1, 3 alone: seed 2 failed" in judgement.notes and any("12.7" in note for note in judgement.notes)
    assert list(judgement.verdicts[0].conditions[0].clauses[0].seeds) == [1, 3] and judgement.exit_status & 20 == 20


def test_an_arm_that_is_not_there(bench):
    made = bench(ARMS, predictions=(Prediction(name="a", supported="gain(twise) > 0", killed="otherwise"),)).run("plain")
    assert "no arm 'twise'" in judge(made.study, made.store).verdicts[0].reason


# --- contingent arms


def contingent(bench, run_if, **arm):
    arms = {**ARMS, "extra": {"run_if": run_if, **arm}}
    return bench(arms, predictions=(Prediction(**HELPS),)).run("plain", level=3.0)


def test_contingent_arms(bench):
    made = contingent(bench, "gain(twice) >= 0.05 and outcome(helps) is SUPPORTED")
    waits = contingent_arms(made.study, made.store)["extra"]
    assert waits.state == "undecided" and "not begun" in waits.reason and not waits.due
    made.run("twice", level=2.9).run("deep")
    due = contingent_arms(made.study, made.store)["extra"]
    assert due.due and "gain(twice) >= 0.05 holds: 0.1 against 0.05 nats/token" in due.reason
    assert judge(made.study, made.store).counts["extra"]["missing"] == 3
    made.run("extra", 1)
    assert contingent_arms(made.study, made.store)["extra"].due, "two runs of it are not there yet"
    made.run("extra")
    assert contingent_arms(made.study, made.store)["extra"].state == "ran"


def test_a_contingent_arm_that_does_not_run(bench):
    made = contingent(bench, "gain(twice) >= 0.2").run("twice", level=2.9).run("deep")
    judgement = judge(made.study, made.store)
    (extra,) = judgement.contingent
    assert extra.state == "not run" and extra.reason == "gain(twice) >= 0.2 does not hold: 0.1 against 0.2 nats/token"
    assert judgement.counts["extra"]["not asked"] == 3 and judgement.exit_status == 0
    made.run("extra", 1)
    assert contingent_arms(made.study, made.store)["extra"].reason.startswith("it was asked for by name")


def test_a_contingent_arm_without_a_run_that_ended_did_not_run(bench):
    made = contingent(bench, "gain(twice) >= 0.05").run("twice", level=2.9).run("deep")
    for seed in (1, 2, 3):
        made.run("extra", seed, tokens=(), state="failed", error="loss is nan")
    assert contingent_arms(made.study, made.store)["extra"].state == "failed"
    half = contingent(bench, "gain(twice) >= 0.05").run("twice", level=2.9).run("deep").run("extra", tokens=(1024,), state="stopped")
    assert contingent_arms(half.study, half.store)["extra"].state == "partial"


def test_an_arm_that_rests_on_one_not_run_is_not_run(bench):
    arms = {**ARMS, "no": {"run_if": "gain(twice) >= 5"},
            "behind": {"run_if": "gain(no) > 0"}, "last": {"run_if": "outcome(of_no) is KILLED"},
            "either": {"run_if": "gain(no) > 0 or gain(deep) > 0"}}  # fmt: skip
    made = bench(arms, predictions=(Prediction(name="of_no", supported="gain(behind) > 0", killed="otherwise"),))
    found = contingent_arms(made.run("plain", level=3.0).run("twice", level=2.9).study, made.store)
    assert found["behind"].state == "not run" and found["behind"].reason == "it depends on no, which is not run"
    assert found["last"].reason == "it depends on behind, which is not run" and found["either"].state == "undecided"


def test_reasons_are_one_line(bench):
    made = contingent(bench, "gain(twice) >= 0.05")
    for seed in (1, 2, 3):
        made.run("twice", seed, tokens=(), state="failed", error="the norm is nan\nrule: be finite\ntry:  lower (recipe.lr), or clip")
    reason = contingent_arms(made.study, made.store)["extra"].reason
    assert "\n" not in reason and "rule:" not in reason and "try:" not in reason and "the norm is nan" in reason


def test_registered_after_the_held_out_part_was_judged(made):
    register(made.study, made.store)
    judge(made.study, made.store)
    assert made.store.study_folder("tiny").held_out_known() is None, "nothing was there to be seen"
    made.run("plain", level=3.0).run("twice", level=2.9)
    judge(made.study, made.store)
    late = {"name": "late", "supported": "gain(twice, part=held_out) > 0", "killed": "otherwise"}
    assert register(amended(made, HELPS, late), made.store).held_out_shown == made.store.study_folder("tiny").events()[-2]["at"]
    notes = judge(made.study, made.store).notes
    assert any(note.startswith("late rests on the held-out part") for note in notes)
    assert not any(note.startswith("helps rests") for note in notes)


def test_a_condition_never_looks_at_the_held_out_part(bench):
    made = contingent(bench, "gain(twice, part=held_out) >= 0.05").run("twice", level=2.9)
    assert contingent_arms(made.study, made.store)["extra"].state == "undecided"
    assert judge(made.study, made.store).contingent[0].state == "undecided"


# --- case 19


def test_40_documents_that_share_an_effect_are_covered(bench, targets_of):
    """No true difference, 500 targets a document: about 95 of 100 intervals hold 0; taking tokens for units, 74."""
    number = 100
    arms = {"plain": {"seeds": (1,)}, **{f"arm{place}": {"seeds": (1,)} for place in range(number)}}
    predictions = tuple(Prediction(name=f"p{place}", supported=f"gain(arm{place}) > 0", killed="otherwise") for place in range(number))
    targets = targets_of(np.repeat(np.arange(40), 500))
    made, random = bench(arms, targets, predictions=predictions), np.random.default_rng(19)
    made.run("plain", level=3.0, spread=0.0, tokens=(2048,))
    base = made.losses["plain", 1, "validation", 2048]
    for place in range(number):
        folder = made.folder(f"arm{place}", 1)
        folder.write_record({"arm": f"arm{place}", "seed": 1}, {"data_fingerprint": "d" * 64}, {})
        noise = np.repeat(random.normal(0, 0.1, 40), 500) + random.normal(0, 0.5, 20_000)
        folder.write_losses("validation", 2048, (base + noise).astype(np.float32), targets)
        folder.set_status("done")
    clauses = [verdict.conditions[0].clauses[0] for verdict in judge(made.study, made.store).verdicts]
    held = sum(low <= 0 <= high for low, high in (clause.interval_documents for clause in clauses))
    assert 90 <= held <= 99
    assert not any(clause.clear for clause in clauses) and all("one seed" in clause.reason for clause in clauses)


def test_one_document_is_never_clear(bench, targets_of):
    made = bench(ARMS, targets_of(np.zeros(500, int)), predictions=(Prediction(**HELPS),))
    made.run("plain", level=3.0).run("twice", level=2.9)
    (verdict,) = judge(made.study, made.store).verdicts
    assert verdict.kind == "SUPPORTED" and verdict.strength == "within noise" and "one document" in verdict.reason and verdict.p is None


