"""The shipped replays: a paper's own outcomes and derived figures from its tables, and a review's findings from another's."""

from __future__ import annotations

import json
import re
from itertools import zip_longest
from pathlib import Path

import pytest

from ostinato.cli.main import app
from ostinato.errors import StudyError
from ostinato.judge.published import printed, read_table
from ostinato.judge.replay import judge_replay, measurements_of
from ostinato.judge.verdicts import CLEAR, NOT_RUN, WITHIN_NOISE
from ostinato.report.judgement import JudgementSheet
from ostinato.study.load import load_study
from ostinato.study.replays import is_replay, load_replay, shipped_replays

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "replays.json").read_text(encoding="utf-8"))
SHARED = Path(__file__).parents[2].parent / "shared" / "golden"
NAMES = ("loop2", "ilr")


@pytest.fixture(scope="module")
def judgements():
    return {name: judge_replay(load_replay(f"replays/{name}")) for name in NAMES}


def within_one_unit(value: float, text: str) -> bool:
    """Of the last printed digit: printed ratios come from numbers that were not rounded."""
    golden = printed(text)
    return abs(value - golden.value) <= 2 * golden.half * (1 + 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_every_outcome_of_the_source_comes_out(judgements, name):
    found = {one.name: [one.kind, one.outcome] for one in judgements[name].verdicts}
    wanted = GOLDEN[name]["outcomes"]
    assert {key: found[key] for key in wanted} == wanted
    assert all(one.exploratory and one.registered is None for one in judgements[name].verdicts)
    assert judgements[name].exit_status == 10  # something is killed, and nothing is missing


def test_every_derived_figure_of_the_paper_is_within_one_unit_of_its_last_digit(judgements):
    found = {one.name: one.value for one in judgements["loop2"].quantities}
    wanted = GOLDEN["loop2"]["quantities"]
    assert set(found) == set(wanted)
    assert {name: found[name] for name, text in wanted.items() if not within_one_unit(found[name], text)} == {}


def test_the_numbers_that_decided_are_those_of_the_paper(judgements):
    """Of a band, the left side is the gain less the middle of the band."""
    middles = {"seed-45-total": 0.01428, "seed-45-new": 0.0431, "seed-45-matches": 0.0248}
    verdicts = {one.name: one for one in judgements["loop2"].verdicts}
    for name, text in GOLDEN["loop2"]["decided_by"].items():
        clause = next(clause for judged in verdicts[name].conditions if judged.kind == verdicts[name].kind or name in middles
                      for clause in judged.clauses)  # fmt: skip
        assert within_one_unit(clause.left + middles.get(name, 0.0), text), name
    assert [(guess.guessed, round(guess.measured, 5)) for guess in verdicts["E3"].guesses] == [(0.007, 0.00146), (0.006, 0.00058)]


def test_a_contingent_arm_is_recorded_as_not_run_with_the_number(judgements):
    contingent = judgements["loop2"].contingent
    assert [(one.arm, one.state) for one in contingent] == [("in-place control", NOT_RUN), ("block-identity control", NOT_RUN)]
    assert all("-0.00114 against 0.003" in one.reason for one in contingent)


def test_the_inconsistent_reference_is_noted_and_nothing_else_is(judgements):
    """Once by the ratio of nats to bits of the other rows, and once by the gains in nats that are printed over it."""
    told, needed = GOLDEN["loop2"]["reference_nats"].values()
    ratio, gains, *others = judgements["loop2"].notes
    assert ratio.startswith(f"base: {told} nats") and "17 of 18 rows" in ratio and ratio.endswith(f"need {needed} nats")
    assert gains.startswith(f"loss of base is printed as {told}") and f"need {needed}, from the losses of l12, l16, w10, loop2" in gains
    assert not any("do not fit" in note or "is printed as" in note for note in (*others, *judgements["ilr"].notes))


def test_partial_passes_are_not_told_apart_and_the_loop_is_told_from_untied_depth(judgements):
    """The paper: about zero, not a ranking among partial arms. One pair of seeds is one degree of freedom, and says so."""
    notes = judgements["loop2"].notes
    (partial,) = [note for note in notes if "partial passes" in note]
    (equal,) = [note for note in notes if "equal FLOPs" in note]
    assert "; distinguishable" not in partial and "rr_suffix against loop2_attn" in partial
    assert "distinguishable: tieattn16 against loop2" in equal and "not distinguishable: l16 against tieattn16" in equal
    assert any("one degree of freedom" in note for note in notes)
    verdicts = {one.name: one for one in judgements["loop2"].verdicts}
    assert {one.strength for one in verdicts.values()} == {WITHIN_NOISE}
    assert "no noise of seeds is stated for loss(class=bigram-repeat)" in verdicts["E3"].reason


def test_the_findings_of_the_review_on_ranking(judgements):
    judgement = judgements["ilr"]
    verdicts = {one.name: one for one in judgement.verdicts}
    assert all(one.strength != CLEAR and "one seed" in one.reason for one in verdicts.values())
    for positions, first in (("no positions", "nope_3221 against nope_4211"), ("ALiBi", "alibi_4211 against alibi_3221")):
        (ranking,) = [note for note in judgement.notes if f"equal FLOPs, {positions}," in note]
        assert "Neighbours not distinguishable" in ranking and first in ranking and "one seed" in ranking
    (confounded,) = [note for note in judgement.notes if note.startswith("confounded")]
    assert "x = h + e" in confounded and re.findall(r"block-\w+", confounded) == GOLDEN["ilr"]["confounded"]
    assert "chosen after the small results" in verdicts["large"].after_results[0]
    assert any(note.startswith("one seed of 52 of 52 arms") for note in judgement.notes)


@pytest.mark.parametrize("name", NAMES)
def test_a_judged_replay_is_shown_and_recorded(judgements, name):
    sheet = JudgementSheet(judgements[name], f"replays/{name}")
    text = " ".join(repr(sheet).split())
    assert "A replay" in text and "ranscribed after the fact" in text and "ostinato register" not in text
    record = json.loads(json.dumps(sheet.record()))
    assert record["exit_status"] == 10 and record["transcribed"].startswith("Transcribed after the fact")


def test_the_command_line_judges_a_replay_and_no_other_verb_takes_it():
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, ["judge", "replays/ilr", "--json"])
    assert done.exit_code == 10 and json.loads(done.stdout)["study_name"] == "ilr"
    with pytest.raises(StudyError, match="ostinato judge replays/loop2"):
        load_study("replays/loop2")


