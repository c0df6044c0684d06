"""Arms with a reference of their own, arms with another tokenizer, crossings and costs: in the table, on the page, in JSON, in words."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from ostinato.analysis import BITS, NATS, results_table
from ostinato.report import Results, numbers
from ostinato.report.controls import controls
from ostinato.report.says import crossing_words, lines, says
from ostinato.report.sentences import answer
from ostinato.report.write import page
from ostinato.store import Store
from ostinato.study import load_study

from .conftest import coarser, fill, targets_of
from .test_page import Reader, row_of

HYBRID = """\
question: Does a second pass cross its twin?
data: {corpus: python-docs, tokenizer: {bpe: 512}}
model: {layers: 3, d_model: 32, heads: 2}
recipe: {tokens: 40960, batch: 1024, context: 128}
arms:
  two: {layers: 2}
  two-again: {layers: 2, schedule: 1..2 1..2}
  three: {}
  three-again: {schedule: 1..3 1..3, against: three}
  three-four: {schedule: 1..3 1..3 1..3 1..3, against: three-again}
reference: two
seeds: [1, 2]
"""
TOKENIZERS = """\
model: {layers: 2, d_model: 32, heads: 2}
recipe: {tokens: 40960, batch: 1024, context: 128}
data: {tokenizer: {bpe: 512}}
arms:
  plain: {}
  again: {schedule: 1..2 1..2}
  plain-1k: {data: {tokenizer: {bpe: 1024}}}
  again-1k: {data: {tokenizer: {bpe: 1024}}, schedule: 1..2 1..2, against: plain-1k}
