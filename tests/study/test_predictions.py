"""Predictions, quantities and conditions of arms: how they are written, what they name, sizes, and what is said when something is wrong."""

from __future__ import annotations

import pytest

from ostinato.errors import StudyError
from ostinato.study import load_study
from ostinato.study.records import Prediction, Study

BASE = """\
model: {layers: 4, d_model: 64, heads: 4}
arms:
  plain: {}
  twice: {schedule: 1..4 1..4}
  deep: {layers: 8}
  free: {schedule: "1 (2..4)x{r}", passes: 2}
"""


@pytest.fixture
def study(tmp_path):
    """study(text) loads BASE + text, as it is or in a size."""

    def load(text: str, size: str | None = None) -> Study:
        (tmp_path / "mine.yaml").write_text(BASE + text, encoding="utf-8")
        return load_study(tmp_path / "mine.yaml", size)

    return load


def one(supported="gain(twice) > 0.01", killed="gain(twice) <= 0", more=""):
    return f"predictions:\n  - supported: {supported}\n    killed: {killed}\n    {more}\n"


def test_every_way_of_writing_a_prediction(study):
    loaded = study("""
predictions:
  - name: E3
    claim: the second pass pays
    supported: gain(twice, class=k>=2) / gain(deep, class=k>=2) >= 0.6
    killed: {KILL: gain(twice) < 0, WORSE: "gain(twice) < gain(deep)"}
    between: PARTIAL
    guess: {"gain(twice, unit=bits)": 7e-3}
  - {supported: gain(twice) > 0, killed: otherwise}
  - supported: {ADD: outcome(E3) is kill and not outcome(p2) is KILLED}
    killed: gain(deep) < 0
    between: {SOME: gain(deep) > 0.5, NONE: otherwise}
  - {supported: "won(twice) > 0.5", killed: "won(twice, over=deep) < 0.5", between: otherwise}
quantities: {share of depth: gain(twice) / gain(deep)}
""")
    first, second, third, fourth = loaded.predictions
    assert first == Prediction(
        name="E3", claim="the second pass pays", supported={"SUPPORTED": "gain(twice, class=k>=2) / gain(deep, class=k>=2) >= 0.6"},
        killed={"KILL": "gain(twice) < 0", "WORSE": "gain(twice) < gain(deep)"}, between={"PARTIAL": "otherwise"},
        guess={"gain(twice, unit=bits)": 0.007})  # fmt: skip
    assert (second.name, second.killed, second.between) == ("p2", {"KILLED": "otherwise"}, {"BETWEEN": "otherwise"})
    assert (third.name, list(third.supported), third.between) == ("p3", ["ADD"], {"SOME": "gain(deep) > 0.5", "NONE": "otherwise"})
    assert fourth.between == {"BETWEEN": "otherwise"}
    assert loaded.quantities == {"share of depth": "gain(twice) / gain(deep)"} and not loaded.warnings
    assert Study.model_validate(loaded.model_dump(mode="json")) == loaded


def test_a_record_made_in_python_is_normalised_too():
    made = Prediction(supported="gain(a) > 0", killed="otherwise", between="SO SO")
    assert (made.supported, made.killed, made.between) == ({"SUPPORTED": "gain(a) > 0"}, {"KILLED": "otherwise"}, {"SO SO": "otherwise"})


def test_an_arm_may_wait_for_a_result(study):
    loaded = study("  later: {layers: 6, run_if: gain(twice) > 0.01 and outcome(p1) is not KILLED}\n" + one())
    assert loaded.arms[-1].run_if == "gain(twice) > 0.01 and outcome(p1) is not KILLED" and loaded.arms[0].run_if is None