# --- the files


def test_what_is_a_replay(tmp_path):
    assert is_replay("replays/loop2") and is_replay("replays/nothing") and not is_replay("loop2") and not is_replay(tmp_path)
    (tmp_path / "study.yaml").write_text("arms: {a: {}}\n")
    (tmp_path / "replay.yaml").write_text("table: t.csv\n")
    assert not is_replay(tmp_path / "study.yaml") and is_replay(tmp_path / "replay.yaml") and not is_replay(tmp_path / "none.yaml")
    assert set(shipped_replays()) == set(NAMES) and all(question.endswith("?") for question in shipped_replays().values())


HEAD = "source: a paper\nnote: transcribed after the fact\ntable: t.csv\nreference: base\n"


@pytest.fixture
def replay(tmp_path):
    """replay(more) -> the replay of a small table with these keys as well."""

    def make(more: str, head: str = HEAD):
        (tmp_path / "t.csv").write_text("arm,loss\nbase,2.0\na,1.9\n")
        (tmp_path / "r.yaml").write_text(head + more)
        return load_replay(tmp_path / "r.yaml")

    return make


@pytest.mark.parametrize(("more", "told"), [
    ("predictons: []\n", ["line 5", "predictons", "predictions"]),
    ("noise: {sed: {loss: 0.1}}\n", ["sed", "seed"]),
    ("noise: {seed: {loss: x}}\n", ["'x'"]),
    ("noise: {deviation: {loss: 1}, seeds: 1}\n", ["seeds", "2"]),
    ("predictions: [{name: p, supported: gian(a) > 0, killed: otherwise}]\n", ["line 5", "predictions.p.supported", "gain"]),
    ("predictions: [{supported: {A: gain(a) > 0, B: gain(a}, killed: otherwise}]\n", ["line 5", "predictions.p1.supported.B"]),
    ("predictions: [{name: p, supported: gain(a) > 0}]\n", ["predictions.p", "killed"]),
    ("quantities:\n  share: gain(a) /\n", ["line 6", "quantities.share"]),
    ("contingent: {c: gain(a)}\n", ["line 5", "contingent.c"]),
    ("predictions: [{name: p, supported: gain(a) > 0, killed: otherwise, guess: {gain: 1}}]\n", ["predictions.p.guess"]),
    ("predictions: [{name: p, supported: gain(a) > 0, killed: otherwise}]\nafter_results: {q: known}\n", ["'q'", "p"]),
])  # fmt: skip
def test_a_mistake_in_a_replay_is_told_with_its_place(replay, more, told):
    with pytest.raises(StudyError) as error:
        replay(more)
    assert all(part in str(error.value) for part in told), str(error.value)


