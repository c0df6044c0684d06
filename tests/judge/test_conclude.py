"""From conditions to verdicts: precedence, names, strength, outcomes of others, guesses, the family."""

from __future__ import annotations

import pytest

from ostinato.judge.conclude import Conclusions, quantities
from ostinato.judge.holm import holm

NO = "not run"


def one(prediction, measured):
    return Conclusions([prediction], measured).verdicts()[prediction.name]


@pytest.mark.parametrize("a, b, kind", [
    (0.03, 0.01, "SUPPORTED"), (0.03, 0.10, "KILLED"), (0.01, 0.10, "KILLED"), (0.01, 0.01, "BETWEEN"),
    (0.03, NO, "NOT ESTIMABLE"), (0.01, NO, "NOT ESTIMABLE"), (NO, 0.01, "NOT ESTIMABLE"), (NO, 0.10, "KILLED"), (NO, NO, "NOT ESTIMABLE"),
])  # fmt: skip
def test_precedence(prediction, numbers, a, b, kind):
    found = one(prediction("gain(a) >= 0.02", "gain(b) > 0.05"), numbers(a=a, b=b))
    assert found.kind == kind and found.outcome == kind
    assert found.strength == ("" if kind == "NOT ESTIMABLE" else "clear") and (NO in found.reason) == (kind == "NOT ESTIMABLE")
    assert [judged.kind for judged in found.conditions][:2] == ["SUPPORTED", "KILLED"]


def test_strength_takes_every_condition_that_decided(prediction, numbers, sure):
    case = prediction("gain(a) >= 0.02", "gain(b) > 0.05")
    unsure = one(case, numbers(a=sure(0.03, 0.02), b=0.01))
    assert unsure.kind == "SUPPORTED" and unsure.strength == "within noise" and "holds 0" in unsure.reason
    other = one(case, numbers(a=0.03, b=sure(0.049, 0.02)))
    assert other.kind == "SUPPORTED" and other.strength == "within noise" and other.p > 0.05
    killed = one(case, numbers(a=sure(0.03, 0.02), b=0.1))  # whether it is supported too decides nothing
    assert killed.kind == "KILLED" and killed.strength == "clear"
    between = one(case, numbers(a=sure(0.0199, 0.01), b=0.01))
    assert between.kind == "BETWEEN" and between.strength == "within noise"


def test_own_names(prediction, numbers):
    case = prediction({"BIG": "gain(a) > 0.05", "SMALL": "gain(a) > 0.02"}, {"NONE": "gain(a) < 0.005", "WORSE": "gain(a) < 0"},
                      {"ALMOST": "gain(a) > 0.01", "HARDLY": "otherwise"})  # fmt: skip
    outcomes = {value: one(case, numbers(a=value)) for value in (0.06, 0.03, 0.015, 0.007, 0.001, -0.1)}
    assert [found.outcome for found in outcomes.values()] == ["BIG", "SMALL", "ALMOST", "HARDLY", "NONE", "NONE"]
    assert [found.kind for found in outcomes.values()] == ["SUPPORTED"] * 2 + ["BETWEEN"] * 2 + ["KILLED"] * 2
    assert all(found.strength == "clear" for found in outcomes.values())
    assert [(judged.name, judged.holds) for judged in outcomes[0.007].conditions][-2:] == [("ALMOST", False), ("HARDLY", True)]


def test_the_name_between_may_be_unsure(prediction, numbers, sure):
    case = prediction("gain(a) > 0.05", "gain(a) < 0", {"ALMOST": "gain(b) > 0.01", "HARDLY": "otherwise"})
    found = one(case, numbers(a=0.02, b=NO))
    assert found.kind == "BETWEEN" and found.outcome == "BETWEEN" and found.strength == "within noise" and NO in found.reason
    assert one(case, numbers(a=0.02, b=sure(0.011, 0.01))).strength == "within noise"


