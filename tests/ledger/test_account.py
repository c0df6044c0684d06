"""The ledger by itself: conventions, sums, memory, cache, JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.errors import OstinatoError
from ostinato.ledger import account, cache_bytes
from ostinato.ledger.flops import mean_keys, trainer_keys


@given(st.integers(1, 300), st.integers(1, 300))
def test_mean_keys_is_the_mean_over_the_causal_context(window, context):
    assert mean_keys(window, context) * context == sum(min(i, window) for i in range(1, context + 1))


def test_trainer_keys():
    assert trainer_keys(1025, 2048) == 1024 and trainer_keys(2048, 2048) == trainer_keys(4096, 2048) == 2048


def test_rows_add_up(make_arm):
    arm = make_arm(layers=4, schedule="1..4 1..4:attn 2:mlp", windows={"pattern": "SL", "short": 9})
    ledger = account(arm, 100)
    head = 2 * 100 * 64
    assert sum(row.flops_forward for row in ledger.applications) + head == ledger.flops_forward_per_token == ledger.flops_per_token / 3
    assert ledger.flops_total == ledger.flops_per_token * ledger.tokens == ledger.flops_per_token * 4096
    assert sum(row.params_new for row in ledger.applications) + 100 * 64 + 64 == ledger.params_total  # embedding, final norm
    assert sum(row.params for row in ledger.applications) == ledger.params_applied > ledger.params_nonembedding
    assert [row.params_new for row in ledger.applications[4:]] == [0] * 5
    assert [row.window for row in ledger.applications[3:6]] == [64, 9, 64] and ledger.applications[8].window is None
    assert sum(ledger.params_by_role.values()) == ledger.params_total


def test_scalars_belong_to_applications(make_arm):
    once = account(make_arm(family="loop2", layers=4, windows={"pattern": "L"}), 100)
    twice = account(make_arm(family="loop2", layers=4, windows={"pattern": "L"}, schedule="1..4 1..4:mlp"), 100)
    assert twice.params_total - once.params_total == 2 * 4
    assert [row.params_new for row in twice.applications[4:]] == [2] * 4


def test_tables_are_looked_up_for_nothing(make_arm):
    without = account(make_arm(layers=2), 100)
    for change in ({"bigram_table": 1000}, {"value_embeddings": "all"}, {"positions": "learned"}):
        with_table = account(make_arm(layers=2, **change), 100)
        assert with_table.flops_per_token == without.flops_per_token
        assert with_table.params_total > without.params_total
        gates = with_table.params_by_role.get("gate", 0)
        assert with_table.params_nonembedding == without.params_nonembedding + gates
        assert with_table.flops_per_token_trainer == without.flops_per_token_trainer + 6 * gates


def test_gates_of_attention(make_arm):
    """One a channel is a matrix in both conventions; one a head is a gate, in the trainer's alone."""
    plain = account(make_arm(layers=2), 100)
    head, channel = (account(make_arm(layers=2, attn_gate=gate), 100) for gate in ("head", "channel"))
    assert head.params_total - plain.params_total == head.params_by_role["gate"] == 2 * 2 * 64
    assert head.flops_per_token == plain.flops_per_token
    assert head.flops_per_token_trainer - plain.flops_per_token_trainer == 6 * 2 * 2 * 64
    assert channel.params_by_role["matrix"] - plain.params_by_role["matrix"] == 2 * 64 * 64
    assert channel.flops_per_token - plain.flops_per_token == 6 * 2 * 64 * 64
    assert channel.flops_per_token_trainer - plain.flops_per_token_trainer == 6 * 2 * 64 * 64
    gdn = account(make_arm(layers="gdn", attn_gate="channel", mlp={"hidden": 10}), 100)
    assert gdn.params_total == account(make_arm(layers="gdn", mlp={"hidden": 10}), 100).params_total


def test_an_injection_belongs_to_the_application_that_begins_a_pass(make_arm):
    core = dict(layers=4, schedule="1 (2..3)x3 4")
    plain, linear = account(make_arm(**core), 100), account(make_arm(**core, inject="linear"), 100)
    matrix = 64 * 128
    assert [new.params - old.params for new, old in zip(linear.applications, plain.applications, strict=True)] == [
        0, matrix, 0, matrix, 0, matrix, 0, 0]  # fmt: skip
    assert [row.params_new - old.params_new for row, old in zip(linear.applications, plain.applications, strict=True)] == [
        0, matrix, 0, 0, 0, 0, 0, 0]  # fmt: skip
    assert linear.params_total - plain.params_total == matrix and linear.params_applied - plain.params_applied == 3 * matrix
    assert linear.flops_per_token - plain.flops_per_token == 6 * 3 * matrix
    normed = account(make_arm(**core, pass_norm=True), 100)
    assert [row.params - old.params for row, old in zip(normed.applications, plain.applications, strict=True)] == [
        0, 0, 64, 0, 64, 0, 64, 0]  # fmt: skip
    assert normed.flops_per_token == plain.flops_per_token and normed.params_by_role["norm"] == plain.params_by_role["norm"] + 64
    assert linear.memory["activations"] > plain.memory["activations"] and not linear.unused


