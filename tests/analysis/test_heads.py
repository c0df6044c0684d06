"""Scores from stored sums, the strongest head of a kind, and where long matches are resolved."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ostinato.analysis.heads import REPEATED, WINDOWS, Head, heads, heads_of, resolved
from ostinato.data.classes import TokenClasses

APPLICATIONS = [{"index": index, "layer": layer, "part": part, "pass_": pass_}
                for index, (layer, part, pass_) in enumerate([(1, "both", 1), (2, "both", 1), (1, "attn", 2)])]  # fmt: skip
ABOUT = {"relative_error": 1e-7, "recurrent": [1], "applications": APPLICATIONS}


def rows(sums, counts=(8, 8, 0), text=REPEATED):
    """sums: of induction, by application and head; the other scores are 1 everywhere."""
    names = ("induction", "previous", "duplicate")
    return [{"text": text, "application": application, "layer": APPLICATIONS[application]["layer"],
             "pass": APPLICATIONS[application]["pass_"], "head": head, "score": score, "sum": total if score == "induction" else 1.0,
             "chance": 2.0, "count": counts[place]}
            for application, each in sums.items() for head, total in enumerate(each) for place, score in enumerate(names)]  # fmt: skip


def test_scores_are_sums_by_counts_and_what_saw_no_key_has_none():
    found = heads_of("twice", 1, 100, rows({0: [2.0, 6.0], 2: [7.0, 0.0]}), ABOUT)
    assert found.of("induction") == (
        Head(0, "1", 0, 0.25, 0.25, 8), Head(0, "1", 1, 0.75, 0.25, 8),
        Head(2, "1:attn, pass 2", 0, 0.875, 0.25, 8), Head(2, "1:attn, pass 2", 1, 0.0, 0.25, 8))  # fmt: skip
    assert found.of("duplicate") == () and found.strongest("duplicate") is None and found.of("induction", WINDOWS) == ()
    assert found.strongest("induction").head == 0 and found.strongest("induction").application == 2
    assert found.strongest("previous") == Head(0, "1", 0, 0.125, 0.25, 8), "the first of equals"
    assert found.places == {0: "1", 2: "1:attn, pass 2"} and found.recurrent == (1,) and found.error == 1e-7


def stored(folder, name, table, tokens=2048, **about):
    folder.write_measure(name, {"target_id": "t" * 64}, tokens, table, ABOUT | {"evaluation": folder.evaluation} | about)


def test_of_a_study_every_run_stands_alone_at_the_furthest_point(bench, study, store):
    folders = {seed: bench.run("twice", seed, 3.0) for seed in (1, 2)}
    assert heads(study, store) == [] and resolved(study, store) == {}
    for seed, folder in folders.items():
        stored(folder, "heads", pa.Table.from_pylist(rows({0: [1.0, 1.0 + seed]})))
        stored(folder, "heads", pa.Table.from_pylist(rows({0: [8.0, 8.0]})), 1024)
    found = heads(study, store)
    assert [(one.arm, one.seed, one.tokens, one.strongest("induction").score) for one in found] == [
        ("twice", 1, 2048, 0.25), ("twice", 2, 2048, 0.375)]  # fmt: skip


@pytest.mark.parametrize(("margin", "wanted"), [(0.5, (2, "1:attn, pass 2")), (0.7, (1, "2")), (9.0, (0, "1"))])
def test_where_long_matches_are_resolved(bench, study, store, margin, wanted):
    """Targets 0..9 continue a match of 8, the others none; theirs is what counts."""
    folder = bench.run("twice", 1, 3.0)
    long = np.arange(20) < 10
    columns = {"input": 9.0, "after_0": 4.0, "after_1": 1.5, "after_2": 0.9}
    table = {name: np.where(long, nats, 5.0).astype(np.float32) for name, nats in columns.items()}
    stored(folder, "lens", pa.table({"target": np.arange(20), **table}))
    assert resolved(study, store, margin) == {}, "classes that are not stored"
    match = np.where(long, 8, -1).astype(np.int8)
    store.write_classes("t" * 64, "d" * 64, TokenClasses(match, match, np.ones(20, np.int64), *np.ones((2, 20), np.int32)))
    assert resolved(study, store, margin) == {"twice": wanted}
    nothing = TokenClasses(match * 0, match * 0, np.ones(20, np.int64), *np.ones((2, 20), np.int32))
    store.write_classes("t" * 64, "d" * 64, nothing)
    assert resolved(study, store, margin) == {}, "no target of the kind"
