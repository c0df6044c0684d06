"""Case 16: every trainable tensor in exactly one optimizer group, Muon only on 2-D matrices inside layers, the table printed;
a shared tensor is updated and decayed once a step."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from rich.console import Console

from ostinato.ledger.inventory import inventory
from ostinato.model.decoder import build
from ostinato.study.derive import optimizer_groups
from ostinato.study.families import with_family
from ostinato.study.records import Model, Recipe
from ostinato.train.groups import assign, table
from ostinato.train.optimizers import Optimizers
from ostinato.train.schedules import Settings

VOCAB, CONTEXT = 40, 12
WINDOWS = {"short": 4}
MODELS = {
    "tied head, norms with weights": {"layers": 2},
    "untied head, learned positions": {"layers": 2, "tie_embeddings": False, "positions": "learned", "qk_norm": "weight"},
    "looped": {"layers": 2, "schedule": "1..2 1..2 1:attn"},
    "tied sublayers": {"layers": 4, "tie": {"3..4:attn": "1..2:attn", "4:mlp": "2:mlp"}},
    "loop2 with everything": {"family": "loop2", "layers": 4, "windows": WINDOWS, "bigram_table": 64, "value_embeddings": "all",
                              "schedule": "1..4 1..4", "kv_heads": 1},
    "gate a head": {"layers": 2, "attn_gate": "head"},
    "a recurrent core": {"layers": 4, "schedule": "1 (2..3)x2 4", "inject": "linear", "pass_norm": True, "attn_gate": "channel",
                         "tie": {"4:attn": "1:attn"}},
    "a layer that nothing uses": {"layers": 3, "schedule": "1 3"},
}  # fmt: skip


def record(name: str) -> Model:
    return Model.model_validate(with_family({"d_model": 32, "heads": 2, **MODELS[name]}))


def groups_of(module: torch.nn.Module, model: Model, recipe: Recipe):
    roles = {row.name: row.role for row in inventory(model, VOCAB, CONTEXT)}
    return assign(module, roles, optimizer_groups(recipe, model))


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
@pytest.mark.parametrize("name", MODELS)
def test_every_tensor_once(name, optimizer):
    model = record(name)
    decoder = build(model, VOCAB, CONTEXT, seed=1)
    groups = groups_of(decoder, model, Recipe(optimizer=optimizer))
    held = [id(tensor) for group in groups for tensor in group.tensors]
    assert len(held) == len(set(held))
    assert set(held) == {id(tensor) for tensor in decoder.parameters()}
    assert sum(group.parameters for group in groups) == sum(tensor.numel() for tensor in decoder.parameters())
    muon = [(group.role, tensor.ndim) for group in groups if group.kind == "muon" for tensor in group.tensors]
    assert all(role in ("matrix", "gate") and dimensions == 2 for role, dimensions in muon)
    assert bool(muon) == (optimizer == "muon")


def test_convolutions_decays_and_gates_of_a_gated_delta_layer():
    model = Model.model_validate(with_family({"d_model": 32, "heads": 2, "layers": ["gdn", "gqa"]}))
    rows = inventory(model, VOCAB, CONTEXT)
    groups = groups_of(build(model, VOCAB, CONTEXT, seed=1), model, Recipe())
    assert sorted(name for group in groups for name in group.names) == sorted(row.name for row in rows)
    kinds = {name: group.kind for group in groups for name in group.names}
    assert {kinds[f"layers.1.attn.{name}_conv.weight"] for name in "qkv"} == {"adamw"}
    assert kinds["layers.1.attn.A_log"] == kinds["layers.1.attn.dt_bias"] == kinds["layers.1.attn.o_norm.weight"] == "adamw"
    assert kinds["layers.1.attn.a.weight"] == kinds["layers.1.attn.q.weight"] == "muon"


def test_injections_and_gates_of_attention_are_matrices_for_muon_and_norms_are_not():
    wanted = {"a recurrent core": {"inject": "matrix", "attn.gate": "matrix", "pass_norm": "norm"}, "gate a head": {"attn.gate": "gate"}}
    for name, roles in wanted.items():
        model = record(name)
        groups = groups_of(build(model, VOCAB, CONTEXT, seed=1), model, Recipe())
        held = {tensor: (group.role, group.kind) for group in groups for tensor in group.names}
        for last, role in roles.items():
            found = {held[tensor] for tensor in held if tensor.endswith(f"{last}.weight")}
            assert found == {(role, "adamw" if role == "norm" else "muon")}, last


def test_the_table_has_a_line_for_every_role():
    model = record("loop2 with everything")
    groups = groups_of(build(model, VOCAB, CONTEXT, seed=1), model, Recipe())
    written = io.StringIO()
    Console(width=120, file=written).print(table(groups))
    roles = {"matrix", "gate", "embedding", "head", "value_table", "bigram_table", "residual_scalar", "x0_scalar"}
    assert {group.role for group in groups} == roles
    assert all(role in written.getvalue() for role in roles)


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
@pytest.mark.parametrize("name", ["looped", "tied sublayers", "tied head, norms with weights", "a recurrent core"])
def test_a_shared_tensor_is_decayed_once_a_step(name, optimizer):
    """Zero gradients leave only the decay: every tensor shrinks by one factor, however often it is used or named."""
    model = record(name)
    decoder = build(model, VOCAB, CONTEXT, seed=1, dtype=torch.float64)
    before = {name: tensor.detach().clone() for name, tensor in decoder.named_parameters()}
    recipe = Recipe(optimizer=optimizer, lr=0.1, weight_decay=0.5)
    optimizers = Optimizers(groups_of(decoder, model, recipe), recipe.muon)
    for tensor in decoder.parameters():
        tensor.grad = torch.zeros_like(tensor)
    optimizers.step(Settings(rate=1.0, momentum=0.9, decay=1.0))
    for name, tensor in decoder.named_parameters():
        on_muon = optimizer == "muon" and (".attn." in name or ".mlp." in name or ".inject." in name)
        rate = 0.1 * (max(1.0, tensor.shape[0] / tensor.shape[1]) ** 0.5 if on_muon else 1.0)
        torch.testing.assert_close(tensor.detach(), before[name] * (1 - rate * 0.5), rtol=1e-12, atol=1e-15, msg=name)


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_a_shared_tensor_is_updated_once_with_the_sum_of_its_gradients(optimizer):
    """The looped model moves each tensor exactly as a lone tensor that was given the same gradient."""
    model, recipe = record("looped"), Recipe(optimizer=optimizer, lr=0.1)
    decoder = build(model, VOCAB, CONTEXT, seed=1, dtype=torch.float64)
    tokens = torch.randint(0, VOCAB, (2, CONTEXT + 1), generator=torch.Generator().manual_seed(1))
    decoder.losses(tokens[:, :-1], tokens[:, 1:]).sum().backward()
    alone = torch.nn.Module()
    alone.register_parameter("weight", torch.nn.Parameter(decoder.layers["1"].attn.q.weight.detach().clone()))
    alone.weight.grad = decoder.layers["1"].attn.q.weight.grad.clone()
    at = Settings(rate=1.0, momentum=0.9, decay=1.0)
    Optimizers(groups_of(decoder, model, recipe), recipe.muon).step(at)
    Optimizers(assign(alone, {"weight": "matrix"}, optimizer_groups(recipe, model)), recipe.muon).step(at)
    np.testing.assert_allclose(decoder.layers["1"].attn.q.weight.detach().numpy(), alone.weight.detach().numpy(), rtol=1e-12, atol=1e-14)
