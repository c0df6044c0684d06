from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.data import BatchPlan, document_ids, rows


def numbered(count: int, context: int = 4) -> np.ndarray:
    return np.arange(count)[:, None] * 100 + np.arange(context + 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 3))
def test_every_row_is_seen_once_an_epoch(count, per_step, seed):
    if count < per_step:
        return
    plan = BatchPlan(numbered(count), per_step, seed)
    steps = 3 * count  # whole epochs, whatever the rows a step
    seen = np.concatenate([plan.batch(step)[:, 0] // 100 for step in range(steps)]).reshape(-1, count)
    assert (np.sort(seen, axis=1) == np.arange(count)).all()
    assert plan.epochs_begun(steps) == len(seen) == plan.epoch_of(steps - 1) + 1
    assert plan.first_epoch_end_tokens == count * 4


def test_a_batch_depends_on_seed_and_step_alone():
    forward = BatchPlan(numbered(50), 8, 7)
    all_forward = [forward.batch(step) for step in range(30)]
    backward = BatchPlan(numbered(50), 8, 7)
    for step in reversed(range(30)):
        assert (backward.batch(step) == all_forward[step]).all()
    assert all_forward[0].dtype == np.int64
    assert any((BatchPlan(numbered(50), 8, 8).batch(step) != all_forward[step]).any() for step in range(2))
    assert (np.concatenate(all_forward[:6])[:48] != np.concatenate(all_forward[6:13])[2:50]).any()  # another order in the next epoch


def test_the_order_never_changes():
    """The first rows of seed 1; another NumPy, machine or process must give the same."""
    assert BatchPlan(numbered(1000), 10, 1).indices(0).tolist() == FIRST_OF_SEED_1


FIRST_OF_SEED_1 = [936, 569, 587, 954, 58, 595, 762, 180, 116, 207]


def test_batches_come_out_of_prepared_rows(contiguous, best_fit):
    for prepared in (contiguous, best_fit):
        packed = rows(prepared, "train", 16)
        plan = BatchPlan(packed, 8, 3)
        assert (plan.batch(5) == np.stack([packed[i] for i in plan.indices(5)])).all()


def test_document_ids_count_within_the_row():
    tokens = np.array([[0, 5, 6, 0, 7, 0], [5, 6, 0, 7, 8, 9], [5, 5, 5, 5, 5, 5], [0, 0, 0, 5, 0, 0]])
    assert document_ids(tokens, 0).tolist() == [[0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 1], [0] * 6, [0, 1, 2, 2, 3, 4]]


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int64])
def test_document_ids_of_every_dtype(dtype):
    assert document_ids(np.array([[7, 1, 7]], dtype), 7).dtype == np.int64
