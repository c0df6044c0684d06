"""A small study, small targets and a store with two runs, made without training."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from ostinato.data.classes import TokenClasses
from ostinato.store import Store, evaluation_key
from ostinato.study.records import Arm, Data, Model, Recipe, Study

MEASURED = {
    "pairs": pa.table({"paradigm": ["island"] * 2, "field": ["syntax"] * 2, "term": ["islands"] * 2, "pair": [0, 1],
                       "identical": [False, False], "good_bos": [-1.0, -2.0], "bad_bos": [-2.0, -1.5], "good_skip_first": [-0.5, -1.0],
                       "bad_skip_first": [-1.0, -0.5], "good_tokens": [3, 4], "bad_tokens": [3, 4]}),
    "heads": pa.table({"text": ["repeated"], "application": [0], "layer": [1], "pass": [1], "head": [0], "score": ["induction"],
                       "sum": [2.0], "chance": [0.5], "count": [4]}),
    "states": pa.table({"passes": [None], "application": [0], "layer": [1], "part": ["both"], "pass": [1], "positions": [10],
                        "size": [1.0], "update": [5.0], "cosine": [None], "change": [None], "distance": [None], "rank": [3.0]}),
    "lens": pa.table({"target": [0, 1, 3], "input": [9.0, 8.0, 7.0], "after_0": [5.0, 4.0, 3.0], "after_1": [2.0, 1.0, 0.5]}),
    "skips": pa.table({"target": [0, 3], "whole": [2.0, 1.0], "without_0": [3.0, 4.0], "without_1": [2.5, 1.0],
                       "without_pass_1": [6.0, 7.0], "without_pass_2": [2.5, 1.0]}),
    "depths": pa.table({"target": [0, 3], "nats_1": [3.0, 2.0], "nats_2": [2.0, 1.5], "kl_2": [0.25, 0.5]}),
}  # fmt: skip
"""Tables of measures, with the columns that their modules give."""
LABELS = [{"index": 0, "layer": 1, "part": "both", "pass_": 1}, {"index": 1, "layer": 1, "part": "attn", "pass_": 2}]
MATCH = np.array([-1, 0, 1, 8, -1] * 4, np.int8)


def make_targets(documents=4, each=5, name="t1"):
    count = documents * each
    return SimpleNamespace(
        id=name * 32,
        document=np.repeat(np.arange(documents, dtype=np.int32), each),
        position=np.tile(np.arange(1, each + 1, dtype=np.int32), documents),
        token=np.arange(count, dtype=np.int32),
        bytes=np.full(count, 3, dtype=np.int32),
        digest=np.repeat(np.arange(documents, dtype=np.uint64) + np.uint64(10), each),
        row=None,
        policy="each document alone",
    )


def make_study(name="tiny", question="?", arms=("plain", "twice"), **more):
    model, data, recipe = Model(layers=("gqa",), d_model=8, heads=2), Data(), Recipe()
    listed = tuple(Arm(name=arm, model=model, recipe=recipe, data=data, seeds=(1, 2)) for arm in arms)
    return Study(name=name, question=question, arms=listed, reference=arms[0], **more)


@pytest.fixture
def targets():
    return make_targets()


@pytest.fixture
def study():
    return make_study()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs here")


@pytest.fixture
def filled(store, study, targets):
    """Arms plain and twice, seed 1 of two, measured at 100 and 200 tokens, with held-out losses too."""
    fingerprints = {("plain", 1): "a" * 64, ("plain", 2): "b" * 64, ("twice", 1): "c" * 64, ("twice", 2): "d" * 64}
    store.create().study_folder(study.name).write(study, fingerprints)
    for arm, level in (("plain", 3.0), ("twice", 2.5)):
        folder = store.run(fingerprints[arm, 1], evaluation_key(study.evaluate, 128))
        resolved = {"ledger": {"tokens": 200, "params_total": 7}, "data_fingerprint": "f" * 64}
        folder.write_record({"study": "tiny", "arm": arm, "seed": 1}, resolved, {"git": None})
        for step in (1, 2):
            folder.append_step({"step": step, "tokens": 100 * step, "loss": level, "lr": 0.1, "grad_norm": None, "seconds": 0.5})
        folder.append_gradients({"step": 1, "tokens": 100, "targets": 8, "seconds": 0.1, "applications": [[1, "both", 1]],
                                 "norms": {"embedding.weight": level}, "dots": {}, "loss": [], "growth": []})  # fmt: skip
        for part in ("validation", "held_out"):
            for tokens in (100, 200):
                folder.write_losses(part, tokens, np.full(20, level - tokens / 1000, dtype=np.float32), targets)
        folder.set_status("done", seconds=1.5)
        for name, table in MEASURED.items():
            folder.write_measure(name, {"targets": 16, "target_id": targets.id}, 200, table, {"applications": LABELS})
    at = np.arange(20)
    store.write_classes(targets.id, "f" * 64, TokenClasses(MATCH, MATCH, at, at, at))
    other = store.model("e" * 64)
    other.write_record({"arm": "elsewhere"}, {"model": {}}, {})
    other.write_measure("pairs", {"content": "x"}, 0, MEASURED["pairs"])
    other.write_measure("lens", {"targets": 16, "target_id": "t2"}, 0, MEASURED["lens"], {"applications": LABELS})
    return store