def test_names_that_the_table_does_not_have(replay):
    with pytest.raises(StudyError, match="confounded: the table has no arm 'aa'"):
        measurements_of(replay("confounded: {aa: another optimizer}\n"))
    with pytest.raises(StudyError, match="rankings, all: the table has no arm 'c'"):
        measurements_of(replay("rankings: {all: {arms: [a, c]}}\n"))
    with pytest.raises(StudyError, match="noise 'los'"):
        measurements_of(replay("noise: {seed: {los: 0.1}}\n"))
    with pytest.raises(StudyError, match="reference: the table has no arm 'bsae'"):
        measurements_of(replay("", HEAD.replace("base", "bsae")))
    with pytest.raises(StudyError, match="note"):
        replay("", HEAD.replace("note", "about"))
    with pytest.raises(StudyError, match="there is no replay"):
        load_replay("replays/loop3")


def test_an_arm_that_the_table_lacks_makes_its_prediction_not_estimable(replay):
    predictions = "predictions: [{name: p, supported: gain(b) > 0, killed: gain(b) <= 0}]\n"
    judgement = judge_replay(replay(predictions + "contingent: {c: gain(b) > 0, a: gain(a) > 1}\n"))
    (verdict,) = judgement.verdicts
    assert verdict.kind == "NOT ESTIMABLE" and "no arm 'b'" in verdict.reason and judgement.exit_status == 20
    assert [one.state for one in judgement.contingent] == ["undecided", "ran"]


# --- against the published numbers beside the repository


def published(name: str) -> dict:
    path = SHARED / f"{name}.json"
    if not path.exists():
        pytest.skip(f"needs ../shared/golden/{name}.json")
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_transcribed_table_of_loop2_is_the_published_one():
    golden = published("loop2")
    lines = read_table(Path(load_replay("replays/loop2").table)).arms
    columns = {"loss(unit=bits)": "val_bpb", "loss": "val_nats", "params": "params_published",
               "flops_per_token": "flops_per_token_published", "gain(unit=bits)": "delta_val_bpb",
               "gain(over=base8, unit=bits)": "delta_val_vs_base8", "seconds": "train_seconds",
               "gain(over=base8, part=held_out, unit=bits)": "delta_heldout_vs_base8"}  # fmt: skip
    for row in golden["arms"]:
        (line,) = lines[row["arm"]]
        cells = {str(kind): number for kind, number in line.cells.items()}
        for column, key in columns.items():
            if column not in cells:
                assert row["arm"] == "base8" and row[key] == 0  # over itself
                continue
            wanted = row[key] if isinstance(row[key], float) else printed(row[key]).value
            assert cells[column].value == pytest.approx(-wanted if column.startswith("gain") else wanted, abs=1e-12), (row["arm"], column)
        assert line.seed == row["seed"] and cells["peak_bytes"].value == pytest.approx(row["peak_gib"] * 2**30)
    classes = {"R=new": "new", "R=tok-repeat": "tok-repeat", "R=bigram-repeat": "bigram-repeat", "match k=1": "k = 1",
               "match k ≥ 2": "k >= 2"}  # fmt: skip
    for name, row in golden["token_classes"].items():
        column = f"gain(class={classes[name]})" if name in classes else "gain"
        for arm in ("loop2", "l16", "l12", "w10", "ng2_in"):
            cells = {str(kind): number.value for kind, number in lines[arm][0].cells.items()}
            assert cells[column] == pytest.approx(-row[arm]["gain_nats"]), (arm, column)
    for row in golden["partial_passes"]:
        cells = {str(kind): number.value for kind, number in lines[row["arm"]][0].cells.items()}
        keys = {"new": "r_new_nats", "tok-repeat": "tok_repeat_nats", "bigram-repeat": "bigram_repeat_nats", "k >= 2": "k_ge_2_nats"}
        assert all(cells[f"gain(class={name})"] == pytest.approx(-row[key]) for name, key in keys.items())
    for row in golden["logit_lens"]:
        for key, said in (("all", ""), ("k_ge_8", ", class=k >= 8")):
            found = [number.value for kind, number in lines[row["arm"]][0].cells.items()
                     if re.fullmatch(rf"lens\(application=\d+{said}\)", str(kind))]  # fmt: skip
            assert set(row[key]) <= set(found) and len(found) <= len(row[key]) + (row["arm"] == "loop2" and said != "")


def test_the_transcribed_table_of_ilr_is_the_published_one():
    golden = published("ilr")
    lines = read_table(Path(load_replay("replays/ilr").table)).arms
    wanted = {}
    for row in golden["small_ppl"]:
        name = "block2" if row["map"] == "block-r2" else "".join(map(str, row["map"]))
        wanted |= {f"{positions}_{name}": value for positions, value in row["ppl"].items()}
    for row, name in zip_longest(golden["large"]["ppl"].values(), ("baseline", "12111111")):
        wanted |= {f"large_{positions}_{name}": value for positions, value in row.items()}
    found = {arm: next(number.value for kind, number in line.cells.items() if kind.name == "ppl") for arm, (line,) in lines.items()}
    assert found == wanted
