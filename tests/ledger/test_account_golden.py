"""The ledger against every published count: loop2 (17 rows), hybrid (5 rows), ilr (small and large)."""

from __future__ import annotations

import pytest

from ostinato.ledger import account

HYBRID = dict(d_model=768, heads=12, kv_heads=4, head_dim=64, mlp={"hidden": 2304}, qk_norm="weight")


@pytest.fixture
def loop2(loop2_arm):
    return lambda name: account(loop2_arm(name), 8192)


def test_loop2_rows(golden, loop2):
    rows = golden("loop2_costs")["arms"]
    assert len(rows) == 17
    for row in rows:
        ledger = loop2(row["same_model_as"])
        scalars = ledger.params_by_role["residual_scalar"] + ledger.params_by_role["x0_scalar"]
        assert ledger.params_total == row["params_total"], row["arm"]
        assert ledger.flops_per_token == row["flops_per_token"], row["arm"]
        assert ledger.params_by_role["gate"] == row["params_value_gates"] and scalars == row["params_application_scalars"]
        assert ledger.params_total - scalars - ledger.params_by_role["gate"] == row["params_matrices"]
        assert f"{ledger.flops_per_token:.2e}".replace("e+0", "e") == row["flops_per_token_published"]
        assert ledger.flops_forward_per_token * 3 == ledger.flops_per_token
        assert (ledger.tokens, ledger.steps) == (499_646_464, 953)


def test_loop2_trainer_convention(golden, loop2):
    assert loop2("base").flops_per_token_trainer == golden("loop2_costs")["flops_per_token_trainer"]["base"]


def test_hybrid_counts(golden, make_arm):
    published = golden("hybrid_costs")
    rows = {row["arm"]: row for row in published["arms"]}
    assert len(rows) == 5
    for name, row in rows.items():
        arm = make_arm(name, recipe=dict(tokens="500M", batch=131_072, context=1024), **HYBRID, **published["schedules"][name])
        ledger = account(arm, 16_384)
        assert ledger.params_nonembedding == row["nonembedding_params"]
        assert ledger.effective_depth == row["effective_depth"] and ledger.unique_layers == row["unique_layers"]
        assert ledger.params_total == row["nonembedding_params"] + 16_384 * 768
        for application in ledger.applications:
            assert application.params == published["params_per_layer"][application.kind]


@pytest.mark.parametrize("size", ["small", "large"])
def test_ilr_counts(golden, make_arm, size):
    published = golden("ilr_costs")[size]
    hidden = int(published["ffn"].split()[-1].replace(",", ""))
    model = dict(layers=published["layers"], d_model=published["d_model"], heads=published["heads"], mlp={"hidden": hidden})
    recipe = dict(tokens="500M", batch=65_536, context=published["context"])
    for positions in ("none", "rope", "alibi"):
        assert account(make_arm(recipe=recipe, positions=positions, **model), published["vocab"]).params_total == published["params"]
    learned = account(make_arm(recipe=recipe, positions="learned", **model), published["vocab"])
    assert learned.params_total - published["params"] == published["context"] * published["d_model"]
    if size == "small":
        assert learned.params_by_role["positions"] == golden("ilr_costs")["learned_positions_small"]


def test_ilr_applications(golden, make_arm):
    for written, applications in golden("ilr_costs")["applications"]:
        schedule = {"baseline": None, "block-r2": "1..4 1..4"}.get(written, str(written)) if isinstance(written, str) else str(written)
        assert account(make_arm(layers=4, schedule=schedule), 1024).effective_depth == applications


def test_the_copies_are_the_published_figures(golden, shared_golden):
    mine, theirs = golden("loop2_costs"), shared_golden("loop2")
    for row, source in zip(mine["arms"], theirs["arms"], strict=True):
        assert row == {key: source[key] for key in row}
    assert mine["recipe"] == {key: theirs["recipe"][key] for key in mine["recipe"]}
    mine, theirs = golden("hybrid_costs"), shared_golden("hybrid")
    architecture = theirs["architecture_that_reproduces_the_published_counts_exactly"]
    assert mine["schedules"] == theirs["schedules"]
    assert mine["params_per_layer"] == {kind: architecture[kind]["params_per_layer"] for kind in mine["params_per_layer"]}
    for row, source in zip(mine["arms"], theirs["arms"], strict=True):
        assert row == {key: source[key] for key in row}
    mine, theirs = golden("ilr_costs"), shared_golden("ilr")
    for size in ("small", "large"):
        assert mine[size] == {key: theirs[size][key] for key in mine[size]}
    assert mine["applications"] == [[row["map"], row["applications"]] for row in theirs["small_ppl"]]
