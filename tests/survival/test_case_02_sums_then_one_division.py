"""Case 2, in training: sums in float64, counts in integers, then one division; nothing counted is an error and not a number."""

from __future__ import annotations

import pytest
import torch

from ostinato.errors import TrainingError
from ostinato.train.step import MicroBatch, accumulate


class Fixed(torch.nn.Module):
    """A model whose loss is the same everywhere, from logits of a given dtype."""

    def __init__(self, nats: float, dtype: torch.dtype):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros((), dtype=torch.float32))
        self.nats = torch.tensor(nats, dtype=dtype)

    def losses(self, tokens_BT, targets_BT, documents_BT=None):
        logits = (self.nats + self.weight.to(self.nats.dtype)).expand(tokens_BT.shape)
        return torch.where(targets_BT >= 0, logits.float(), 0.0)


class PerBatch(Fixed):
    """Nats by the first token of the row: 2 for token 0, 10 a token for token 1."""

    def losses(self, tokens_BT, targets_BT, documents_BT=None):
        nats = torch.where(tokens_BT[:, :1] == 0, 2.0, 10.0) + self.weight
        return torch.where(targets_BT >= 0, nats.expand(tokens_BT.shape), 0.0)


def counted(tokens: int, first: int = 0) -> MicroBatch:
    return MicroBatch(torch.full((1, tokens), first), torch.zeros(1, tokens, dtype=torch.int64))


def test_two_and_ninety_nats_of_one_and_nine_tokens_are_nine_point_two():
    model = PerBatch(0.0, torch.float32)
    step = accumulate(model, [counted(1, 0), counted(9, 1)], [model.weight])
    assert (step.nats, step.counted) == (92.0, 10)
    assert step.loss == 9.2


def test_ten_thousand_batches_of_loss_ten_are_exactly_a_hundred_thousand():
    model = Fixed(10.0, torch.bfloat16)
    step = accumulate(model, [counted(1)] * 10_000, [model.weight])
    assert step.nats == 100_000.0
    assert (step.counted, step.loss) == (10_000, 10.0)
    assert isinstance(step.counted, int)


def test_a_sum_of_many_tokens_in_one_batch_does_not_lose_the_small_ones():
    """2**24 and more tokens of a nat: a float32 sum would stand still; here 0.1 a token, which float32 sums lose digits of."""
    model = Fixed(0.1, torch.float32)
    step = accumulate(
        model, [MicroBatch(torch.zeros(1000, 1000, dtype=torch.int64), torch.zeros(1000, 1000, dtype=torch.int64))], [model.weight]
    )
    assert step.loss == pytest.approx(float(torch.tensor(0.1)), abs=1e-12)


def test_nothing_counted_is_an_error_never_zero_or_nan():
    model = Fixed(10.0, torch.bfloat16)
    with pytest.raises(TrainingError, match="without a counted token"):
        accumulate(model, [MicroBatch(torch.zeros(1, 4, dtype=torch.int64), torch.full((1, 4), -1))], [model.weight])
    with pytest.raises(TrainingError, match="without a counted token"):
        accumulate(model, [], [model.weight])
