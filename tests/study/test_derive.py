"""Sizes, windows, tables, steps and optimizer groups that follow from the records."""

from __future__ import annotations

import json

import pytest

from ostinato.errors import ScheduleError, StudyError
from ostinato.study import derive
from ostinato.study.records import Group, Model, Recipe, Tokenizer


def model(**keys) -> Model:
    return Model(**{"layers": 4, "d_model": 64, "heads": 4, **keys})


def test_sizes():
    assert derive.model_hidden(model()) == 256
    assert derive.model_hidden(model(mlp={"ratio": "2.5"})) == 160
    assert derive.model_hidden(model(mlp={"hidden": 171})) == 171
    assert derive.head_dim(model()) == 16
    assert derive.head_dim(model(head_dim=24)) == 24
    assert derive.kv_heads(model()) == 4
    assert derive.kv_heads(model(kv_heads=2)) == 2


@pytest.mark.parametrize(
    ("keys", "call", "part", "fix"),
    [
        ({"mlp": {"hidden": None, "ratio": None}}, derive.model_hidden, "neither", "hidden: 256"),
        ({"mlp": {"hidden": 3, "ratio": 2}}, derive.model_hidden, "hidden 3 and ratio 2", "leave one"),
        ({"mlp": {"ratio": "2.7"}}, derive.model_hidden, "172.8", "hidden: 173"),
        ({"heads": 5}, derive.head_dim, "5 heads", "heads: 4"),
        ({"kv_heads": 3}, derive.kv_heads, "3 kv_heads", "divisor"),
    ],
)
def test_sizes_that_do_not_fit(keys, call, part, fix):
    with pytest.raises(StudyError, match=part) as caught:
        call(model(**keys))
    assert fix in caught.value.fix


def test_windows_count_the_query_and_the_last_layer_sees_all():
    windowed = model(layers=6, windows={"pattern": "SSSL", "short": 33})
    assert [derive.layer_window(windowed, layer, 128) for layer in range(1, 7)] == [33, 33, 33, 128, 33, 128]
    assert [derive.layer_window(windowed, layer, 16) for layer in range(1, 7)] == [16] * 6
    with pytest.raises(StudyError, match="no width"):
        derive.layer_window(model(windows={"pattern": "S"}), 1, 128)
    assert derive.layer_window(model(windows={"pattern": "S"}), 4, 128) == 128


def test_a_gated_delta_layer_has_no_window():
    mixed = model(layers="gdn gqa gqa", windows={"pattern": "S", "short": 33})
    assert [derive.layer_window(mixed, layer, 128) for layer in (1, 2, 3)] == [128, 33, 128]
    assert derive.layer_window(model(layers="gdn gqa", windows={"pattern": "S"}), 1, 128) == 128


@pytest.mark.parametrize("layers", [1, 2, 7, 8, 9])
def test_value_tables_alternate_from_the_last_layer(layers):
    tables = [derive.has_value_table(model(layers=layers, value_embeddings="alternate"), layer) for layer in range(1, layers + 1)]
    assert tables == [(layer - 1) % 2 == (layers - 1) % 2 for layer in range(1, layers + 1)]
    assert derive.has_value_table(model(layers=layers, value_embeddings="all"), 1)
    assert not derive.has_value_table(model(layers=layers), layers)


def test_value_tables_are_for_attention():
    mixed = model(layers="2 x (gdn gqa)", value_embeddings="all")
    assert [derive.has_value_table(mixed, layer) for layer in (1, 2, 3, 4)] == [False, True, False, True]


def test_the_plain_schedule_is_the_default():
    assert derive.arm_applications(model()) == derive.arm_applications(model(schedule="1..4"))
    assert [application.layer for application in derive.arm_applications(model(schedule=[1, 2, 1, 1]))] == [1, 2, 2, 3, 4]
    assert len(derive.arm_applications(model(schedule="1 (2..3)x{r} 4", passes=3))) == 8
    for keys in ({"schedule": "1 (2..3)x{r} 4"}, {"passes": 2}, {"schedule": "1..5"}):
        with pytest.raises(ScheduleError):
            derive.arm_applications(model(**keys))


def test_budgets_are_whole_rows_and_whole_steps():
    steps = derive.recipe_steps(Recipe(tokens="300k", batch="1100", context=128))
    assert steps == derive.Steps(steps=292, rows=8, tokens_per_step=1024, tokens=299_008)
    with pytest.raises(StudyError, match="less than one row"):
        derive.recipe_steps(Recipe(batch=100, context=128))
    with pytest.raises(StudyError, match="fewer than one step"):
        derive.recipe_steps(Recipe(tokens=1000, batch=1024, context=128))


def test_groups_fill_blanks_from_the_recipe():
    recipe = Recipe(
        lr=0.02, weight_decay=0.1, groups={"embedding": Group(lr=0.6, width_base=256), "x0_scalar": Group(betas=(0.5, 0.6), weight_decay=0)}
    )
    groups = derive.optimizer_groups(recipe, model())
    assert set(groups) == set(derive.ROLES)
    assert groups["matrix"] == derive.GroupResolved("muon", 0.02, (0.9, 0.95), 1e-8, 0.1)
    assert groups["gate"].kind == "muon"
    assert {role for role, group in groups.items() if group.kind == "muon"} == {"matrix", "gate"}
    assert groups["embedding"].lr == pytest.approx(0.6 * (64 / 256) ** -0.5)
    assert groups["x0_scalar"] == derive.GroupResolved("adamw", 0.02, (0.5, 0.6), 1e-8, 0.0)
    assert {group.kind for group in derive.optimizer_groups(Recipe(optimizer="adamw"), model()).values()} == {"adamw"}
    one = derive.optimizer_groups(Recipe(optimizer="adamw", groups={"matrix": Group(kind="muon")}), model())
    assert one["matrix"].kind == "muon" and one["gate"].kind == "adamw"


@pytest.mark.parametrize("role", ["embedding", "head", "norm", "convolution", "value_table"])
def test_muon_is_for_matrices_inside_layers(role):
    with pytest.raises(StudyError, match=f"{role} asks for muon"):
        derive.optimizer_groups(Recipe(groups={role: Group(kind="muon")}), model())


def test_vocabulary_of_a_tokenizer_file(tmp_path):
    assert derive.vocab(Tokenizer(bpe="1Ki")) == 1024
    (tmp_path / "t.json").write_text(json.dumps({"model": {"vocab": {"a": 0, "b": 7}}, "added_tokens": [{"id": 9, "content": "<x>"}]}))
    assert derive.vocab(Tokenizer(file="t.json"), tmp_path) == 11, "a BOS is added after id 9"
    (tmp_path / "u.json").write_text(json.dumps({"model": {"vocab": [["a", 0.1], ["b", 0.2]]}}))
    assert derive.vocab(Tokenizer(file=str(tmp_path / "u.json"))) == 3
    for name, content in (
        ("missing.json", None),
        ("bad.json", "{"),
        ("list.json", "[1]"),
        ("other.json", "{}"),
        ("empty.json", '{"model": {"vocab": {}}}'),
    ):
        if content is not None:
            (tmp_path / name).write_text(content)
        with pytest.raises(StudyError, match=name):
            derive.vocab(Tokenizer(file=name), tmp_path)
    for tokenizer in (Tokenizer(), Tokenizer(bpe=300, file="t.json")):
        with pytest.raises(StudyError, match=r"neither|both"):
            derive.vocab(tokenizer)
