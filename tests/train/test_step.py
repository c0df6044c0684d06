"""The gradient of a step: sums, counts, clipping, and what stops a run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ostinato.errors import TrainingError
from ostinato.train.step import MicroBatch, accumulate, clip, gradient_norm, micro_batches

CPU = torch.device("cpu")


class Table(torch.nn.Module):
    """Losses that are looked up: nats[token], times a weight of 1."""

    def __init__(self, nats: list[float]):
        super().__init__()
        self.nats = torch.tensor(nats)
        self.weight = torch.nn.Parameter(torch.ones(()))

    def losses(self, tokens_BT, targets_BT, documents_BT=None):
        return torch.where(targets_BT >= 0, self.weight * self.nats[tokens_BT], 0.0)


def batch(tokens: list[list[int]], targets: list[list[int]] | None = None) -> MicroBatch:
    inputs = torch.tensor(tokens)
    return MicroBatch(inputs, torch.zeros_like(inputs) if targets is None else torch.tensor(targets))


def test_loss_and_gradient_are_those_of_all_counted_tokens():
    model = Table([1.0, 5.0])
    step = accumulate(model, [batch([[0, 0, 1]], [[3, -1, 3]]), batch([[1]])], [model.weight])
    assert (step.nats, step.counted, step.loss) == (11.0, 3, 11.0 / 3)
    assert model.weight.grad.item() == pytest.approx(11.0 / 3)
    assert step.grad_norm == pytest.approx(11.0 / 3)


def test_a_micro_batch_without_counted_tokens_contributes_nothing():
    model = Table([1.0, 5.0])
    step = accumulate(model, [batch([[1]], [[-1]]), batch([[0]])], [model.weight])
    assert (step.nats, step.counted) == (1.0, 1)


def test_no_counted_token_at_all_is_an_error_and_no_gradient():
    model = Table([1.0])
    with pytest.raises(TrainingError, match="without a counted token"):
        accumulate(model, [batch([[0]], [[-1]])], [model.weight])
    assert model.weight.grad is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops(bad):
    model = Table([1.0, bad])
    with pytest.raises(TrainingError, match="the loss is"):
        accumulate(model, [batch([[0]]), batch([[1]])], [model.weight])


def test_a_gradient_that_is_not_finite_stops_though_the_loss_is_finite():
    class Cliff(Table):
        def losses(self, tokens_BT, targets_BT, documents_BT=None):
            return torch.sqrt(self.weight - 1.0) + super().losses(tokens_BT, targets_BT)

    model = Cliff([1.0])
    with pytest.raises(TrainingError, match="norm of the gradient is"):
        accumulate(model, [batch([[0]])], [model.weight])


def test_the_norm_is_that_of_all_gradients_together_and_clipping_scales_them_alike():
    first, second, unused = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    first.grad, second.grad = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])
    tensors = [first, second, unused]
    assert gradient_norm(tensors).item() == 5.0
    clip(tensors, 5.0, 10.0)
    assert first.grad.tolist() == [3.0, 0.0]
    clip(tensors, 5.0, 1.0)
    torch.testing.assert_close(torch.stack([first.grad, second.grad]), torch.tensor([[0.6, 0.0], [0.0, 0.8]]))
    assert unused.grad is None


def test_no_gradient_has_norm_zero():
    assert gradient_norm([torch.nn.Parameter(torch.zeros(1))]).item() == 0.0


def test_rows_become_inputs_and_targets_all_of_them_counted():
    rows = np.arange(15, dtype=np.uint16).reshape(3, 5)
    cut = list(micro_batches(rows, 2, None, CPU))
    assert [one.tokens_BT.tolist() for one in cut] == [[[0, 1, 2, 3], [5, 6, 7, 8]], [[10, 11, 12, 13]]]
    assert [one.targets_BT.tolist() for one in cut] == [[[1, 2, 3, 4], [6, 7, 8, 9]], [[11, 12, 13, 14]]]
    assert all(one.documents_BT is None and one.tokens_BT.dtype == torch.int64 for one in cut)
    assert sum(int((one.targets_BT >= 0).sum()) for one in cut) == 12


def test_documents_follow_from_bos_among_the_inputs():
    rows = np.array([[7, 1, 7, 2, 7], [1, 2, 7, 3, 3]])
    (one,) = micro_batches(rows, 2, 7, CPU)
    assert one.documents_BT.tolist() == [[0, 0, 1, 1], [0, 0, 1, 1]]