@pytest.mark.parametrize(("text", "parts"), [
    (one("gain(twise) > 0"), ("line 8, predictions.p1.supported", "'gain(twise) > 0', column 6: no arm 'twise'", "try:  twice")),
    (one("gain(twice, over=depe) > 0", more="").replace("supported: gain(twice, over=depe) > 0", 'supported: "gain(twice, over=depe) > 0"'),
     ("column 18: no arm 'depe'", "try:  deep")),
    (one("gain(plain) > 0"), ("column 6: plain is compared with no other arm", "gain(plain, over=ARM)")),
    (one("gain(twice, seed=3) > 0"), ("column 18: twice has no seed 3", "its seeds are 1")),
    (one("loss(twice, tokens=100k) < 3"), ("column 20: twice is not measured at 100,000 tokens", "tokens=499712")),
    (one("loss(twice, tokens=500k, part=held_out) < 3") + "evaluate: {every: 300k, held_out: end}\n" +
     "quantities: {x: 'loss(twice, tokens=300k, part=held_out)'}\n", ("quantities.x", "is not measured at 300,000 tokens on held_out")),
    (one("lens(twice, application=8) < 3"), ("column 25: twice has no application 8", "counted from 0", "application=7")),
    (one("depth(twice, passes=2) < depth(deep, passes=1)"), ("column 32: deep runs one number of passes only", "x{r}")),
    (one("depth(free, passes=5) < 3"), ("column 20: 5 passes of free", "1 to 4", "passes=4")),
    (one("outcome(p2) is KILLED"), ("column 9: no prediction 'p2'", "predictions here are p1")),
    (one("gain(twice) > 0") + "  - {supported: outcome(p1) is KIL, killed: otherwise}\n", ("column 16: p1 has no outcome 'KIL'", "KILLED")),
    (one("outcome(p1) is KILLED"), ("predictions.p1: it asks for its own outcome",)),
    ("predictions:\n  - {name: A, supported: outcome(B) is KILLED, killed: otherwise}\n"
     "  - {name: B, supported: gain(twice) > 0, killed: outcome(A) is KILLED}\n", ("it asks for itself: ", "A asks for B", "by numbers")),
    (one("gian(twice) > 0"), ("line 8", "no measure 'gian'", "did you mean gain?")),
    (one("gain(twice)"), ("a number where a condition belongs",)),
    (one(more="guess: {gain(twice) > 0: 1}"), ("line 10, predictions.p1.guess", "a condition where an expression belongs")),
    (one(more="guess: {gain(twice): much}"), ("line 10", "'much' is not a number")),
    (one(more="between: gain(twice) > 1"), ("'gain(twice) > 1' as the name of an outcome", 'between: {PARTIAL: "gain(twice) > 1"}')),
    (one(killed="{NONE: gain(deep) < 0, none: gain(twice) < 0}"), ("'none' is named twice, in killed and killed",)),
    (one(killed="{SUPPORTED: gain(deep) < 0}"), ("SUPPORTED as a name of what is killed", "use an own word")),
    (one(killed="{KILL: null}"), ("the outcome 'KILL' has no condition",)),
    (one(killed="{A: otherwise, B: gain(twice) < 0}"), ("an outcome after otherwise", "stands last")),
    (one(killed="otherwise", more="between: PARTIAL"), ("nothing is left in between",)),
    (one("otherwise"), ("otherwise than what?",)),
    ("predictions:\n  - {claim: x, supported: gain(twice) > 0}\n", ("predictions.p1", "does not say what it is killed by", "killed:")),
    ("predictions:\n  - {claim: x, killed: gain(twice) > 0}\n", ("does not say what it is supported by",)),
    ("predictions:\n  - {name: a b, supported: gain(twice) > 0, killed: otherwise}\n", ("the name 'a b'", "letters, digits")),
    ("predictions:\n  - &a {name: a, supported: gain(twice) > 0, killed: otherwise}\n  - *a\n", ("the name 'a' is given twice",)),
    ("predictions: {claim: x}\n", ("predictions: a section is not a list", "begins with a dash")),
    ("predictions: [x]\n", ("predictions.1: 'x' is no prediction",)),
    ("predictions:\n  - {suported: gain(twice) > 0, killed: otherwise}\n", ("no key 'suported' here", "try:  supported")),
    ("predictions:\n  - {supported: gain(twice, class=new)>0, killed: otherwise}\n", ("a comma begins the next key", "put \"…\"")),
    ("predictions:\n  - {supported: [gain(twice) > 0], killed: otherwise}\n", ("a list stands where one text belongs",)),
    ("quantities: {x: gain(twise)}\n", ("quantities.x", "no arm 'twise'")),
    ("quantities: {x: gain(twice) > 1}\n", ("a condition where an expression belongs",)),
    ("  later: {layers: 6, run_if: gain(twise) > 0}\n", ("line 7, arms.later.run_if", "column 6: no arm 'twise'")),
    ("  later: {layers: 6, run_if: gain(later) > 0}\n", ("later runs only if it has run", "name another arm")),
    ("  later: {layers: 6, run_if: gain(twice) > 0}\nreference: later\n", ("later runs only if it has run", "compared with")),
    ("  later: {layers: 6, run_if: outcome(p1) is KILLED}\n" + one("gain(later) > 0"), ("later runs only if it has run",)),
    ("  a: {layers: 6, run_if: loss(b) < 3}\n  b: {layers: 7, run_if: loss(a) < 3}\n", ("arms wait for each other: ", "a for b")),
    ("  later: {layers: 6, run_if: 'loss(twice, part=held_out) < 3'}\n", ("column 18: the held-out part", "before the study is judged")),
    ("  later: {layers: 6, run_if: outcome(p2) is KILLED}\n" + one("'loss(twice, part=held_out) < 3'") +
     "  - {supported: outcome(p1) is SUPPORTED, killed: otherwise}\n",
     ("line 7, arms.later.run_if", "the held-out part, which p2 is judged on")),
    (one("5 > 3"), ("line 8", "a condition on nothing that is measured", "names a measure or an outcome", "gain(ARM)")),
    (one("gain(twice) > 0", "gain( twice ) > 0"), ("line 9, predictions.p1.killed", "'gain(twice) > 0' is what it is supported by")),
    ("predictions:\n  - {name: a, supported: gain(twice) > 0, killed: otherwise}\n"
     "  - {name: A, supported: gain(deep) > 0, killed: otherwise}\n",
     ("line 9", "the name 'A' beside 'a', in line 8", "rename one")),
    ("  later: {layers: 6, run_if: gain(twice) > 0, contingent: later}\n", ("both run_if and contingent", "keep one of them")),
])  # fmt: skip
def test_what_is_wrong_is_said_with_its_line_and_column(study, text, parts):
    with pytest.raises(StudyError) as caught:
        study(text)
    for part in parts:
        assert part in str(caught.value)


