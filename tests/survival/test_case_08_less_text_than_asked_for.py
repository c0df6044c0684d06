"""Too little text is a clear error; less text than the budget means further epochs, counted and in another order."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ostinato.data import BatchPlan, rows
from ostinato.data.prepare import prepare
from ostinato.errors import DataError
from ostinato.study.records import Data, Tokenizer


@pytest.fixture
def prepared(tmp_path, request):
    documents = [f"document {i} " + "word " * 30 for i in range(40)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    data = Data(corpus=str(tmp_path / "a.jsonl"), tokenizer=Tokenizer(bpe=260), packing=request.param, validation=0.1, held_out=0.1)
    return prepare(data, tmp_path / "cache")


@pytest.mark.parametrize("prepared", ["contiguous", "best-fit"], indirect=True)
def test_fewer_rows_than_one_step(prepared):
    packed = rows(prepared, "train", 64)
    with pytest.raises(DataError) as error:
        BatchPlan(packed, len(packed) + 1, 1)
    assert f"{len(packed)} rows of 64 tokens" in str(error.value) and f"set batch to {len(packed) * 64} or less" in str(error.value)
    assert BatchPlan(packed, len(packed), 1).batch(0).shape == packed.shape


@pytest.mark.parametrize("prepared", ["contiguous", "best-fit"], indirect=True)
def test_fewer_tokens_than_one_row(prepared):
    with pytest.raises(DataError, match="fewer than one row"):
        rows(prepared, "train", 10_000_000)


@pytest.mark.parametrize("prepared", ["contiguous", "best-fit"], indirect=True)
def test_a_budget_of_several_epochs_is_counted(prepared):
    packed = rows(prepared, "train", 64)
    plan = BatchPlan(packed, 4, 1)
    steps = -(-3 * len(packed) // 4)
    assert plan.epoch_of(0) == 0 and plan.epochs_begun(1) == 1 and plan.epochs_begun(steps) in (3, 4)
    assert plan.first_epoch_end_tokens == len(packed) * 64
    order = np.concatenate([plan.indices(step) for step in range(steps)])
    first, second = order[: len(packed)], order[len(packed) : 2 * len(packed)]
    assert sorted(first) == sorted(second) == list(range(len(packed))) and (first != second).any()
    epochs = [plan.epoch_of(step) for step in range(steps)]
    assert epochs == sorted(epochs) and epochs[-1] == (steps - 1) * 4 // len(packed)


def test_text_too_small_for_its_vocabulary(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": f"text {i}"}) + "\n" for i in range(9)))
    with pytest.raises(DataError, match="not 4,096"):
        prepare(Data(corpus=str(tmp_path / "a.jsonl"), tokenizer=Tokenizer(bpe=4096)), tmp_path / "cache")
