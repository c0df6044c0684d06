"""Which axes are matched, in words."""

from __future__ import annotations

import pytest

from ostinato.ledger import account, compare

WINDOWS = {"pattern": "L"}


@pytest.fixture
def against(make_arm):
    def against(change, base=None, **recipe):
        ledgers = [
            account(make_arm("base", **{"layers": 4, **(base or {})}), 100),
            account(make_arm("arm", recipe=recipe, **{"layers": 4, **change}), 100),
        ]
        return compare(ledgers, "base")["arm"]

    return against


def axes(comparison):
    return {axis.name: axis for axis in comparison.axes}


def test_a_twin_is_equal_on_every_axis(against):
    comparison = against({})
    assert not comparison.different and all(axis.relation == "equal" for axis in comparison.axes)
    assert "Differs in nothing" in str(comparison)


def test_the_stack_twice(against):
    comparison = against({"schedule": "1..4 1..4"})
    assert {axis.name for axis in comparison.different} == {
        "FLOPs per token", "total FLOPs", "effective depth", "training memory", "cache bytes per token", "schedule",
    }  # fmt: skip
    assert axes(comparison)["effective depth"].ratio == 2 and str(axes(comparison)["effective depth"]) == "effective depth: 2 times"
    assert str(axes(comparison)["schedule"]) == "schedule: 1..4 1..4, not 1..4"
    assert "bytes of fixed states in the cache" not in axes(comparison), "a model without such states has no such axis"
    assert {"parameters", "tokens", "injection", "positions", "learning rate", "tokenizer"} <= set(comparison.equal)


def test_a_fixed_state_is_no_byte_a_token(against):
    mixed = {"layers": ["gdn", "gqa"], "heads": 2}
    comparison = against({"layers": ["gqa", "gqa"], "heads": 2}, mixed)
    assert axes(comparison)["cache bytes per token"].ratio == 2
    assert str(axes(comparison)["bytes of fixed states in the cache"]).startswith("bytes of fixed states in the cache: 0, not ")
    turned = against(mixed, {"layers": ["gqa", "gqa"], "heads": 2})
    assert str(axes(turned)["bytes of fixed states in the cache"]).endswith(", not 0")


def test_two_scalars_more_are_about_equal(against):
    comparison = against({"family": "loop2", "windows": WINDOWS, "schedule": "1..4 1"}, {"family": "loop2", "windows": WINDOWS})
    assert axes(comparison)["parameters"].relation == "about equal" and "parameters" in comparison.equal


@pytest.mark.parametrize(
    ("change", "recipe", "axis"),
    [
        ({"inject": "add"}, {}, "injection"),
        ({"residual_scaling": "effective"}, {}, "residual scaling"),
        ({"positions": "alibi"}, {}, "positions"),
        ({"rope_base": 500}, {}, "positions"),
        ({"windows": {"pattern": "SL", "short": 64}}, {}, "windows"),
        ({"tie_embeddings": False}, {}, "embedding and head"),
        ({"tie": {"3:attn": "1:attn"}}, {}, "tied sublayers"),
        ({"value_embeddings": "all"}, {}, "value embeddings"),
        ({"heads": 4}, {}, "width"),
        ({"mlp": {"kind": "swiglu", "ratio": 2}}, {}, "MLP"),
        ({"softcap": 15}, {}, "block"),
        ({"init": {"std": 0.1}}, {}, "initialisation"),
        ({"norm": {"eps": 1e-5}}, {}, "other settings"),
        ({}, {"lr": 0.01}, "learning rate"),
        ({}, {"groups": {"embedding": {"lr": 0.1}}}, "learning rate"),
        ({}, {"groups": {"embedding": {"betas": (0.8, 0.9)}}}, "optimizer"),
        ({}, {"weight_decay": 0.1}, "optimizer"),
        ({}, {"muon": {"steps": 3}}, "other settings"),
        ({}, {"lr_schedule": {"shape": "cosine"}}, "learning-rate schedule"),
        ({}, {"tokens": 8192}, "tokens"),
        ({}, {"batch": 128}, "batch"),
        ({}, {"dtype": "bfloat16"}, "precision"),
    ],
)
def test_one_change_is_named(against, change, recipe, axis):
    comparison = against(change, **recipe)
    assert axis in {differing.name for differing in comparison.different}
    assert axis in str(comparison).split("Equal:")[0]


def test_other_settings_name_what_differs(against):
    assert axes(against({"norm": {"eps": 1e-5}}))["other settings"].value == "model.norm.eps 1e-05"


def test_memory_only_settings_are_no_difference(against):
    comparison = against({}, micro_batch=64, activation_checkpointing=True)
    assert {axis.name for axis in comparison.different} == {"training memory"}


def test_an_arm_is_held_against_the_arm_that_it_names(make_arm):
    arms = [make_arm("base", layers=4), make_arm("deep", layers=8), make_arm("twice", layers=8, schedule="1..8 1..8")]
    arms[2] = arms[2].model_copy(update={"against": "deep"})
    found = compare([account(arm, 100) for arm in arms], "base")
    assert {name: one.reference for name, one in found.items()} == {"deep": "base", "twice": "deep"}
    assert "parameters" in found["twice"].equal and "parameters" not in found["deep"].equal