def test_every_problem_is_told_at_once(study):
    with pytest.raises(StudyError, match="has 3 problems"):
        study(one("gain(twise) > 0", "gain(deap) < 0") + "quantities: {x: gian(twice)}\n")


def test_a_long_chain_of_outcomes_is_refused_and_a_short_one_is_not(study):
    def chain(length):
        later = "".join(f"  - {{supported: outcome(p{place}) is SUPPORTED, killed: otherwise}}\n" for place in range(1, length + 1))
        return one() + later

    assert len(study(chain(16)).predictions) == 17
    with pytest.raises(StudyError, match=r"predictions\.p18: it builds on 17 others"):
        study(chain(200))


SIZES = """
sizes:
  full: {}
  small: {arms: {deep: null}}
  own: {arms: {deep: null}, predictions: [{supported: gain(twice) > 0, killed: otherwise}], quantities: {share: null}}
  none: {arms: {deep: null}, predictions: null, quantities: {share: gain(free)}}
"""


def test_a_size_lays_its_own_predictions_over(study):
    text = one("gain(deep) > gain(twice)") + "quantities: {share: gain(deep)}\n" + SIZES
    assert [list(prediction.supported.values()) for prediction in study(text).predictions] == [["gain(deep) > gain(twice)"]]
    own = study(text, "own")
    assert [list(prediction.supported.values()) for prediction in own.predictions] == [["gain(twice) > 0"]] and not own.quantities
    none = study(text, "none")
    assert not none.predictions and none.quantities == {"share": "gain(free)"}
    with pytest.raises(StudyError) as caught:
        study(text, "small")
    assert "the size small leaves out the arm 'deep'" in str(caught.value)
    assert "give sizes.small its own predictions and quantities" in str(caught.value)


@pytest.mark.parametrize(("more", "text", "warned"), [
    ("measure: {take: none}\n", "lens(twice, application=0) < 3", "measure.take leaves out lens"),
    ("measure: {take: [lens]}\n", "depth(free, passes=1) < 3", "measure.take leaves out depths"),
    ("", "pairs(twice) > 0.5", "the study names no minimal pairs"),
    ("", "crossing(twice) < first_pass_ends(twice)", "measured at their end alone"),
    ("evaluate: {every: 100k}\n", "crossing(twice) < first_pass_ends(twice)", ""),
    ("measure: {take: none}\n", "loss(twice) < 3", ""),
])  # fmt: skip
def test_a_measure_that_is_not_taken_is_warned_of(study, more, text, warned):
    warnings = study(one(f'"{text}"') + more).warnings
    assert (warned in "\n".join(warnings)) if warned else not warnings