def test_killed_otherwise(prediction, numbers, sure):
    case = prediction("gain(a) >= 0.02", {"FAIL": "otherwise"})
    assert [one(case, numbers(a=value)).outcome for value in (0.03, 0.01, NO)] == ["SUPPORTED", "FAIL", "NOT ESTIMABLE"]
    assert one(case, numbers(a=sure(0.019, 0.01))).strength == "within noise"
    assert one(case, numbers(a=0.01)).conditions[1].text == "otherwise" and not one(case, numbers(a=0.01)).conditions[1].clauses


def test_without_a_kill_rule(prediction, numbers):
    assert [one(prediction("gain(a) >= 0.02"), numbers(a=value)).kind for value in (0.03, 0.01)] == ["SUPPORTED", "BETWEEN"]


def test_outcomes_of_others(prediction, numbers, sure):
    first = prediction("gain(a) >= 0.02", {"KILL": "gain(a) < 0"}, name="E1")
    second = prediction("outcome(E1) is KILL and gain(b) > 0", "outcome(E1) is SUPPORTED", name="E2")

    def verdicts(a):
        return Conclusions([second, first], numbers(a=a, b=0.01)).verdicts()

    assert verdicts(-0.01)["E2"].kind == "SUPPORTED" and verdicts(0.03)["E2"].kind == "KILLED" and verdicts(0.01)["E2"].kind == "BETWEEN"
    unknown = verdicts(NO)["E2"]
    assert unknown.kind == "NOT ESTIMABLE" and "E1 is not estimable" in unknown.reason
    assert verdicts(sure(0.03, 0.02))["E2"].strength == "within noise" and list(verdicts(0.01)) == ["E2", "E1"]
    waits = prediction("outcome(E1) is NOT ESTIMABLE", name="E3")
    found = Conclusions([first, waits], numbers(a=NO)).verdicts()["E3"]
    assert (found.kind, found.strength, found.p) == ("SUPPORTED", "within noise", None)
    assert found.reason == "E1 is NOT ESTIMABLE, on nothing measured"


def test_outcomes_that_are_no_ones(prediction, numbers):
    circle = [prediction("outcome(B) is SUPPORTED", name="A"), prediction("outcome(A) is SUPPORTED", name="B")]
    for found in (Conclusions(circle, numbers()).verdicts()["A"], one(prediction("outcome(gone) is KILLED"), numbers())):
        assert found.kind == "NOT ESTIMABLE"


def test_guesses_and_quantities_stand_beside_what_was_measured(prediction, numbers, sure):
    measured = numbers(a=sure(0.03), b=NO)
    known, unknown = one(prediction("gain(a) > 0", guess={"gain(a)": 0.05, "gain(b)": 0.1}), measured).guesses
    assert (known.guessed, known.measured, known.unit) == (0.05, 0.03, "nats/token") and known.interval[0] < 0.03 < known.interval[1]
    assert unknown.measured is None and unknown.reason == NO
    share, missing = quantities({"twice": "2 * gain(a)", "share": "gain(b) / gain(a)"}, measured)
    assert share.value == 0.06 and share.interval[0] < 0.06 < share.interval[1] and share.interval_seeds[0] < 0.06 < share.interval_seeds[1]
    assert missing.value is None and missing.reason == NO


def test_p_values_are_adjusted_over_the_family(prediction, numbers, sure):
    spreads = {"a": 0.004, "b": 0.002, "c": 0.001}
    family = [prediction(f"gain({arm}) > 0", "gain(d) > 1", name=arm) for arm in spreads] + [prediction("gain(e) > 0", name="e")]
    measured = numbers(**{arm: sure(0.02, spread) for arm, spread in spreads.items()}, d=0.0, e=NO)
    found = Conclusions(family, measured).verdicts()
    assert [found[arm].holm for arm in spreads] == holm(found[arm].p for arm in spreads) and found["e"].holm is None
    assert found["a"].p > found["b"].p > found["c"].p