reference: plain
seeds: [1, 2]
"""
GAINS = {"two": 0.0, "two-again": 0.04, "three": 0.02, "three-again": 0.08, "three-four": 0.05}


def made(folder, text, **filled):
    """(study, store) of a study text, its runs written without training."""
    (folder / "made.yaml").write_text(text, encoding="utf-8")
    study = load_study(folder / "made.yaml")
    return study, fill(Store(folder / "runs"), study, **filled)


def two_tokenizers(folder, policy=None):
    targets = targets_of()
    targets.policy = policy or targets.policy
    others = dict.fromkeys(("plain-1k", "again-1k"), coarser(targets))
    return made(folder, TOKENIZERS, gains={"again": 0.05, "plain-1k": 0.1, "again-1k": 0.2}, targets=targets, others=others)


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory):
    """Read by several tests and changed by none."""
    return made(tmp_path_factory.mktemp("hybrid"), HYBRID, gains=GAINS, peak={"three": 2**30, "three-again": 3 * 2**30})


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """Read by several tests and changed by none."""
    return two_tokenizers(tmp_path_factory.mktemp("tokenizers"))


def by_name(study, store):
    return {result.name: result for result in results_table(study, store)}


def test_every_arm_is_compared_with_its_own(hybrid):
    study, store = hybrid
    found = by_name(study, store)
    nats = {name: one.sums.nats_per_token for name, one in found.items()}
    assert {name: one.against for name, one in found.items()} == {
        "two": None, "two-again": "two", "three": "two", "three-again": "three", "three-four": "three-again",
    }  # fmt: skip
    for name, one in found.items():
        if one.against:
            assert one.seeds.mean == pytest.approx(nats[one.against] - nats[name], abs=1e-6)
            assert one.cost_ratios["flops_total"] == one.ledger.flops_total / found[one.against].ledger.flops_total
            assert one.course[1][-1][1] == pytest.approx(one.seeds.gains[1], abs=1e-6)
    assert found["three-again"].cost_ratios["peak_bytes"] == 3 and "peak_bytes" not in found["three-four"].cost_ratios


def test_pairs_that_the_study_names_are_not_repeated(hybrid):
    study, store = hybrid
    pairs = {(one.arm, one.control) for one in controls(results_table(study, store), store.runs_of(study), store)}
    named = {(one.name, one.against) for one in results_table(study, store)}
    assert pairs == {("three-four", "three")} and not pairs & named


def test_an_arm_of_the_references_cost_that_is_against_another_is_compared_with_the_reference_too(tmp_path):
    arms = (
        "arms:\n  again: {schedule: 1..3 1..3}\n  normed: {qk_norm: plain, against: again}\n  plain: {}\nreference: plain\nseeds: [1, 2]\n"
    )
    study, store = made(tmp_path, HYBRID[: HYBRID.index("arms:")] + arms)
    found = {(one.arm, one.control): one.axes for one in controls(results_table(study, store), store.runs_of(study), store)}
    assert found == {("normed", "plain"): ("training FLOPs", "parameters")}


def test_the_page_says_whom_each_gain_is_over(hybrid):
    study, store = hybrid
    text = page(study, store)
    reader = Reader(text)
    for name, one in by_name(study, store).items():
        row, costs = row_of(reader, "results", name), row_of(reader, "costs", name)
        assert row["against"][0] == (one.against or numbers.NONE)
        if one.against:
            assert float(row["gain"][1]) == one.seeds.mean and row["in words"][0] == one.words
            assert f"({numbers.times(one.cost_ratios['flops_total'])})" in costs["training FLOPs"][0]
            assert row_of(reader, "matched", name)["against"][0] == one.against
    assert row_of(reader, "costs", "three-again")["peak memory"][0] == "3.00 GiB (3.00×)"
    assert row_of(reader, "costs", "two")["peak memory"][0].startswith("est. ")
    assert "Gain over the arm that each is compared with" in text and ">against three-again</text>" in text
    assert "three-again against three" in reader.text and "Pairs other than those above" in reader.text
    assert len(reader.ids) == len(set(reader.ids))
    assert page(study, store) == text


def test_the_answers_of_a_pair(hybrid):
    study, store = hybrid
    found = by_name(study, store)
    one = found["three-again"]
    better, crossing, won, cost = lines(one)
    assert better.startswith("three-again is better than three by 0.0") and "both seeds agree in sign" in better
    ends = one.ledger.first_pass_ends
    assert ends == 2 * one.ledger.tokens // 3 and one.crossing.side == "before", "the gains pass zero in the middle of training"
    low, high = (numbers.human(at) for at in one.crossing.between)
    assert re.match(rf"At about 20\.\dk tokens it overtakes three for good: behind at {low}, ahead at {high} \(seeds: ", crossing)
    assert crossing.endswith(", before the end of the first pass over its text (at 27.3k).")
    assert won == f"{one.pairing.windows_won} of {one.pairing.windows} windows and {one.pairing.documents_won} of 30 documents won."
    assert cost.startswith("Cost: ") and "3.00× the peak memory (3.00 GiB)" in cost and "the training FLOPs" in cost
    first, folded = says(study, results_table(study, store))
    assert [told.title for told in first] == [
        "three-again against three", "three-four against three-again", "two-again against two", "three against two",
    ] and not folded  # fmt: skip


def test_json_has_all_of_it(hybrid):
    study, store = hybrid
    rows = {row["arm"]: row for row in json.loads(json.dumps(Results(study, store).rows(), allow_nan=False))}
    row = rows["three-again"]
    assert row["against"] == "three" and row["gain_unit"] == "nats/token" and rows["two"]["against"] is None
    assert row["crossing"]["side"] in ("before", "after", "inside") and row["crossing"]["first_pass_ends"] == row["first_pass_ends"]
    low, high = row["crossing"]["between"]
    assert low <= row["crossing"]["tokens"] <= high and set(row["crossing"]["by_seed"]) == {"1", "2"}
    assert row["cost_ratios"]["peak_bytes"] == 3 and row["peak_bytes"] == 3 * 2**30 and rows["two"]["crossing"] is None


def course_of(result, *gains, ends=None, tokens=None):
    """The same result with another course and another end of the first pass."""
    course = {1: tuple((100_000 * (place + 1), gain) for place, gain in enumerate(gains))}
    return replace(result, course=course, ledger=replace(result.ledger, first_pass_ends=ends, tokens=tokens or 100_000 * len(gains)))


@pytest.mark.parametrize(
    ("gains", "ends", "words"),
    [
        ((-0.1, 0.1, 0.2), 170_000, "At about 150k tokens it overtakes three for good: behind at 100k, ahead at 200k; the first pass "
         "over its text ends at 170k, between the two, so before or after cannot be told: measure more often there."),
        ((-0.1, 0.1, 0.2), 250_000, "ahead at 200k, before the end of the first pass over its text (at 250k)."),
        ((-0.1, 0.1, 0.2), 100_000, "ahead at 200k, after the end of the first pass over its text (at 100k)."),
        ((0.1, -0.1), None, "it falls behind three for good: ahead at 100k, behind at 200k; where the first pass over its text ends is "
         "not known."),
        ((-0.1, 0.1, 0.2), 400_000, "within the first pass over its text (400k tokens), which training does not finish."),
        ((-0.1, 0.1, -0.1, 0.2), 50_000, "The sign changes 3 times on the way."),
        ((0.1, 0.1, 0.2), 170_000, "No crossing: ahead at every measured point (3, from 100k tokens on)."),
        ((-0.1, -0.1), 170_000, "No crossing: behind at every measured point (2, from 100k tokens on)."),
        ((0.1, 0.0, 0.2), 170_000, "No crossing: never behind at a measured point (3, from 100k tokens on)."),
        ((0.0, 0.0), 170_000, "No crossing: level at every measured point (2, from 100k tokens on)."),
        ((0.1,), 170_000, "Whether it crossed cannot be told: one point is measured in both. More are with evaluate: {every: …}."),
        ((), 170_000, "No crossing can be told: it trains on another number of tokens than three."),
    ],
)  # fmt: skip
def test_crossings_in_words(hybrid, gains, ends, words):
    result = by_name(*hybrid)["three-again"]
    assert crossing_words(course_of(result, *gains, ends=ends, tokens=300_000)).endswith(words)


def test_seeds_that_cross_where_their_mean_does_not_are_named(hybrid):
    result = course_of(by_name(*hybrid)["three-again"], -0.2, -0.1, tokens=300_000)
    course = {1: ((100_000, -0.2), (200_000, 0.1)), 2: ((100_000, -0.2), (200_000, -0.3))}
    said = crossing_words(replace(result, course=course))
    assert said.endswith("behind at every measured point (2, from 100k tokens on); by itself seed 1 at 167k tokens crosses.")


def test_other_tokenizers_are_compared_by_document_in_bits(tokenizers):
    study, store = tokenizers
    found = by_name(study, store)
    across, within = found["plain-1k"], found["again-1k"]
    assert (across.unit, within.unit, found["again"].unit) == (BITS, NATS, NATS)
    sums = [found[name].sums for name in ("plain", "plain-1k")]
    assert sums[0].bytes == sums[1].bytes and sums[0].targets > sums[1].targets
    assert across.seeds.mean == pytest.approx(sums[0].bits_per_byte - sums[1].bits_per_byte, abs=1e-12), "both scored every document"
    assert across.pairing.documents == 30 and across.pairing.windows == 0 and across.crossing is not None
    assert across.course[1][-1][1] == pytest.approx(across.seeds.gains[1], abs=1e-12)
    row = across.record()
    assert row["gain_unit"] == "bits/byte" and row["windows_compared"] is None and row["gain"] == row["gain_bits_per_byte"]
    assert "bits a byte" in across.words


def test_no_column_and_no_figure_mixes_units_unsaid(tokenizers):
    study, store = tokenizers
    text = page(study, store)
    reader = Reader(text)
    found = by_name(study, store)
    for name in ("again", "again-1k", "plain-1k"):
        row, unit = row_of(reader, "results", name), "bits/B" if name == "plain-1k" else "nats"
        assert all(row[column][0].endswith(" " + unit) for column in ("gain", "95% over documents", "by seed"))
    assert row_of(reader, "results", "plain-1k")["windows won"][0] == numbers.NONE
    assert "Arms have different tokenizers" in reader.text and "nats a token of other tokens do not compare" in reader.text
    names = ("forest", "gain", "tokens", "training")
    figures = {name: re.search(rf'<title id="f-{name}-t">.*?</svg>', text, re.DOTALL)[0] for name in names}
    assert all("bits a byte" in figures[name] and "nats" not in figures[name] for name in names[:3])
    assert "nats a token" in figures["training"] and "1k" not in figures["training"], "nats of other tokens are left out"
    again = found["again-1k"]
    shown = again.seeds.mean * again.sums.targets / (math.log(2) * again.sums.bytes)
    assert f"again-1k against plain-1k: {numbers.signed(shown)}" in figures["forest"]
    assert again.pairing.gain_bits_per_byte == pytest.approx(shown)
    told = answer(study, list(found.values()))
    assert any("plain-1k" in line and "bits a byte" in line and "nats" not in line for line in (told.lead, *told.details))


def test_an_older_store_says_what_to_do(tmp_path):
    study, store = two_tokenizers(tmp_path)
    for path in store.targets_path.glob("*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.drop_columns("digest").replace_schema_metadata(table.schema.metadata), path)
    one = by_name(study, store)["plain-1k"]
    assert one.words.startswith("not comparable: measured before documents were stored") and "ostinato run" in one.words
    assert by_name(study, store)["again-1k"].seeds is not None and one.words in Reader(page(study, store)).text


def test_rows_do_not_compare_tokenizers(tmp_path):
    study, store = two_tokenizers(tmp_path, "rows of 128 inputs, packed as in training")
    words = by_name(study, store)["plain-1k"].words
    assert words == "not comparable: rows score parts of documents; set evaluate: {windows: documents}"


def test_first_passes_that_differ_are_marked_one_by_one(tmp_path):
    study, store = made(tmp_path, HYBRID.replace("two-again: {", "two-again: {recipe: {tokens: 30720}, "), gains=GAINS)
    text = page(study, store)
    figure = re.search(r'<title id="f-tokens-t">.*?</svg>', text, re.DOTALL)[0]
    assert figure.count('class="mark"') == 2 and "first pass of two-again" in figure
    gain = re.search(r'<title id="f-gain-t">.*?</svg>', text, re.DOTALL)[0]
    assert gain.count('class="mark"') == 1 and "first pass ends" in gain, "an arm of another budget has no line there"


def test_the_first_sentence_is_about_the_first_pair_that_the_study_names(hybrid):
    study, store = hybrid
    lead = answer(study, results_table(study, store)).lead
    assert lead.startswith("Of 4 pairs, the first arm is better in 3 and worse in 1. First: three-again is better than three by ")
