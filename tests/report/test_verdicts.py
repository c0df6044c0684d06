"""What leads the page: a line a prediction, sealed ones first, nothing dropped, nothing of the held-out part before it is judged."""

from __future__ import annotations

import re
import shutil
from html import unescape

import pytest

from ostinato.analysis import results_table
from ostinato.judge.judge import judge, standing
from ostinato.judge.register import register
from ostinato.judge.verdicts import Clause
from ostinato.report.margin_figures import margins
from ostinato.report.page import environment, marked
from ostinato.report.sentences import answer
from ostinato.report.verdicts import study_block
from ostinato.report.write import page
from ostinato.store import RunFolder, Store

STUDY = """\
question: Is running a stack twice worth as much as twice the layers?
data: {corpus: python-docs, tokenizer: {bpe: 512}, packing: contiguous}
model: {family: llama, layers: 2, d_model: 32, heads: 2}
recipe: {tokens: 60k, batch: 1024, context: 128}
arms:
  plain: {}
  twice: {schedule: 1..2 1..2}
  deep: {layers: 4}
  hot: {recipe: {lr: 1e12}}
  thrice: {schedule: 1..2 1..2 1..2, run_if: "gain(twice) >= 0.5"}
reference: plain
seeds: [1, 2, 3]
"""
PREDICTIONS = """\
predictions:
  - {name: E1, claim: the stack twice gains, supported: {PASS: gain(twice) >= 0.02 and gain(deep) >= 0.02}, killed: gain(twice) < 0.005,
     guess: {gain(twice): 0.04}}
  - {name: E2, claim: twice the layers gain no more, supported: gain(deep) <= gain(twice), killed: {KILL: gain(deep) > gain(twice)}}
  - {name: E3, claim: by a good margin, supported: gain(deep) - gain(twice) >= 0.1, killed: gain(deep) - gain(twice) <= 0, between: PARTIAL}
  - {name: E4, claim: a hot optimizer is as good, supported: gain(hot) >= 0, killed: gain(hot) < -0.1}
  - {name: E5, claim: it carries over, supported: "gain(twice, part=held_out) >= -1", killed: "gain(twice, part=held_out) < -2"}
  - {name: E6, claim: E5 holds, supported: outcome(E5) is SUPPORTED, killed: outcome(E5) is KILLED}
quantities: {share: gain(twice) / gain(deep), of the hot one: gain(hot)}
"""
LOOSE = "  - {name: E7, claim: written afterwards, supported: gain(twice) >= 0.05, killed: otherwise}\n"
STATES = {("hot", seed): "failed" for seed in (1, 2, 3)} | {("thrice", seed): "missing" for seed in (1, 2, 3)}


@pytest.fixture
def sealed(store, make_study, fill_store, tmp_path_factory):
    """Six predictions sealed before the runs, one written after them; the store is made once and copied."""
    made = tmp_path_factory.getbasetemp() / "sealed-verdicts"
    first, study = (make_study(STUDY + PREDICTIONS.replace("quantities", more + "quantities")) for more in ("", LOOSE))
    if not made.exists():
        register(first, Store(made))
        fill_store(Store(made), study, STATES)
    shutil.copytree(made, store.root)
    return study


def block_of(study, store):
    return study_block(study, store, results_table(study, store), "made.yaml")[0]


def html_of(block):
    return environment().get_template("verdicts.html.j2").render(block=block)


def by_name(block):
    return {one.verdict.name: one for one in (*block.sealed, *block.loose)}


