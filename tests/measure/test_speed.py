"""What is said of speed and memory: whole and consistent, caches as the ledger foretells them, and what a calibration says beside it."""

from __future__ import annotations

import pytest
import torch

from ostinato.ledger.seconds import Calibration, Pace
from ostinato.ledger.work import FORWARD, STEP, measuring_work, step_work
from ostinato.measure import speed
from ostinato.measure.context import Context
from ostinato.measure.memory import allocated
from ostinato.measure.speed import median_seconds, take
from ostinato.measure.subject import Ours
from ostinato.model import build
from ostinato.study.records import Measure

MODELS = {
    "twice, grouped": {"schedule": "1..2 1..2:attn", "heads": 4, "kv_heads": 2},
    "hybrid": {"layers": ["gdn", "gqa"], "schedule": "(1..2)x2"},
    "windows": {"windows": {"pattern": "SL", "short": 5}},
    "learned positions": {"positions": "learned"},
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(speed, "SECONDS", 0.0)
    monkeypatch.setattr(speed, "found_calibration", lambda device: None)


def taken(arm, batch=64, compute_dtype=None):
    decoder = build(arm.model, 300, arm.recipe.context, 1, bos=0, compute_dtype=compute_dtype).eval()
    told = []
    found = take(Ours(decoder), Context(Measure(), batch=batch, arm=arm, progress=lambda *at: told.append(at)))
    assert told == [(1, 2), (2, 2)]
    return *found.table.to_pylist(), found.about


@pytest.mark.parametrize("model", MODELS)
def test_the_cache_holds_what_the_ledger_foretells(small_arm, model):
    forward, generation, about = taken(small_arm(model=MODELS[model]))
    assert generation["bytes"] == generation["predicted_bytes"] > 0
    assert (generation["what"], generation["rows"], generation["tokens"]) == ("generation", 1, 16)
    assert (forward["what"], forward["rows"], forward["tokens"]) == ("forward", 4, 16)
    for row in (forward, generation):
        assert row["tokens_per_s"] == row["rows"] * row["tokens"] / row["seconds"] > 0 and row["predicted_tokens_per_s"] is None
    assert about == {"device": "cpu", "threads": torch.get_num_threads(), "dtype": "float32", "training": None}


def test_in_another_number_format(small_arm):
    arm = small_arm(recipe={"dtype": "bfloat16"})
    _, generation, about = taken(arm, compute_dtype=torch.bfloat16)
    assert about["dtype"] == "bfloat16" and generation["bytes"] == generation["predicted_bytes"]


def test_a_forward_pass_holds_the_weights_and_more_with_more_rows(small_arm):
    arm = small_arm()
    weights = sum(4 * parameter.numel() for parameter in build(arm.model, 300, 16, 1, "meta").parameters())
    one, many = (taken(arm, batch)[0] for batch in (1, 256))
    assert one["rows"] == 1 and many["rows"] == 16 and weights < one["bytes"] < many["bytes"]


def test_where_memory_runs_out_fewer_rows_are_timed(small_arm, monkeypatch, caplog):
    genuine = Ours.losses

    def small(self, tokens, *rest):
        if len(tokens) > 2:
            raise MemoryError
        return genuine(self, tokens, *rest)

    monkeypatch.setattr(Ours, "losses", small)
    assert taken(small_arm())[0]["rows"] == 2 and len(caplog.records) == 1


def test_what_a_calibration_foretells_stands_beside_it(small_arm, monkeypatch):
    """One that needs 1 ms for each call of an operation, and nothing for anything else."""
    pace = Pace(1, 1, "float32", dict.fromkeys(STEP, 0.0) | {"calls": 1e-3}, dict.fromkeys(FORWARD, 0.0) | {"calls": 1e-3}, 1.0)
    monkeypatch.setattr(speed, "found_calibration", lambda device: Calibration("a processor", 1, "2026-11-30", (pace,)))
    arm = small_arm()
    forward, generation, about = taken(arm)
    assert about["training"] == pytest.approx(64 / (1e-3 * step_work(arm, 300)["calls"]))
    assert forward["predicted_tokens_per_s"] == pytest.approx(64 / (1e-3 * measuring_work(arm, 300, 16, 1.0, 64.0, 64)["calls"]))
    assert generation["predicted_tokens_per_s"] is None
    assert taken(small_arm(recipe={"dtype": "bfloat16"}))[2]["training"] is None, "not calibrated"


def test_the_median_of_calls_after_one_that_does_not_count(monkeypatch):
    now = iter([0.0, 3.0, 10.0, 11.0, 20.0, 29.0])
    monkeypatch.setattr(speed.time, "perf_counter", lambda: next(now))
    calls = []
    assert median_seconds(lambda: calls.append(1), 5.0, 3) == 3.0 and len(calls) == 4


def test_what_is_allocated_is_counted_and_nothing_is_printed(capfd):
    _, most = allocated(lambda: torch.zeros(1 << 18) + 1)
    assert 2 * 2**20 <= most < 2.2 * 2**20 and capfd.readouterr() == ("", "")
