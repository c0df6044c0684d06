"""A key that does nothing is said; the same key where it works is not."""

from __future__ import annotations

import pytest

from ostinato.errors import StudyError
from ostinato.study import load_study, shipped, sizes

BASE = "model: {{layers: 2, d_model: 32, heads: 2{model}}}\nrecipe: {{tokens: 4k, batch: 256, context: 64{recipe}}}\n"


@pytest.fixture
def warned(tmp_path):
    def warned(model="", recipe="", data="", arms="{plain: {}}"):
        file = tmp_path / "study.yaml"
        file.write_text(BASE.format(model=model, recipe=recipe) + f"data: {{corpus: {data or 'python-docs'}}}\narms: {arms}\n")
        return [warning.split(" ")[0] for warning in load_study(file).warnings if "does nothing" in warning]

    return warned


@pytest.mark.parametrize(
    ("keys", "name", "working"),
    [
        ({"model": ", positions: alibi, rope_base: 500"}, "model.rope_base", {"model": ", rope_base: 500"}),
        ({"model": ", windows: {short: 9}"}, "model.windows.short", {"model": ", windows: {pattern: SL, short: 9}"}),
        ({"model": ", init: {rule: loop2, std: 1}"}, "model.init.std", {"model": ", init: {std: 1}"}),
        ({"model": ", inject: linear"}, "model.inject", {"model": ", inject: linear, schedule: (1..2)x2"}),
        ({"model": ", pass_norm: yes"}, "model.pass_norm", {"model": ", pass_norm: yes, schedule: (1..2)x2"}),
        ({"model": ", h0: noise, schedule: (1..2)x2, inject: add"}, "model.h0",
         {"model": ", h0: noise, inject: linear, schedule: 1..2 1..2"}),
        ({"model": ", h0: noise, inject: add, pass_norm: yes, schedule: (1..2)x2"}, "model.h0", {"model": ", inject: add"}),
        ({"recipe": ", decay_to_zero: yes"}, "recipe.decay_to_zero", {"recipe": ", decay_to_zero: yes, weight_decay: 0.1"}),
        ({"recipe": ", lr_schedule: {decay: 0, final: 0.1}"}, "recipe.lr_schedule.final", {"recipe": ", lr_schedule: {final: 0.1}"}),
        ({"recipe": ", lr_schedule: {decay: 0, shape: cosine}"}, "recipe.lr_schedule.shape", {"recipe": ", lr_schedule: {shape: cosine}"}),
        ({"recipe": ", optimizer: adamw, muon: {steps: 4}"}, "recipe.muon.steps", {"recipe": ", muon: {steps: 4}"}),
        ({"recipe": ", muon: {momentum_steps: 9}"}, "recipe.muon.momentum_steps",
         {"recipe": ", muon: {momentum_start: 0.8, momentum_steps: 9}"}),
        ({"data": "python-docs, buffer: 9"}, "data.buffer", {"data": "python-docs, buffer: 9, packing: best-fit"}),
        ({"data": "python-docs, field: body"}, "data.field", {"data": "a.jsonl, field: body"}),
        ({"data": "python-docs, separator: '%'"}, "data.separator", {"data": "a.txt, separator: '%'"}),
        ({"data": "owner/name, separator: '%'"}, "data.separator", {"data": "./owner/name, separator: '%'"}),
        ({"data": "fineweb-edu, most: 1M, encoding: latin-1"}, "data.encoding", {"data": "a.jsonl, encoding: latin-1"}),
    ],
)  # fmt: skip
def test_a_key_without_effect_is_said(warned, keys, name, working):
    assert warned(**keys) == [name]
    assert warned(**working) == []


def test_a_gate_of_attention_needs_attention(warned):
    gated = "{plain: {attn_gate: head, layers: [gdn, gdn]}}"
    assert warned(arms=gated) == ["model.attn_gate"]
    assert warned(arms=gated.replace("gdn, gdn", "gdn, gqa")) == []


@pytest.mark.parametrize(
    ("key", "name"),
    [("kv_heads: 1", "kv_heads"), ("qk_norm: weight", "qk_norm"), ("windows: {pattern: SL}", "windows.pattern"),
     ("positions: alibi", "positions"), ("rope_base: 500", "rope_base")],
)  # fmt: skip
def test_what_is_for_attention_needs_attention(warned, key, name):
    arms = f"{{plain: {{layers: [gdn, gdn], {key}}}}}"
    assert warned(arms=arms) == [f"model.{name}"]
    assert warned(arms=arms.replace("gdn, gdn", "gqa, gqa").replace("SL}", "SL, short: 9}")) == []


def test_a_short_window_of_a_gated_delta_layer_is_none(warned):
    short = "{plain: {layers: [gdn, gqa], windows: {pattern: SL, short: 9}}}"
    assert warned(arms=short) == ["model.windows.short"]
    assert warned(arms=short.replace("gdn, gqa", "gqa, gdn")) == []


def test_positions_of_every_token_need_no_attention(warned):
    assert warned(arms="{plain: {layers: [gdn, gdn], positions: learned}, none: {layers: [gdn, gdn], positions: none}}") == []


def test_what_the_family_sets_was_not_set_here(warned):
    arms = "{plain: {family: loop2, layers: [gdn, gdn], value_embeddings: none}}"
    assert warned(arms=arms) == []
    assert warned(arms=arms.replace("none}", "none, qk_norm: weight}")) == ["model.qk_norm"]


def test_one_arm_in_which_it_works_is_enough(warned):
    assert warned(model=", rope_base: 500", arms="{plain: {}, none: {positions: none}}") == []


@pytest.mark.parametrize("name", shipped())
def test_shipped_studies_set_nothing_in_vain(name):
    for size in sizes(name) or (None,):
        assert not [warning for warning in load_study(name, size).warnings if "does nothing" in warning], (name, size)


@pytest.mark.parametrize("key", ["betas: [0.9, 0.99]", "eps: 1e-6"])
def test_muon_refuses_what_it_has_not(warned, key):
    with pytest.raises(StudyError, match="Muon has neither betas nor eps"):
        warned(recipe=f", groups: {{matrix: {{{key}}}}}")
    assert warned(recipe=f", groups: {{matrix: {{{key}, kind: adamw}}, embedding: {{{key}}}}}") == []
