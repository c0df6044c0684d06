"""The table of a study: finished, half done, failed, never begun. Nothing is dropped, and nothing is compared that should not be."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from ostinato.analysis import results_table


def by_name(study, store, part="validation"):
    return {row.name: row for row in results_table(study, store, part)}


def test_a_finished_study(bench, study, store):
    for seed in (1, 2):
        bench.run("plain", seed, 3.0)
        bench.run("twice", seed, 2.9)
        bench.run("deep", seed, 3.1)
    rows = by_name(study, store)
    assert list(rows) == ["plain", "twice", "deep", "later"]
    twice = rows["twice"]
    assert twice.sums.targets == 40 and twice.targets == 20 and twice.sums.nats_per_token == pytest.approx(2.9 + 0.005 * 1.5)
    assert twice.tokens == 2048 and twice.final and twice.gain_final and twice.seeds_used == (1, 2)
    assert twice.seeds.mean == pytest.approx(0.1) and twice.pairing.gain == pytest.approx(0.1)
    assert twice.words == "better by 0.100 nats" and rows["deep"].words == "worse by 0.100 nats" and rows["plain"].words == "the reference"
    assert "weak: two seeds" in twice.caution and twice.pairing.documents_won == 4 and twice.seconds == 4.0
    assert twice.windows == "each document alone"
    assert [rows[name].below_floors for name in ("plain", "twice", "deep", "later")] == [False, False, False, None]
    assert rows["later"].runs[0].state == "not asked" and rows["later"].words == "later is not measured yet"


def test_what_was_measured_of_the_cost(bench, study, store):
    bench.run("plain", 1, 3.0).write_peak(500, "cpu")
    bench.run("plain", 2, 3.0).write_peak(400, "cpu")
    bench.run("twice", 1, 2.9)
    rows = by_name(study, store)
    assert [run.peak_bytes for run in rows["plain"].runs] == [500, 400]
    plain, twice, deep = (rows[name].record() for name in ("plain", "twice", "deep"))
    assert (plain["peak_bytes"], plain["tokens_per_s"]) == (500, 512.0)
    assert (twice["peak_bytes"], twice["tokens_per_s"]) == (None, 512.0)
    assert (deep["peak_bytes"], deep["tokens_per_s"]) == (None, None)


def test_floors(bench, study, store):
    bench.run("plain", 1, 2.5)
    row = by_name(study, store)["plain"]
    assert row.below_floors is True and row.floors == {"unigram": 5.0, "bigram": 2.9}


def test_failed_unfinished_and_missing_runs_are_shown(bench, study, store):
    bench.run("plain", 1, 3.0)
    bench.run("plain", 2, 3.0)
    bench.run("twice", 1, 2.9)
    bench.run("twice", 2, 2.9, tokens=(1024,), state="failed", error="loss is not finite at step 2")
    bench.run("deep", 1, 2.9, tokens=(), state="stopped")
    rows = by_name(study, store)
    twice = rows["twice"].record()
    assert (
        twice["seeds"] == [1, 2]
        and twice["seeds_done"] == [1]
        and twice["seeds_failed"] == [2]
        and twice["gain_by_seed"] == {"1": pytest.approx(0.1)}
    )
    assert (
        twice["runs"][1]["error"] == "loss is not finite at step 2"
        and "failed: seed 2" in twice["caution"]
        and "one seed" in twice["caution"]
    )
    deep = rows["deep"].record()
    assert deep["nats"] is None and deep["gain"] is None and deep["seeds_unfinished"] == [1] and deep["seeds_missing"] == [2]
    assert "not finished: seed 1; not begun: seed 2" in deep["caution"]


def test_half_done_runs_are_compared_at_the_last_point_that_both_have(bench, study, store):
    bench.run("plain", 1, 3.0)
    bench.run("twice", 1, 2.8, tokens=(1024,), state="running")
    row = by_name(study, store)["twice"]
    assert row.gain_tokens == 1024 and not row.gain_final and not row.final and row.seeds.mean == pytest.approx(0.2)
    assert "at 1,024 of 2,048 tokens" in row.caution and row.runs[0].state == "stopped"


def test_a_study_that_never_ran_has_every_row(study, store):
    rows = results_table(study, store)
    assert [[run.state for run in row.runs] for row in rows] == [["missing"] * 2, ["missing"] * 2, ["missing"] * 2, ["not asked"]]
    assert all(row.sums.nats_per_token is None and row.ledger.params_total > 0 for row in rows)


def test_other_targets_are_said_and_not_compared(bench, study, store, targets):
    bench.run("plain", 1, 3.0)
    other = SimpleNamespace(**{**vars(targets), "id": "u" * 64})
    bench.run("twice", 1, 2.9, targets=other)
    row = by_name(study, store)["twice"]
    assert row.pairing is None and row.words.startswith("not comparable") and row.record()["gain"] is None
    assert row.sums.nats_per_token == pytest.approx(2.905)


def test_held_out_is_measured_apart_and_looking_is_logged(bench, study, store):
    bench.run("plain", 1, 3.0)
    folder = store.study_folder("tiny")
    assert by_name(study, store)["plain"].part == "validation" and folder.held_out_shown() is None
    assert by_name(study, store, "held_out")["plain"].sums.nats_per_token == pytest.approx(3.505)
    assert folder.held_out_shown() is not None


def test_records_are_json(bench, study, store):
    bench.run("plain", 1, 3.0)
    bench.run("twice", 1, 2.9)
    rows = [row.record() for row in results_table(study, store)]
    assert json.loads(json.dumps(rows, allow_nan=False))[1]["gain_interval_documents"] is not None
