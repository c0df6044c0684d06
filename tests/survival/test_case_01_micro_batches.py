"""Case 1: a step's loss and gradient do not depend on how its tokens are cut into micro-batches."""

from __future__ import annotations

import itertools
import json
import math

import pytest
import torch

from ostinato.model.decoder import build
from ostinato.model.noise import row_keys
from ostinato.study.families import with_family
from ostinato.study.records import Model
from ostinato.train.machine import choose
from ostinato.train.step import MicroBatch, accumulate, micro_batches
from ostinato.train.trainer import Trainer

VOCAB, CONTEXT = 50, 10
FAMILIES = {
    "llama": {"layers": 2, "d_model": 32, "heads": 2, "schedule": "1..2 1..2"},
    "recurrent": {"layers": 2, "d_model": 32, "heads": 2, "schedule": "(1..2)x2", "inject": "linear", "h0": "noise", "init": {"std": 0.3},
                  "pass_norm": True, "attn_gate": "head"},
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


def cut(counts: list[int], draws: bool = False) -> list[MicroBatch]:
    """Ten counted tokens, the same ones always, as micro-batches of so many: a row per token, the context before it not counted."""
    draw = torch.Generator().manual_seed(3)
    rows = torch.randint(0, VOCAB, (10, CONTEXT + 1), generator=draw)
    targets = torch.full((10, CONTEXT), -1)
    for row in range(10):
        targets[row, row] = rows[row, row + 1]
    keys = row_keys(1, 4, 10) if draws else None
    edges = [sum(counts[:place]) for place in range(len(counts) + 1)]
    pieces = [slice(*pair) for pair in itertools.pairwise(edges)]
    return [MicroBatch(rows[piece, :-1], targets[piece], None, keys[piece] if draws else None) for piece in pieces]


def gradients(family: str, counts: list[int]) -> tuple[dict[str, torch.Tensor], float]:
    decoder = build(Model.model_validate(with_family(FAMILIES[family])), VOCAB, CONTEXT, seed=1, dtype=torch.float64)
    with torch.no_grad():
        for tensor in decoder.parameters():
            if not tensor.any() or tensor.shape == (32, 64):  # nothing at 0, no state left out of an injection
                tensor.normal_(0, 0.1, generator=torch.Generator().manual_seed(tensor.numel()))
    step = accumulate(decoder, cut(counts, decoder.draws), list(decoder.parameters()))
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


def mean_loss(decoder, rows, keys):
    """The mean loss of a step's rows in one forward pass."""
    (one,) = micro_batches(rows, len(rows), None, torch.device("cpu"), keys)
    return float(one.losses(decoder).double().mean())


def test_noise_of_a_step_follows_the_row_and_not_the_micro_batch(small_arm, small_text):
    """Three steps of a model that draws h0, cut in four and whole: the same losses, and those of that seed and step."""
    model = {"schedule": "(1..2)x2", "inject": "linear", "h0": "noise", "init": {"std": 0.5}}

    def losses(steps=3, **recipe):
        trainer = Trainer(small_arm(model=model, recipe=recipe), 1, small_text, choose("cpu", "float32", 1, False))
        torch.nn.init.normal_(trainer.decoder.layers["1"].inject.weight, std=0.3, generator=torch.Generator().manual_seed(1))
        rows = trainer.plan.batch(0)
        return [trainer.step().loss for _ in range(steps)], rows, trainer

    whole, rows, _ = losses()
    assert losses(micro_batch=16)[0] == pytest.approx(whole, rel=1e-6)
    trainer = losses(steps=0)[2]
    with torch.no_grad():  # the first loss is that of the noise of step 0, and of no other
        means = [mean_loss(trainer.decoder, rows, keys) for keys in (row_keys(1, 0, 4), row_keys(1, 1, 4), row_keys(2, 0, 4), None)]
    assert means[0] == pytest.approx(whole[0], rel=1e-6)
    assert all(abs(mean - whole[0]) > 1e-4 for mean in means[1:])


def test_what_is_logged_is_the_loss_of_the_whole_step_not_of_its_last_micro_batch(small_arm, small_text):
    trainer = Trainer(small_arm(recipe={"micro_batch": 16}), 1, small_text, choose("cpu", "float32", 1, False))
    rows = trainer.plan.batch(0)
    with torch.no_grad():
        each = [trainer.decoder.losses(one.tokens_BT, one.targets_BT).double() for one in micro_batches(rows, 1, None, torch.device("cpu"))]
    record = trainer.step()
    assert record.loss == pytest.approx(sum(float(part.sum()) for part in each) / 64, abs=1e-12)
    assert not math.isclose(record.loss, float(each[-1].mean()), abs_tol=1e-4)
    assert json.loads(json.dumps(record.row()))["loss"] == record.loss
