"""Case 1: a step's loss and gradient do not depend on how its tokens are cut into micro-batches."""

from __future__ import annotations

import itertools
import json
import math

import pytest
import torch

from ostinato.model.decoder import build
from ostinato.study.families import with_family
from ostinato.study.records import Model
from ostinato.train.machine import choose
from ostinato.train.step import MicroBatch, accumulate, micro_batches
from ostinato.train.trainer import Trainer

VOCAB, CONTEXT = 50, 10
FAMILIES = {
    "llama": {"layers": 2, "d_model": 32, "heads": 2, "schedule": "1..2 1..2"},
    "loop2": {
        "family": "loop2",
        "layers": 2,
        "d_model": 32,
        "heads": 2,
        "schedule": "1..2 1..2:attn",
        "bigram_table": 64,
        "windows": {"short": 4},
    },
}


def cut(counts: list[int]) -> list[MicroBatch]:
    """Ten counted tokens, the same ones always, as micro-batches of so many: a row per token, the context before it not counted."""
    draw = torch.Generator().manual_seed(3)
    rows = torch.randint(0, VOCAB, (10, CONTEXT + 1), generator=draw)
    targets = torch.full((10, CONTEXT), -1)
    for row in range(10):
        targets[row, row] = rows[row, row + 1]
    edges = [sum(counts[:place]) for place in range(len(counts) + 1)]
    return [MicroBatch(rows[first:last, :-1], targets[first:last]) for first, last in itertools.pairwise(edges)]


def gradients(family: str, counts: list[int]) -> tuple[dict[str, torch.Tensor], float]:
    decoder = build(Model.model_validate(with_family(FAMILIES[family])), VOCAB, CONTEXT, seed=1, dtype=torch.float64)
    with torch.no_grad():
        for tensor in decoder.parameters():
            if not tensor.any():
                tensor.normal_(0, 0.1, generator=torch.Generator().manual_seed(tensor.numel()))
    step = accumulate(decoder, cut(counts), list(decoder.parameters()))
    return {name: tensor.grad for name, tensor in decoder.named_parameters()}, step.loss


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("counts", [[1, 9], [5, 5], [9, 1], [3, 3, 4], [1] * 10])
def test_ten_counted_tokens_however_they_are_cut(family, counts):
    whole, loss = gradients(family, [10])
    parts, logged = gradients(family, counts)
    assert logged == pytest.approx(loss, abs=1e-12)
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, rtol=0, atol=1e-12, msg=name)
    assert any(gradient.abs().max() > 1e-3 for gradient in whole.values())


def test_the_mean_of_means_would_have_been_wrong():
    """The same ten tokens cut 1 + 9: what a mean over micro-batches would have said, so that the test above can fail."""
    _, loss = gradients("llama", [10])
    decoder = build(Model.model_validate(with_family(FAMILIES["llama"])), VOCAB, CONTEXT, seed=1, dtype=torch.float64)
    means = [accumulate(decoder, [part], list(decoder.parameters())).loss for part in cut([1, 9])]
    assert abs(sum(means) / 2 - loss) > 1e-4


def test_what_is_logged_is_the_loss_of_the_whole_step_not_of_its_last_micro_batch(small_arm, small_text):
    trainer = Trainer(small_arm(recipe={"micro_batch": 16}), 1, small_text, choose("cpu", "float32", 1, False))
    rows = trainer.plan.batch(0)
    with torch.no_grad():
        each = [trainer.decoder.losses(one.tokens_BT, one.targets_BT).double() for one in micro_batches(rows, 1, None, torch.device("cpu"))]
    record = trainer.step()
    assert record.loss == pytest.approx(sum(float(part.sum()) for part in each) / 64, abs=1e-12)
    assert not math.isclose(record.loss, float(each[-1].mean()), abs_tol=1e-4)
    assert json.loads(json.dumps(record.row()))["loss"] == record.loss
