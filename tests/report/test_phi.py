"""The section of phi: the table that a study's store gives, what the page shows of it, and studies that have none."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ostinato.analysis import results_table
from ostinato.errors import FitError
from ostinato.report.fit_sheet import FitSheet
from ostinato.report.phi import section, section_of
from ostinato.report.write import page
from ostinato.scaling.findings import analyse
from ostinato.scaling.law import equivalent
from ostinato.scaling.study import budgets, runs_table, size_of, treatment_of, varies
from ostinato.store import Store
from ostinato.study import load_study

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "phi_fit.json").read_text(encoding="utf-8"))
WIDTHS, PASSES, TOKENS = (32, 48, 64, 96, 128), (1, 2, 4), (20, 60, 180)


def grid_text(backprop=""):
    """Arms of four widths, three numbers of passes and three budgets of tokens."""
    lines = ["data: {corpus: python-docs, tokenizer: {bpe: 512}, packing: contiguous}",
             "model: {family: llama, layers: 6, d_model: 32, head_dim: 16, heads: 2, mlp: {kind: relu2, ratio: 4}, inject: linear, "
             "pass_norm: yes}",
             "recipe: {tokens: 20k, batch: 1024, context: 128}", "measure: {take: none}", "arms:"]  # fmt: skip
    for width in WIDTHS:
        for r in PASSES:
            for tokens in TOKENS:
                inner = 4 // r
                keys = [f"d_model: {width}", f"heads: {width // 16}", f"layers: {2 + inner}", f"recipe: {{tokens: {tokens}k}}"]
                keys += [f"schedule: '1 (2..{1 + inner})x{r} {2 + inner}'"] if r > 1 else ["inject: none", "pass_norm: no"]
                keys += [f"backprop: {backprop}"] if backprop and r > 1 else []
                lines.append(f"  d{width} r{r} D{tokens}k: {{{', '.join(keys)}}}")
    return "\n".join([*lines, f"reference: d{WIDTHS[0]} r1 D20k", "seeds: [1]"]) + "\n"


def law(size, tokens, phi):
    return 1.6 + 8.0 * equivalent(size.N_once, size.N_rec, size.r, phi) ** -0.2 + 30.0 * tokens**-0.35


def write(store, study, phi=0.46):
    """Every run of the study finished, its loss that of a law with 0.1% noise."""
    from ostinato.ledger import account
    from ostinato.study import run_fingerprint, vocab

    count = 40
    targets = SimpleNamespace(
        id="ab" * 32, document=np.repeat(np.arange(4, dtype=np.int32), 10), position=np.tile(np.arange(1, 11, dtype=np.int32), 4),
        token=np.arange(1, count + 1, dtype=np.int32), bytes=np.ones(count, dtype=np.int32),
        digest=np.repeat(np.arange(4, dtype=np.uint64), 10), row=None, policy="each document alone",
    )  # fmt: skip
    runs = {(arm.name, 1): run_fingerprint(arm, 1, "d" * 64) for arm in study.arms}
    version = store.create().study_folder(study.name).write(study, runs)
    draw = np.random.default_rng(7)
    for arm in study.arms:
        ledger = account(arm, vocab(arm.data.tokenizer), 1_000_000, 123_456)
        folder = store.run(runs[arm.name, 1], version.evaluation(arm.name))
        noise = float(np.exp(0.001 * draw.standard_normal()))
        if folder.exists():
            continue
        folder.write_record({"study": study.name, "arm": arm.name, "seed": 1}, {"ledger": ledger.row(), "data_fingerprint": "d" * 64}, {})
        loss = law(size_of(arm), ledger.tokens, phi) * noise
        folder.write_losses("validation", ledger.tokens, np.full(len(targets.token), loss, dtype=np.float32), targets)
        folder.set_status("done")
    return store


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """The study and a store of its runs, which tests may add to."""
    file = tmp_path_factory.mktemp("grid") / "grid.yaml"
    file.write_text(grid_text(), encoding="utf-8")
    study = load_study(file)
    return study, write(Store(file.parent / "runs"), study)


@pytest.fixture(scope="module")
def sheet(grid):
    return FitSheet(analyse(runs_table(*grid)))


def test_parameters_are_counted_as_published():
    """A block is 12 d^2, the injection 2 d^2 in N_rec; prelude and coda of two layers each run once."""
    arms = {arm.name: size_of(arm) for arm in load_study("phi", "paper").arms}
    assert len(arms) == GOLDEN["published_fit"]["runs"]
    for name, size in arms.items():
        d, r = (int(word[1:]) for word in name.split()[:2])
        assert size.r == r
        if r > 1:
            assert (size.N_once, size.N_rec) == (48 * d * d, 192 * d * d // r + 2 * d * d)
        else:
            assert size.N_once + size.N_rec == 240 * d * d


def test_the_table_of_a_study(grid):
    study, store = grid
    table = runs_table(study, store)
    assert len(table) == 45 and set(table.r) == {1.0, 2.0, 4.0} and not table.notes
    at = table.arm.index("d64 r2 D60k")
    assert table.N_once[at] == 2 * 12 * 64**2 and table.N_rec[at] == 2 * 12 * 64**2 + 2 * 64**2
    assert table.budget[at].endswith("tokens") and len(set(table.budget)) == 3 and set(table.treatment) == {"base"}
    assert table.loss[at] == pytest.approx(law(size_of(study.arms[0]), 20e3, 0.46), rel=0.5)


def test_the_section_shows_the_fit(grid):
    study, store = grid
    found = section(study, store, results_table(study, store))
    assert found.id == "phi" and "phi = 0.4" in found.lead and len(found.figures) == 8
    assert [table.name for table in found.tables] == ["phi-fit", "phi-laws", "phi-models"]
    text = page(study, store)
    assert 'id="phi"' in text and "r^phi" in text and "Nested laws" in text


def test_an_arm_of_another_recipe_is_named(make_study, store):
    text = grid_text().replace("d48 r2 D60k: {d_model: 48, heads: 3, layers: 4, recipe: {tokens: 60k}",
                               "d48 r2 D60k: {d_model: 48, heads: 3, layers: 4, recipe: {tokens: 60k, lr: 0.01}")  # fmt: skip
    study = make_study(text, "other")
    assert runs_table(study, write(store, study)).warnings == ("d48 r2 D60k: recipe.lr is 0.01, not 0.02, which the law does not know of",)


def test_a_study_of_one_size_has_no_section(study, filled):
    assert not varies(study) and section(study, filled, results_table(study, filled)) is None


def test_a_grid_without_runs_has_no_section_and_no_table(make_study, store):
    study = make_study(grid_text(), "grid")
    assert varies(study) and section(study, store.create(), results_table(study, store)) is None
    with pytest.raises(FitError, match="no run of grid is finished"):
        runs_table(study, store)


def test_a_table_that_cannot_tell_phi_says_why_on_the_page(make_study, store):
    text = "\n".join(line for line in grid_text().splitlines() if not ("r4" in line or "r2" in line) or "D20k" in line)
    study = make_study(text, "few")
    write(store, study)
    results = results_table(study, store)
    few = [one for one in results if one.name.endswith("D20k") and ("d32" in one.name or "d48" in one.name)]
    found = section(study, store, few)
    assert found.lead.startswith("phi is not identified: 6 rows for 6 parameters") and len(found.figures) == 1


def test_a_change_in_loss_is_told_although_phi_is_not(make_study, store):
    """One of the widths alone: too few for phi, and yet each run has one of the base beside it."""
    base, other = ("\n".join(line for line in grid_text(way).splitlines() if not any(f"d{width} " in line for width in WIDTHS[1:]))
                   for way in ("", "half"))  # fmt: skip
    study, cut = make_study(base, "one"), make_study(other, "one-cut")
    write(write(store, study), cut, phi=0.2)
    with pytest.raises(FitError, match=r"is not identified by this table: .*\n +told all the same: backprop half: loss higher") as caught:
        analyse(runs_table(study, store, beside=[cut]))
    assert "6 runs beside the base's" in caught.value.what


def test_another_size_is_a_treatment_and_shares_its_plain_runs(grid, make_study):
    study, store = grid
    other = make_study(grid_text("half"), "truncated")
    write(store, other, phi=0.2)
    table = runs_table(study, store, beside=[other])
    assert len(table) == 45 + 45 and set(table.treatment) == {"base", "backprop half"}
    (one,) = analyse(table).treatments
    assert one.name == "backprop half" and one.more == pytest.approx(-0.26, abs=0.1) and one.shared == 15


def test_a_truncation_that_cuts_nothing_is_no_treatment(small_model):
    assert treatment_of(small_model(), 4) == "base"
    looped = small_model(schedule="(1..2)x4", inject="linear", backprop=2)
    assert (treatment_of(looped, 4), treatment_of(looped, 2)) == ("backprop 2", "base")


def test_budgets_are_what_runs_have_in_common():
    assert budgets(np.array([1.0, 1.01, 5.0, 5.05]), np.array([1.0, 2.0, 3.0, 4.0])) == ["1 FLOPs"] * 2 + ["5 FLOPs"] * 2
    assert budgets(np.array([1.0, 2.0, 3.0, 4.0]), np.array([10.0, 10.0, 20.0, 20.0])) == ["10 tokens"] * 2 + ["20 tokens"] * 2


def test_the_sheet_prints_and_shows_itself(sheet):
    assert "Nested laws" in repr(sheet) and "<table" in sheet._repr_html_() and sheet.record()["phi"] == sheet.phi
    assert section_of(sheet.found).lead in " ".join(repr(sheet).split())


def test_streams_and_drawn_passes_are_treatments(small_model):
    looped = {"schedule": "(1..2)x{r}", "inject": "linear"}
    assert treatment_of(small_model(**looped, passes=4, streams=2), 4) == "2 streams"
    assert treatment_of(small_model(**looped, passes={"uniform": [1, 8]}), 5) == "r uniform 1 to 8"
    assert treatment_of(small_model(**looped, passes={"poisson": 4}), 4) == "r Poisson 4"
