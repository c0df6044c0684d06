"""Memory that runs out: which errors say so, how often the work is done again, and what is said when one row does not fit."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from ostinato.data.targets import targets
from ostinato.errors import TrainingError
from ostinato.measure import measure_losses
from ostinato.measure.halving import halving, let_go, out_of_memory
from ostinato.study.records import Evaluate

CPU = torch.device("cpu")


def test_what_torch_and_numpy_raise_is_recognised():
    for impossible in (lambda: torch.empty(10**15), lambda: np.ones(10**15)):
        with pytest.raises((RuntimeError, MemoryError)) as raised:
            impossible()
        assert out_of_memory(raised.value)
    assert out_of_memory(torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    assert out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"))
    assert not out_of_memory(ValueError("out of memory"))


@pytest.mark.parametrize(("rows", "fits", "tried"), [(8, 8, [8]), (8, 3, [8, 4, 2]), (7, 1, [7, 4, 2, 1]), (1, 1, [1])])
def test_half_the_rows_until_they_fit(rows, fits, tried, caplog):
    seen = []

    def work(n):
        seen.append(n)
        if n > fits:
            raise MemoryError(f"no room for {n}")
        return f"{n} done"

    with caplog.at_level(logging.WARNING, "ostinato"):
        assert halving(rows, work, CPU, "step 3", "smaller") == (f"{tried[-1]} done", tried[-1])
    assert seen == tried
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == len(tried) - 1
    if len(tried) > 1:
        assert lines[0] == (f"step 3: out of memory with {rows} rows at once (no room for {rows}); "
                            f"again with {tried[1]}: the same result up to rounding")  # fmt: skip


def test_one_row_that_does_not_fit_is_an_error_with_a_next_step():
    with pytest.raises(TrainingError, match=r"step 1: out of memory with one row at once \(no room\)") as raised:
        halving(4, lambda n: (_ for _ in ()).throw(MemoryError("no room\nand more")), CPU, "step 1", "take a smaller context")
    assert raised.value.fix == "take a smaller context" and raised.value.__context__ is None


def test_any_other_error_is_raised_at_once():
    seen = []

    def work(n):
        seen.append(n)
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        halving(4, work, CPU, "", "")
    assert seen == [4]


def test_what_a_failed_attempt_held_is_gone_before_the_next(monkeypatch):
    import weakref

    held = []

    def work(n):
        if held:
            assert held[0]() is None
            return n
        big = torch.zeros(4)
        held.append(weakref.ref(big))
        raise MemoryError

    assert halving(2, work, CPU, "", "") == (1, 1)


def test_a_gpu_gives_back_what_it_keeps(monkeypatch):
    called = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: called.append("empty"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: called.append(device))
    let_go(CPU)
    assert called == []
    let_go(torch.device("cuda"))
    assert called == ["empty", torch.device("cuda")]


@pytest.mark.parametrize("document_mask", [False, True])
def test_measuring_goes_on_with_half_a_batch(decoder, small_text, monkeypatch, caplog, document_mask):
    wanted = targets(small_text, "validation", Evaluate(windows="rows"), 16)
    whole = measure_losses(decoder, wanted, 128, document_mask, small_text.bos)
    genuine, sizes = decoder.losses, []

    def small(tokens_BT, *rest):
        sizes.append(len(tokens_BT))
        if len(tokens_BT) > 3:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return genuine(tokens_BT, *rest)

    monkeypatch.setattr(decoder, "losses", small)
    with caplog.at_level(logging.WARNING, "ostinato"):
        found = measure_losses(decoder, wanted, 128, document_mask, small_text.bos)
    np.testing.assert_allclose(found, whole, rtol=2e-6, atol=2e-6)
    assert sizes[:3] == [8, 4, 2] and set(sizes[3:]) <= {1, 2}, "what does not fit is tried once and not at every batch"
    assert len(caplog.records) == 2
