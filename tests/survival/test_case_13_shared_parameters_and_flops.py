"""Case 13: what is applied again costs FLOPs and no parameters; what is tied, parameters and no FLOPs; what is looked up, nothing.

A bias-free 100 x 100 layer applied three times has 10,000 parameters and takes 60,000 forward FLOPs a token: here the MLP of one layer, two
matrices of 50 x 100.
"""

from __future__ import annotations

import pytest

from ostinato.ledger import account
from ostinato.study.records import Arm, Data, Model, Recipe

VOCAB, CONTEXT, WIDTH = 70, 16, 100
BARE = {"d_model": WIDTH, "heads": 4, "mlp": {"kind": "relu2", "hidden": 50}, "norm": {"weight": False}, "positions": "none"}


def ledger(layers=1, **model):
    arm = Arm(name="arm", model=Model(layers=("gqa",) * layers, **{**BARE, **model}), data=Data(), seeds=(1,),
              recipe=Recipe(tokens=160, batch=32, context=CONTEXT))  # fmt: skip
    return account(arm, VOCAB)


def test_a_layer_applied_three_times():
    thrice = ledger(schedule="1x3:mlp")
    assert [row.params for row in thrice.applications] == [10_000] * 3
    assert [row.params_new for row in thrice.applications] == [10_000, 0, 0]
    assert sum(row.flops_forward for row in thrice.applications) == 60_000
    assert thrice.flops_forward_per_token == 60_000 + 2 * VOCAB * WIDTH
    assert thrice.flops_per_token == 3 * thrice.flops_forward_per_token


@pytest.mark.parametrize("again", [2, 3, 7])
@pytest.mark.parametrize("part", ["", ":attn", ":mlp"])
def test_repetition_multiplies_flops_alone(part, again):
    once, more = ledger(2, schedule=f"1..2{part}"), ledger(2, schedule=f"(1..2)x{again}{part}")
    head = 2 * VOCAB * WIDTH
    assert more.params_total == once.params_total and more.params_by_role == once.params_by_role
    assert more.flops_forward_per_token - head == again * (once.flops_forward_per_token - head)
    assert more.effective_depth == again * once.effective_depth and more.unique_layers == once.unique_layers
    assert more.params_applied == again * once.params_applied


def test_a_tied_head_saves_parameters_and_no_flops():
    tied, untied = ledger(), ledger(tie_embeddings=False)
    assert untied.params_total - tied.params_total == VOCAB * WIDTH
    assert untied.flops_per_token == tied.flops_per_token and untied.flops_per_token_trainer == tied.flops_per_token_trainer
    assert untied.params_nonembedding == tied.params_nonembedding


@pytest.mark.parametrize(
    ("tie", "saved"), [({"2:attn": "1:attn"}, 4 * WIDTH**2), ({"2:mlp": "1:mlp"}, 10_000), ({"2": "1"}, 4 * WIDTH**2 + 10_000)]
)
def test_a_tied_sublayer_saves_parameters_and_no_flops(tie, saved):
    tied, own = ledger(2, tie=tie), ledger(2)
    assert own.params_total - tied.params_total == saved
    assert tied.flops_per_token == own.flops_per_token
    assert [row.flops_forward for row in tied.applications] == [row.flops_forward for row in own.applications]
    assert not tied.unused


@pytest.mark.parametrize(("table", "size"), [({"bigram_table": 999}, 999 * WIDTH), ({"positions": "learned"}, CONTEXT * WIDTH),
                                             ({"value_embeddings": "all"}, VOCAB * WIDTH + 4 * 32)])  # fmt: skip
def test_a_look_up_costs_nothing(table, size):
    plain, with_table = ledger(), ledger(**table)
    assert with_table.params_total - plain.params_total == size
    assert with_table.flops_per_token == plain.flops_per_token


def test_the_embedding_itself_costs_nothing():
    """With a head of its own, a larger vocabulary adds the head's product only."""
    small = ledger(tie_embeddings=False)
    large = account(small.arm, 10 * VOCAB)
    assert large.params_total - small.params_total == 2 * 9 * VOCAB * WIDTH
    assert large.flops_forward_per_token - small.flops_forward_per_token == 2 * 9 * VOCAB * WIDTH