def test_gated_delta_rule_state_work(make_arm):
    """Three products with the E x E state of every head, a token."""
    ledger = account(make_arm(layers="gdn", heads=4, d_model=64, mlp={"hidden": 10}), 100)
    matrices = 5 * 64 * 64 + 3 * 64 * 10
    assert ledger.applications[0].flops_forward == 2 * matrices + 3 * 2 * 4 * 16 * 16
    assert ledger.flops_per_token_trainer - ledger.flops_per_token == 6 * (2 * 4 * 64 + 3 * 64 * 4)
    assert ledger.cache_bytes_per_token == 0
    assert ledger.cache_bytes_fixed == cache_bytes(ledger, 10**6) == 4 * 4 * 16 * 16 + 4 * 3 * 64 * 3


def test_cache_is_bounded_by_windows(make_arm):
    ledger = account(make_arm(layers=4, windows={"pattern": "SSSL", "short": 9}, schedule="1..4 1..4 1:mlp"), 100)
    assert ledger.cache_bytes_per_token == 8 * 2 * 64 * 4 and ledger.cache_bytes_per_token_full == 2 * 2 * 64 * 4
    assert cache_bytes(ledger, 9) == 9 * ledger.cache_bytes_per_token
    assert cache_bytes(ledger, 59) - cache_bytes(ledger, 9) == 50 * ledger.cache_bytes_per_token_full
    half = account(make_arm(layers=4, recipe={"dtype": "bfloat16"}), 100)
    assert half.cache_bytes_per_token == 4 * 2 * 64 * 2


def test_optimizer_memory(make_arm):
    adamw = account(make_arm(layers=1, recipe={"optimizer": "adamw"}), 100)
    assert (
        adamw.memory["optimizer"] == 8 * adamw.params_total
        and adamw.memory["weights"] == adamw.memory["gradients"] == 4 * adamw.params_total
    )
    muon = account(make_arm(layers=1, recipe={"optimizer": "muon", "muon": {"second_moment": None}}), 100)
    matrices = muon.params_by_role["matrix"]
    assert muon.memory["optimizer"] == 8 * (muon.params_total - matrices) + 4 * matrices
    normed = account(make_arm(layers=1, recipe={"optimizer": "muon"}), 100)
    lines = 4 * 64 + 3 * 256  # the longer side of q k v o and of gate up down
    assert normed.memory["optimizer"] == muon.memory["optimizer"] + 4 * lines


def test_memory_follows_the_micro_batch_and_checkpointing(make_arm):
    whole, half = (account(make_arm(layers=4, recipe={"batch": 512, "micro_batch": size}), 100) for size in (None, 300))
    assert half.memory["activations"] * 2 == whole.memory["activations"]  # 300 tokens are 4 whole rows of 64
    assert whole.memory["activations_checkpointed"] < whole.memory["activations"]
    checkpointed = account(make_arm(layers=4, recipe={"batch": 512, "activation_checkpointing": True}), 100)
    assert whole.memory_total - checkpointed.memory_total == whole.memory["activations"] - whole.memory["activations_checkpointed"]


def test_unused_parameters(make_arm):
    ledger = account(make_arm(layers=3, schedule="1 2:attn"), 100)
    third = {name for name in ledger.unused if name.startswith("layers.3.")}
    assert len(third) == 9
    assert set(ledger.unused) - third == {f"layers.2.{name}.weight" for name in ("mlp_norm", "mlp.gate", "mlp.up", "mlp.down")}
    assert ledger.params_unused == 64 * 3 + 2 * 3 * 64 * 256 + 4 * 64 * 64 and ledger.unique_layers == 2
    tied = account(make_arm(layers=2, schedule="2", tie={"2:attn": "1:attn"}), 100)
    assert "layers.1.attn.q.weight" not in tied.unused and "layers.1.mlp.up.weight" in tied.unused


def test_epochs_and_words_where_the_data_are_known(make_arm):
    unknown, known = account(make_arm(), 100), account(make_arm(), 100, training_tokens=2048, words=1500)
    assert unknown.epochs is unknown.first_pass_ends is unknown.words is None
    assert (known.epochs, known.first_pass_ends, known.words) == (2.0, 2048, 1500)


def test_row_is_json(make_arm):
    row = account(make_arm("twice", layers=2, schedule="1..2 1..2"), 100).row()
    again = json.loads(json.dumps(row))
    assert again["arm"] == "twice" and len(again["applications"]) == 4 and again["applications"][2]["enters_pass"] is True
    assert {"params_total", "params_nonembedding", "flops_per_token", "effective_depth", "unique_layers", "tokens"} <= set(again)


@pytest.mark.parametrize(("change", "rule"), [({"schedule": "1..3"}, "numbered from 1 to 2"), ({"heads": 3}, "d_model"),
                                              ({"tie": {"1:attn": "1:attn"}}, "tie")])  # fmt: skip
def test_a_model_that_makes_no_sense_is_a_readable_error(make_arm, change, rule):
    with pytest.raises(OstinatoError, match=rule):
        account(make_arm(**change), 100)
