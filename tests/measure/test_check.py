"""`check`: the stored losses of a checkpoint measured again, reproduced or not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ostinato.data.targets import targets
from ostinato.errors import StoreError
from ostinato.measure import measure_losses
from ostinato.measure.check import check, compare_losses
from ostinato.measure.load import load_decoder
from ostinato.model import save_weights
from ostinato.store import Store
from ostinato.study.records import Evaluate

EVALUATE = Evaluate(batch=300, stride=3)


@pytest.fixture
def run(tmp_path, decoder, small_text, small_arm):
    """A run with two checkpoints, both measured."""
    store = Store(tmp_path / "store")
    folder = store.run("ab" * 32, "evaluation")
    resolved = {"arm": small_arm().model_dump(mode="json"), "seed": 1, "data_fingerprint": small_text.fingerprint}
    folder.write_record({"arm": "small"}, resolved, {})
    folder.write_evaluation(EVALUATE.model_dump(mode="json"))
    for tokens in (640, 1280):
        path = folder.checkpoints_path / f"{tokens:012d}"
        save_weights(decoder, path / "weights.safetensors")
        (path / "manifest.json").write_text(json.dumps({"device": "cpu", "threads": 1}))
        for part in ("validation", "held_out"):
            wanted = targets(small_text, part, EVALUATE, 16)
            folder.write_losses(part, tokens, measure_losses(decoder, wanted, EVALUATE.batch, False, small_text.bos), wanted)
    return store, folder, small_text.cache


def test_reproduced_bit_for_bit(run):
    store, folder, cache = run
    found = check(folder, store, cache=cache)
    assert found.verdict == "bit-identical" and found.reproduced and found.tokens == 1280
    assert [part.part for part in found.parts] == ["held_out", "validation"] and "bit-identical" in str(found)
    assert json.loads(json.dumps(found.record()))["parts"][0]["differing"] == 0
    assert check(store.runs()[0], store, 640, cache).tokens == 640


def test_other_weights_are_not_reproduced(run, decoder):
    store, folder, cache = run
    decoder.embedding.weight.data[5] += 0.5
    save_weights(decoder, folder.checkpoints()[1280] / "weights.safetensors")
    found = check(folder, store, cache=cache)
    assert found.verdict == "not reproduced" and not found.reproduced and all(part.largest > 0 for part in found.parts)
    assert check(folder, store, 640, cache).reproduced, "the other checkpoint is as it was"


def test_verdicts():
    stored = np.array([1.0, 2.0, 3.0], np.float32)
    assert compare_losses("validation", stored, stored).verdict == "bit-identical"
    near = compare_losses("validation", stored, stored * np.float32(1 + 3e-7))
    assert near.verdict == "within 1e-6" and near.differing == 3 and 0 < near.largest < 1e-5
    assert compare_losses("validation", stored, stored * np.float32(1 + 1e-5)).verdict == "not reproduced"
    assert compare_losses("validation", np.empty(0, np.float32), np.empty(0, np.float32)).targets == 0


def test_what_cannot_be_checked_is_said(run, tmp_path):
    store, folder, cache = run
    with pytest.raises(StoreError, match="what can be checked, in tokens: 640, 1,280"):
        check(folder, store, 99, cache)
    empty = store.run("cd" * 32)
    with pytest.raises(StoreError, match="no run in"):
        check(empty, store, cache=cache)
    empty.write_record({}, {}, {})
    with pytest.raises(StoreError, match="which arm it is"):
        check(empty, store, cache=cache)
    empty = store.run("ef" * 32)
    empty.write_record({}, folder.record()["resolved"], {})
    with pytest.raises(StoreError, match="nothing yet"):
        check(empty, store, cache=cache)


def test_changed_text_is_refused(run, small_text):
    store, folder, cache = run
    other = store.run("cd" * 32, "evaluation")
    other.write_record({}, {**folder.record()["resolved"], "data_fingerprint": "0" * 64}, {})
    with pytest.raises(StoreError, match="the text of run"):
        from ostinato.measure.load import load_text

        load_text(other, cache)


def test_a_missing_checkpoint_names_those_that_are_there(run, small_text):
    with pytest.raises(StoreError, match="its checkpoints, in tokens: 640, 1,280"):
        load_decoder(run[1], small_text, 5)
