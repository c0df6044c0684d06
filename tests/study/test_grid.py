"""A grid spells the arms that somebody would have written out, and says what is wrong with it in its own keys."""

from __future__ import annotations

import pytest
import yaml

from ostinato.errors import StudyError
from ostinato.ledger import account
from ostinato.study import load_study
from ostinato.study.derive import arm_schedule, recipe_steps, vocab
from ostinato.study.grid import flops_per_token
from ostinato.study.reference import keys

BASE = {
    "data": {"tokenizer": {"bpe": 300}},
    "model": {"head_dim": 8, "inject": "linear", "pass_norm": "yes", "mlp": {"kind": "relu2", "ratio": 4}, "norm": {"weight": "no"}},
    "recipe": {"batch": 64, "context": 32},
}
GRID = {"prelude": 1, "core": 4, "coda": 2, "r": [1, 2, 4], "tokens": {"6400": [16, 24], "25.6k": [16]}}


def written(tmp_path, **sections):
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(BASE | sections, sort_keys=False))
    return path


def test_a_grid_is_what_its_arms_written_out_are(tmp_path):
    arms = {}
    for budget, width in (("6400", 16), ("6400", 24), ("25.6k", 16)):
        shape = {"d_model": width, "heads": width // 8, "recipe": {"tokens": budget}}
        straight, against = {"inject": "none", "pass_norm": "no"}, f"d{width} r1 D{budget}"
        arms[against] = {**shape, **straight, "layers": 7}
        arms[f"d{width} r2 D{budget}"] = {**shape, "layers": 5, "schedule": "1 (2..3)x{r} 4..5", "passes": 2, "against": against}
        arms[f"d{width} r4 D{budget}"] = {**shape, "layers": 4, "schedule": "1 2x{r} 3..4", "passes": 4, "against": against}
    by_hand = load_study(written(tmp_path, arms=arms)).arms
    assert load_study(written(tmp_path, grid=GRID)).arms == by_hand
    assert [arm_schedule(arm.model).text for arm in by_hand[:3]] == ["1..7", "1 (2..3)x{r} 4..5", "1 2x{r} 3..4"]


def test_without_prelude_or_coda_the_group_is_all_there_is(tmp_path):
    arm = load_study(written(tmp_path, grid={"core": 4, "r": [2], "tokens": {"6400": [16]}})).arms[0]
    assert (arm.model.schedule, len(arm.model.layers), arm.model.passes, arm.against) == ("(1..2)x{r}", 2, 2, None)


def test_a_budget_of_flops_becomes_whole_steps(tmp_path):
    study = load_study(written(tmp_path, grid=GRID | {"tokens": {}, "flops": {"1e10": [16, 24], "3e10": [24]}}))
    assert [arm.name for arm in study.arms] == [f"d{width} r{r} C{budget}" for budget, width in (("1e10", 16), ("1e10", 24), ("3e10", 24))
                                                for r in (1, 2, 4)]  # fmt: skip
    for arm in study.arms:
        ledger, steps = account(arm, 300), recipe_steps(arm.recipe)
        budget = float(arm.name.rpartition("C")[2])
        assert steps.tokens == arm.recipe.tokens
        assert abs(ledger.flops_per_token_trainer * steps.tokens - budget) <= ledger.flops_per_token_trainer * steps.tokens_per_step / 2


@pytest.mark.parametrize("model", [
    {},
    {"mlp": {"kind": "swiglu", "hidden": 40}, "kv_heads": 1},
    {"backprop": "half"},
    {"backprop": 1, "kv_heads": 1},
    {"streams": 2},
    {"streams": 3, "backprop": "half"},
    {"inject": "none", "pass_norm": "no"},
    {"tie_embeddings": "yes"},
])  # fmt: skip
def test_flops_are_those_of_the_ledger(tmp_path, model):
    study = load_study(written(tmp_path, model=BASE["model"] | model, grid=GRID))
    for arm in study.arms:
        entries = vocab(arm.data.tokenizer)
        assert flops_per_token(arm.model, entries, 32) == account(arm, entries).flops_per_token_trainer


def test_what_belongs_to_looping_is_put_away_at_one_pass(tmp_path):
    model = load_study(written(tmp_path, model=BASE["model"] | {"backprop": "half"}, grid=GRID)).arms[0].model
    assert (model.inject, model.pass_norm, model.backprop, model.passes) == ("none", False, None, None)


def test_an_arm_of_the_same_name_changes_the_grids(tmp_path):
    further = {"layers": 2, "d_model": 16, "heads": 2, "inject": "none", "pass_norm": "no"}
    study = load_study(written(tmp_path, grid=GRID, arms={"d16 r2 D6400": {"rope_base": 500}, "further": further}))
    arms = {arm.name: arm for arm in study.arms}
    assert len(arms) == 10 and study.reference == "d16 r1 D6400"
    assert arms["d16 r2 D6400"].model.rope_base == 500 and arms["d16 r2 D6400"].model.passes == 2


@pytest.mark.parametrize(("changes", "place", "what"), [
    ({"core": None}, "grid.core", "not given"),
    ({"r": None}, "grid.r", "not given"),
    ({"r": [1, 3]}, "grid.r", "3 passes over a core of 4 layers"),
    ({"r": [0]}, "grid.r", "0"),
    ({"tokens": {}}, "grid.tokens", "neither flops nor tokens"),
    ({"flops": {"1e12": [16]}}, "grid.tokens", "both flops and tokens"),
    ({"tokens": {"many": [16]}}, "grid.tokens", "'many' is not a number"),
    ({"tokens": {"-5": [16]}}, "grid.tokens", "'-5' is no budget"),
    ({"tokens": {"6400": [20]}}, "grid.tokens", "width 20 with heads of 8 channels"),
    ({"width": [16]}, "grid", "no key 'width' here"),
    ({"tokens": {"10": [16]}}, "grid.tokens", "tokens 10 are fewer than one step of 64"),
    ({"tokens": {"1e400": [16]}}, "grid.tokens", "'1e400' is larger than any count here"),
    ({"tokens": {"6400": []}}, "grid.tokens", "no width under 6400"),
    ({"r": []}, "grid.r", "no number of passes"),
    ({"core": 4094, "r": [1, 4094]}, "grid.core", "4,097 applied layers"),
    ({"tokens": {}, "flops": {"1e400": [16]}}, "grid.flops", "1e400 FLOPs of d16 r1 C1e400 are more tokens than can be counted"),
    ({"tokens": {}, "flops": {"1e5": [16, 24]}}, "grid.flops", "1e5 FLOPs of d16 r1 C1e5 are less than one step of 64 tokens"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_its_key_and_line(tmp_path, changes, place, what):
    with pytest.raises(StudyError) as caught:
        load_study(written(tmp_path, grid=GRID | changes))
    assert place in str(caught.value) and what in str(caught.value)
    assert "line " in str(caught.value) and "Value error" not in str(caught.value)
    assert caught.value.rule and (caught.value.fix or "out of range" in caught.value.what)


@pytest.mark.parametrize("keys", [{"schedule": "1..4 1..4"}, {"schedule": "(1..2)x{r}", "passes": {"uniform": [1, 3]}}, {"passes": 2}])
def test_a_model_beside_a_grid_has_no_schedule_of_its_own(tmp_path, keys):
    with pytest.raises(StudyError, match="a grid spells its own") as caught:
        load_study(written(tmp_path, model=BASE["model"] | keys, grid=GRID))
    assert all(f"model.{key}" in str(caught.value) for key in keys) and "line " in str(caught.value)


def test_without_one_pass_the_least_number_is_compared_with_and_the_order_of_r_is_nothing(tmp_path):
    arms = load_study(written(tmp_path, grid=GRID | {"r": [4, 2]})).arms
    assert [(arm.name, arm.against) for arm in arms[:4]] == [
        ("d16 r2 D6400", None), ("d16 r4 D6400", "d16 r2 D6400"), ("d24 r2 D6400", None), ("d24 r4 D6400", "d24 r2 D6400")]  # fmt: skip
    assert load_study(written(tmp_path, grid=GRID | {"r": [4, 1, 2]})).arms == load_study(written(tmp_path, grid=GRID)).arms
    study = load_study(written(tmp_path, grid=GRID, reference="d16 r2 D6400"))
    assert next(arm for arm in study.arms if arm.name == study.reference).against is None


@pytest.mark.parametrize("change", [
    {"backprop": 1},
    {"schedule": "1 (2..3)x{r} 4..5", "passes": {"uniform": [1, 5]}},
    {"recipe": {"context": 16, "batch": 32}},
    {"data": {"tokenizer": {"bpe": 600}}},
])  # fmt: skip
def test_a_budget_of_flops_is_that_of_the_arm_as_it_is_changed(tmp_path, change):
    name = "d16 r2 C3e10"
    study = load_study(written(tmp_path, grid=GRID | {"tokens": {}, "flops": {"3e10": [16]}}, arms={name: change}))
    arm = next(arm for arm in study.arms if arm.name == name)
    ledger = account(arm, vocab(arm.data.tokenizer))
    assert ledger.flops_per_token_trainer * arm.recipe.tokens == pytest.approx(3e10, rel=1e-3)


def test_an_arm_may_give_tokens_of_its_own(tmp_path):
    name = "d16 r2 C1e5"
    grid = GRID | {"tokens": {}, "flops": {"1e5": [16]}, "r": [2]}
    study = load_study(written(tmp_path, grid=grid, arms={name: {"recipe": {"tokens": 640}}}))
    assert study.arms[0].recipe.tokens == 640


def test_what_an_arm_adds_that_is_not_counted_is_told(tmp_path):
    grid = GRID | {"tokens": {}, "flops": {"1e10": [32]}}
    with pytest.raises(StudyError, match="models with gates"):
        load_study(written(tmp_path, grid=grid, arms={"d32 r2 C1e10": {"attn_gate": "head"}}))


@pytest.mark.parametrize("model", [{"attn_gate": "head"}, {"value_embeddings": "all"}, {"windows": {"pattern": "SL", "short": 8}}])
def test_flops_of_what_is_not_counted_are_no_budget(tmp_path, model):
    with pytest.raises(StudyError, match="a budget of FLOPs counts attention and MLPs"):
        load_study(written(tmp_path, model=BASE["model"] | model, grid=GRID | {"tokens": {}, "flops": {"1e10": [32]}}))


def test_its_keys_are_in_the_reference():
    assert {row["key"] for row in keys()} >= {f"grid.{name}" for name in ("prelude", "core", "coda", "r", "flops", "tokens")}
