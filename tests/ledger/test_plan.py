"""The plans of the shipped studies give the published rows, at once and as plain values."""

from __future__ import annotations

import json
import time

import pytest

from ostinato.ledger.plan import plan
from ostinato.study import load_study, shipped, sizes


def rows(name):
    return {row["arm"]: row for row in plan(load_study(name)).rows()}


def test_loop2_rows_by_the_names_of_the_source(golden):
    mine = rows("loop2")
    for row in golden("loop2_costs")["arms"]:
        found = mine[row["arm"]]
        assert (found["params_total"], found["flops_per_token"]) == (row["params_total"], row["flops_per_token"]), row["arm"]
        assert found["tokens"] == golden("loop2_costs")["recipe"]["tokens"]
    assert mine["base8"]["flops_per_token_trainer"] == golden("loop2_costs")["flops_per_token_trainer"]["base"]


def test_hybrid_rows(golden):
    mine = rows("hybrid")
    for row in golden("hybrid_costs")["arms"]:
        found = mine[row["arm"]]
        assert (found["params_nonembedding"], found["effective_depth"], found["unique_layers"]) == (
            row["nonembedding_params"], row["effective_depth"], row["unique_layers"],
        )  # fmt: skip


def test_ilr_rows(golden):
    published = golden("ilr_costs")
    small, large = published["small"]["params"], published["large"]["params"]
    learned = published["learned_positions_small"]
    untied = ("deep8",)
    for name, row in rows("ilr").items():
        if any(word in name for word in untied):
            assert row["params_total"] > small
        elif "learned" in name:
            assert row["params_total"] in (small + learned, large + 1024 * 768), name
        else:
            assert row["params_total"] == (large if "large" in name else small), name


@pytest.mark.parametrize("name", shipped())
def test_every_plan_is_drawn_up_at_once_and_is_json(name):
    for size in sizes(name) or (None,):
        start = time.process_time()
        drawn = plan(load_study(name, size))
        assert time.process_time() - start < max(1, 0.03 * len(drawn.study.arms))  # phi has 116 arms
        again = json.loads(json.dumps(drawn.rows(), allow_nan=False))
        for row in again:
            assert {"arm", "params_total", "params_nonembedding", "flops_per_token", "effective_depth", "unique_layers", "tokens"} <= set(
                row
            )
            assert not row["unused"]
        assert set(drawn.comparisons) == {arm.name for arm in drawn.study.arms} - {drawn.study.reference}


def test_the_unmatched_axes_that_reviewers_asked_for_are_shown():
    ilr = plan(load_study("ilr"))
    assert any(warning.startswith("injection in some looped arms only") for warning in ilr.warnings)
    hybrid = plan(load_study("hybrid"))
    assert any(warning.startswith("residual scaling at initialisation in some arms only") for warning in hybrid.warnings)
    alone = [warning for warning in hybrid.warnings if warning.startswith("no untied control of equal training FLOPs for")]
    assert any("Recursive 3:1" in warning and "the nearest, Untied 18," in warning for warning in alone)
    assert not any("for Recursive 2:1 (" in warning for warning in alone), "Untied 18 and GDN 2:1 longer are its controls"
    assert any("one learning rate" in warning for warning in plan(load_study("quickstart")).warnings)