def words_of(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_a_line_a_prediction_told_by_shape_word_and_colour(sealed, store):
    block = block_of(sealed, store)
    lines = by_name(block)
    assert list(lines) == ["E1", "E2", "E3", "E4", "E5", "E6", "E7"] and len(block.sealed) == 6
    assert [one.slug for one in lines.values()] == ["supported", "killed", "between", "unknown", "waiting", "waiting", "supported"]
    assert len({lines[name].glyph for name in ("E1", "E2", "E3", "E4", "E5")}) == 5
    assert all(f"<title>{one.kind.lower()}</title>" in one.glyph for one in lines.values())
    html = html_of(block)
    summaries = [words_of(one) for one in re.findall(r"<summary>(.*?)</summary>", html, re.DOTALL)]
    first = summaries[0]
    for said in ("E1 the stack twice gains", "PASS", "supported", lines["E1"].strength, lines["E1"].number, lines["E1"].by):
        assert said in first
    assert "failed" in summaries[3] and "NOT ESTIMABLE" in summaries[3]
    assert {"sure", "unsure"} >= set(re.findall(r'class="strength (\w+)"', html)) and html.count("<li class=") == 7
    assert html.index("Exploratory: not sealed") > html.index('id="v6"') and html.index("Exploratory: not sealed") < html.index('id="v7"')


def test_the_page_leads_with_them_and_its_words_do_not_contradict(sealed, store):
    html = page(sealed, store)
    assert html.index("</h1>") < html.index('class="verdicts"') < html.index('class="answer"') < html.index("What was asked</h2>")
    found = standing(sealed, store, held_out=False)
    unsure = [one.name for one in found.verdicts if one.strength == "within noise" and one.name != "E6"]
    cautions = answer(sealed, results_table(sealed, store), (), found).cautions
    assert unsure and cautions[-1].endswith(f"within noise {'is' if len(unsure) == 1 else 'are'} {' and '.join(unsure)}.")
    assert not any("border" in line for line in answer(sealed, results_table(sealed, store)).cautions)


def test_every_number_is_that_of_the_judgement(sealed, store):
    block, found = block_of(sealed, store), standing(sealed, store, held_out=False)
    for line, verdict in zip((*block.sealed, *block.loose), found.verdicts, strict=True):
        clauses = {clause.text: clause for one in verdict.conditions for clause in one.clauses}
        shown = [float(one) for one in re.findall(r'data-v="([-+0-9.e]+)"', line.clauses)]
        for clause in clauses.values() if line.slug != "waiting" else ():
            ends = [pair[0] for pair in (clause.interval_documents, clause.interval_seeds) if pair]
            assert {clause.left, clause.right, clause.margin, clause.p, *ends} - {None} <= set(shown)
            assert clause.margin is None or f"<title>{clause.text}: margin" in unescape(line.figure)
    assert "0.0400" in by_name(block)["E1"].guesses and by_name(block)["E2"].guesses == ""


def test_it_opens_to_what_was_sealed(sealed, store):
    (one,) = store.study_folder("made").registrations()
    lines, html = by_name(block_of(sealed, store)), words_of(html_of(block_of(sealed, store)))
    assert [(one.kind, one.name, one.said) for one in lines["E3"].conditions][2] == ("BETWEEN", "PARTIAL", "holds, clear")
    said = dict(lines["E1"].sealed)
    assert one.fingerprint[:12] in said["sealed"] and "registration 1" in said["sealed"] and said["after results"].startswith("none")
    assert "exploratory: nothing under this name" in dict(lines["E7"].sealed)["sealed"]
    assert one.fingerprint in html and "before any result" in html and "How verdicts are given" in html


def test_amended_after_results_stands_twice(sealed, store, make_study):
    other = make_study(STUDY + PREDICTIONS.replace("gain(twice) >= 0.02", "gain(twice) >= 0.03"))
    block = block_of(other, store)
    assert [one.verdict.name for one in block.loose] == ["E1"]
    assert "another text under this name is, in registration 1" in dict(block.loose[0].sealed)["sealed"]
    register(other, store)
    block = block_of(other, store)
    said = dict(block.sealed[0].sealed)
    assert not block.loose and "registration 2" in said["sealed"] and "deep, seed 1: validation" in said["after results"]
    assert dict(by_name(block)["E2"].sealed)["after results"].startswith("none"), "amending one makes no other younger"
    assert "E1.supported" in dict(block.registrations)["registration 2"]
    html = html_of(block_of(make_study(STUDY + PREDICTIONS[: PREDICTIONS.index("  - {name: E6")]), store))
    assert "no longer in the study file" in html


def test_the_held_out_part_waits_for_the_judge(sealed, store, monkeypatch):
    read, asked = RunFolder.read_losses, []
    monkeypatch.setattr(RunFolder, "read_losses", lambda self, part, tokens: asked.append(part) or read(self, part, tokens))
    before = block_of(sealed, store)
    assert "held_out" not in asked and "Held-out gains" not in html_of(before)
    for name in ("E5", "E6"):
        line = by_name(before)[name]
        assert line.kind == "NOT JUDGED YET" and "`ostinato judge made.yaml`" in line.why and not line.strength and not line.number
        assert not line.clauses and not line.figure
    assert "2 not judged yet" in before.tally and "1 BETWEEN" in before.tally
    assert "stays unseen until the study is judged" in page(sealed, store) and "held_out" not in asked
    judge(sealed, store)
    after = block_of(sealed, store)
    assert by_name(after)["E5"].kind == by_name(after)["E6"].kind == "SUPPORTED" and "Held-out gains" in html_of(after)
    assert "held_out" in asked and "stays unseen" not in page(sealed, store)
    assert store.study_folder("made").judged(sealed.model_copy(update={"size": "large"})) is None, "another size has other runs"


def test_a_look_before_judging_is_said(sealed, store):
    store.study_folder("made").log("held_out_shown", by="results")
    judge(sealed, store)
    assert any("before the study was judged" in line for line in block_of(sealed, store).cautions)


def test_nothing_is_dropped(sealed, store):
    html = words_of(html_of(block_of(sealed, store)))
    assert "9 done, 3 failed, 3 not asked" in html and "hot 3 failed" in html
    assert "Contingent arm thrice" in html and "not run" in html and "does not hold" in html
    assert "share" in html and "of the hot one: not estimable" in html


def test_before_any_run_it_says_what_to_do(store, make_study):
    study = make_study(STUDY + PREDICTIONS)
    block = block_of(study, store)
    assert {one.kind for one in block.loose} == {"NOT JUDGED YET"} and not block.sealed
    assert all("`ostinato run made.yaml`, then `ostinato judge made.yaml`" in one.why for one in block.loose)
    assert block.tally == "Exploratory: 6 not judged yet" and "`ostinato register made.yaml`" in " ".join(block.facts)


def test_without_predictions_one_quiet_line(filled, study):
    block = block_of(study, filled)
    assert "ostinato register" in block.quiet and not (block.facts or block.cautions or block.tables or block.tally)
    html = html_of(block)
    assert html.count("<p") == 1 and "<section" not in html and "<details" not in html


def test_a_torn_registration_stops_no_page(sealed, store):
    (store.study_folder("made").registrations_path / "0001" / "seal.json").write_text("{", encoding="utf-8")
    html = words_of(page(sealed, store))
    assert "The verdicts cannot be given" in html and "seal.json" in html and "What was asked" in html


def test_an_edited_registration_seals_nothing(sealed, store):
    file = store.study_folder("made").registrations_path / "0001" / "study.json"
    file.write_text(file.read_text(encoding="utf-8").replace("gain(twice) < 0.005", "gain(twice) < 0.006"), encoding="utf-8")
    block = block_of(sealed, store)
    assert not block.sealed and "not as they were sealed" in dict(block.loose[0].sealed)["sealed"]
    assert "nothing counts as sealed" in block.broken[0] and any("study.json" in line for line in block.broken[1:])
    shown = words_of(html_of(block))
    assert shown.index("nothing counts as sealed") < shown.index("Verdicts") and "Judged as sealed" not in shown


def test_hostile_words_are_text(store, make_study, fill_store):
    made = """predictions: [{claim: "<script>alert(1)</script> `x", supported: gain(twice) >= 0, killed: otherwise}]\n"""
    study = make_study(STUDY + made + """quantities: {"<b>": gain(twice)}\n""")
    fill_store(store, study, STATES)
    html = html_of(block_of(study, store))
    assert "<script" not in html and "&lt;script&gt;" in html and "<b></b>" not in html and "&lt;b&gt;" in html


CODE = [("a `b<` c", "a <code>b&lt;</code> c"), ("a `b", "a `b"), ("`x` & `", "<code>x</code> &amp; `"), ("", "")]


@pytest.mark.parametrize(("text", "html"), CODE)
def test_code_in_a_sentence(text, html):
    assert str(marked(text)) == html


def clause(margin, clear=True, documents=None, seeds=None, text="gain(a) >= 0", unit="nats/token", by_seed=None):
    return Clause(text, margin >= 0, clear, margin, 0.0, margin, documents, seeds, unit, 0.01, by_seed or {})


def marks(svg, kind):
    return [float(x) for x in re.findall(rf'class="{kind}" d="M([-0-9.]+) ', svg)]


def test_margins_lie_on_their_side_of_zero():
    svg = margins("m", "t", [clause(0.02, documents=(0.01, 0.03)), clause(-0.01, False, (-0.03, 0.01), (-0.05, 0.03), "gain(b) >= 0",
                                                                           by_seed={1: -0.03, 2: 0.01})])  # fmt: skip
    zero = float(re.search(r'class="zero" x1="([0-9.]+)"', svg)[1])
    (filled,), hollow = marks(svg, "dot f0"), marks(svg, "hollow paper k0")
    assert filled > zero and len(hollow) == 3 and hollow[0] < hollow[2] < zero < hollow[1], "two seeds, then the mark"
    assert "seed 1: −0.0300" in svg and "95% over seeds: −0.0500 to +0.0300" in svg and svg.count("axis-name") == 1


def test_margins_of_two_units_have_an_axis_each_and_a_far_end_is_cut():
    svg = margins("m", "t", [clause(0.02, documents=(0.019, 0.021), seeds=(-9.0, 9.0)), clause(3e6, unit="FLOPs", text="flops(a) >= 1")])
    assert svg.count("axis-name") == 2 and "margin, FLOPs" in svg and "+3.00M" in svg
    shown = [float(one.replace("−", "-")) for one in re.findall(r'class="t num"[^>]*>([-+−0-9.]+)<', svg)]
    assert max(abs(one) for one in shown) < 1, "9 is far outside"
    assert margins("m", "t", [Clause("gain(a) >= 0", None, False, reason="failed")]) == ""
    assert "…" in margins("m", "t", [clause(0.1, text="gain(" + "a" * 90 + ") >= 0.6")])
