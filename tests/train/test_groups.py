"""Every trainable tensor in exactly one group, and what is said when that is not so."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest
import torch
from rich.console import Console

from ostinato.errors import TrainingError
from ostinato.train.groups import assign, rows, table


@dataclass(frozen=True)
class Given:
    kind: str
    lr: float = 0.02
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.0


class Toy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4, bias=False)
        self.second = torch.nn.Linear(4, 6, bias=False)
        self.norm = torch.nn.RMSNorm(4)


ROLES = {"first.weight": "matrix", "second.weight": "matrix", "norm.weight": "norm"}
SETTINGS = {"matrix": Given("muon"), "norm": Given("adamw", lr=0.1), "embedding": Given("adamw")}


def test_each_tensor_once_in_the_order_of_the_settings():
    toy = Toy()
    groups = assign(toy, ROLES, SETTINGS)
    assert [(group.role, group.kind, group.names) for group in groups] == [
        ("matrix", "muon", ("first.weight", "second.weight")),
        ("norm", "adamw", ("norm.weight",)),
    ]
    assert [group.parameters for group in groups] == [40, 4]
    assert groups[1].lr == 0.1


def test_a_shared_module_counts_once():
    toy = Toy()
    toy.again = toy.first
    names = [name for group in assign(toy, ROLES, SETTINGS) for name in group.names]
    assert sorted(names) == sorted(ROLES)


def test_a_frozen_tensor_is_in_no_group():
    toy = Toy()
    toy.first.weight.requires_grad_(False)
    assert [name for group in assign(toy, ROLES, SETTINGS) for name in group.names] == ["second.weight", "norm.weight"]


def test_a_tensor_that_the_ledger_does_not_know():
    toy = Toy()
    toy.extra = torch.nn.Parameter(torch.zeros(3))
    with pytest.raises(TrainingError, match="extra has no role"):
        assign(toy, ROLES, SETTINGS)


def test_a_tensor_under_two_names_of_the_ledger():
    toy = Toy()
    toy.again = toy.first
    with pytest.raises(TrainingError, match="would be in 2 groups"):
        assign(toy, ROLES | {"again.weight": "gate"}, SETTINGS)


def test_a_name_that_the_model_does_not_have():
    with pytest.raises(TrainingError, match=r"no tensor head\.weight"):
        assign(Toy(), ROLES | {"head.weight": "head"}, SETTINGS)


def test_a_role_without_settings():
    with pytest.raises(TrainingError, match=r"no optimizer for the role norm \(norm\.weight\)"):
        assign(Toy(), ROLES, {"matrix": Given("muon")})


@pytest.mark.parametrize("role", ["embedding", "head", "value_table", "bigram_table", "positions", "norm"])
def test_muon_refuses_what_is_not_a_matrix_inside_a_layer(role):
    with pytest.raises(TrainingError, match=f"Muon cannot hold the role {role}"):
        assign(Toy(), ROLES | {"second.weight": role, "norm.weight": "matrix_like"}, {"matrix": Given("muon"), role: Given("muon")})


def test_muon_refuses_a_tensor_that_is_not_two_dimensional():
    toy = Toy()
    toy.first.weight = torch.nn.Parameter(torch.zeros(4, 1, 4))
    with pytest.raises(TrainingError, match=r"first\.weight.*\n.*2-D"):
        assign(toy, ROLES, SETTINGS)


def test_the_table_names_every_group_and_the_sum():
    groups = assign(Toy(), ROLES, SETTINGS)
    written = io.StringIO()
    Console(width=120, file=written).print(table(groups))
    lines = [line.split() for line in written.getvalue().splitlines()]
    assert any({"matrix", "muon", "2", "40", "0.02"} <= set(line) for line in lines)
    assert any({"norm", "adamw", "1", "4", "0.1"} <= set(line) for line in lines)
    assert any({"all", "3", "44"} <= set(line) for line in lines)
    assert rows(groups)[0]["names"] == ["first.weight", "second.weight"]
