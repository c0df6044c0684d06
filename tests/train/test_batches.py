"""Batches on a GPU: pinned, queued, one step ahead; on a CPU nothing of it. No GPU is needed to know which calls are made."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ostinato.data import BatchPlan
from ostinato.train.batches import Batches
from ostinato.train.step import MicroBatch, accumulate, micro_batches

CUDA = torch.device("cuda")


@pytest.fixture
def gpu(monkeypatch):
    """Tensors go to "cuda" by staying where they are; the calls are kept."""
    calls = []
    genuine = torch.Tensor.to

    def to(self, *given, **named):
        if given and given[0] == CUDA:
            calls.append(("to", named))
            return self
        return genuine(self, *given, **named)

    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: (calls.append("pin"), self)[1])
    return calls


@pytest.fixture
def plan():
    return BatchPlan(np.arange(60, dtype=np.uint16).reshape(12, 5), 4, seed=1)


def same(one: list[MicroBatch], other: list[MicroBatch]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(torch.equal(a.tokens_BT, b.tokens_BT) and torch.equal(a.targets_BT, b.targets_BT) for a, b in pairs)


def test_every_copy_to_a_gpu_is_pinned_and_not_waited_for(gpu, plan):
    keys_B2 = torch.zeros(4, 2, dtype=torch.int64)
    (one,) = micro_batches(plan.batch(0), 4, 7, CUDA, keys_B2)
    assert gpu == ["pin", ("to", {"non_blocking": True})] * 3
    assert one.known == 16 == one.counted
    gpu.clear()
    list(micro_batches(plan.batch(0), 2, 7, torch.device("cpu"), keys_B2))
    assert gpu == []


def test_the_next_step_is_made_ahead_and_is_the_same(gpu, plan):
    batches, plainly = Batches(plan, None, False, CUDA), Batches(plan, None, False, torch.device("cpu"))
    batches.ahead(1, 2)
    made, calls = batches._made[1], len(gpu)
    assert batches.of(1, 2) is made and len(gpu) == calls
    assert same(made, plainly.of(1, 2))
    assert batches.of(1, 2) is not made, "given away once, so that nothing is kept on the device"


@pytest.mark.parametrize("asked", [(2, 2), (1, 1)])
def test_what_was_made_for_another_step_or_cut_is_not_used(gpu, plan, asked):
    batches, plainly = Batches(plan, None, True, CUDA), Batches(plan, None, True, torch.device("cpu"))
    batches.ahead(1, 2)
    found, expected = batches.of(*asked), plainly.of(*asked)
    assert same(found, expected)
    assert all(torch.equal(one.keys_B2, other.keys_B2) for one, other in zip(found, expected, strict=True))


def test_on_a_cpu_nothing_is_made_ahead(plan):
    batches = Batches(plan, None, False, torch.device("cpu"))
    batches.ahead(1, 2)
    assert batches._made is None


def test_a_step_makes_the_next_one_after_its_work_is_queued(make_trainer):
    order = []
    trainer = make_trainer()
    batches = trainer.batches
    of, ahead = batches.of, batches.ahead
    batches.of = lambda step, rows: (order.append(("of", step)), of(step, rows))[1]
    batches.ahead = lambda step, rows: (order.append(("ahead", step)), ahead(step, rows))[1]
    trainer.step()
    trainer.step()
    assert order == [("of", 0), ("ahead", 1), ("of", 1), ("ahead", 2)]


def test_a_gpu_is_waited_for_once_a_step():
    """Everything that reads a number from a tensor is counted; on a GPU each of them would wait."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(()))

        def losses(self, tokens_BT, targets_BT, documents_BT=None):
            return self.weight * tokens_BT

    model, reads = Model(), []

    class Counted(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default):
                reads.append(func)
            return func(*args, **(kwargs or {}))

    batches = list(micro_batches(np.ones((4, 5), dtype=np.int64), 2, None, torch.device("cpu")))
    with Counted():
        accumulate(model, batches, [model.weight], lambda: reads.append("meanwhile"))
    assert reads == ["meanwhile"], "and then one tolist, which no operation stands for"
