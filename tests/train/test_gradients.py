"""The gradient by application: its parts add up to the gradient that training sees, and are those of a stack that shares nothing."""

from __future__ import annotations

import logging
import math

import pytest
import torch
from torch import nn

from ostinato.model.init import unit_noise
from ostinato.train import gradients as room
from ostinato.train.gradients import Gradients, backward, products
from ostinato.train.step import MicroBatch

VOCAB, CONTEXT = 11, 8
SWITCHES = {
    "each layer once": {},
    "twice": {"schedule": "1..2 1..2"},
    "reuse map": {"layers": 3, "schedule": "[3,1,2]"},
    "partial passes": {"schedule": "1..2 1..2:attn 2:mlp 1:mlp"},
    "a layer that never runs": {"layers": 3, "schedule": "1 3 1"},
    "values, gates, norms": {"value_embeddings": "all", "attn_gate": "head", "qk_norm": "weight", "schedule": "1..2 1:attn"},
    "tied attention": {"layers": 4, "tie": {"3..4:attn": "1..2:attn"}, "value_embeddings": "all"},
    "scalars": {"application_scalars": True, "inject": "add", "schedule": "(1..2)x3"},
    "linear injection, from noise": {"inject": "linear", "h0": "noise", "pass_norm": True, "schedule": "1x3 2x2"},
    "linear injection": {"inject": "linear", "layers": 4, "schedule": "1 (2..3)x3 4", "pass_norm": True},
    "gated delta rule": {"layers": ["gdn", "gqa"], "schedule": "1..2 1..2"},
    "windows, softcap, untied head": {
        "windows": {"pattern": "SL", "short": 3},
        "softcap": 2,
        "tie_embeddings": False,
        "schedule": "1..2 2",
    },
}


@pytest.fixture(params=SWITCHES)
def decoder(request, small_model, small_decoder):
    return small_decoder(small_model(**SWITCHES[request.param]), VOCAB, CONTEXT)


@pytest.fixture
def batch():
    drawn = torch.Generator().manual_seed(3)
    rows = torch.randint(0, VOCAB, (3, CONTEXT + 1), generator=drawn)
    targets = rows[:, 1:].clone()
    targets[0, :3] = -1
    documents = torch.tensor([[0] * 8, [0, 0, 0, 1, 1, 1, 1, 1], [0] * 8])
    return MicroBatch(rows[:, :-1], targets, documents)


def mean_loss(decoder, batch, **options):
    nats = decoder.losses(batch.tokens_BT, batch.targets_BT, batch.documents_BT, batch.keys_B2, **options)
    return nats.sum() / batch.counted


def length(tensor):
    return 0.0 if tensor is None else tensor.norm().item()


def close(found, wanted):
    assert torch.linalg.vector_norm(found - wanted) <= 1e-12 * max(1.0, float(torch.linalg.vector_norm(wanted)))


def test_the_applications_add_up_to_the_gradient(decoder, batch):
    named = dict(decoder.named_parameters())
    whole = dict(zip(named, torch.autograd.grad(mean_loss(decoder, batch), list(named.values()), allow_unused=True), strict=True))
    found = backward(decoder, batch).gradients
    inside = [name for name in named if name.startswith(("layers.", "value_tables."))]
    assert {name for name in inside if whole[name] is not None} == {name for name in found if "[" not in name}
    for name in inside:
        if whole[name] is not None:
            close(sum(found[name].values()), whole[name])
    scalars = [name for name in ("residual_scale", "x0_scale") if name in named]
    for name in scalars:
        close(torch.stack([found[f"{name}[{index}]"][index] for index in range(len(decoder.applications))]), whole[name])
    assert len(scalars) == 2 * decoder.model.application_scalars


@pytest.mark.parametrize("schedule", ["1..2 1..2", "(1..2)x3", "1..2 2 1:attn"])
def test_an_application_has_the_gradient_of_an_untied_layer_with_its_weights(small_model, small_decoder, batch, schedule):
    """A stack whose layers share nothing, and have the weights that the applications have, is the same function."""
    decoder = small_decoder(small_model(schedule=schedule), VOCAB, CONTEXT)
    parts = [f"{place}" if one.part == "both" else f"{place}:{one.part}" for place, one in enumerate(decoder.applications, 1)]
    untied = small_decoder(small_model(layers=len(parts), schedule=" ".join(parts)), VOCAB, CONTEXT)
    weights = dict(decoder.named_parameters())
    with torch.no_grad():
        for name, own in untied.named_parameters():
            if name.startswith("layers."):
                _, place, rest = name.split(".", 2)
                own.copy_(weights[f"layers.{decoder.applications[int(place) - 1].layer}.{rest}"])
            else:
                own.copy_(weights[name])
    loss = mean_loss(untied, batch)
    assert loss.item() == pytest.approx(mean_loss(decoder, batch).item(), rel=1e-12)
    loss.backward()
    found, compared = backward(decoder, batch).gradients, 0
    for name, own in untied.named_parameters():
        if name.startswith("layers.") and own.grad is not None:
            _, place, rest = name.split(".", 2)
            close(found[f"layers.{decoder.applications[int(place) - 1].layer}.{rest}"][int(place) - 1], own.grad)
            compared += 1
    assert compared == sum(len(by_index) for by_index in found.values())


class Plus(nn.Module):
    """What was there, and then a number added to the stream everywhere: the gradient by that number is the gradient by the stream."""

    def __init__(self, before, shape):
        super().__init__()
        self.before, self.delta = before or nn.Identity(), torch.zeros(shape, dtype=torch.float64, requires_grad=True)

    def forward(self, x):
        return self.before(x) + self.delta


def test_what_reaches_the_stream(decoder, batch):
    from dataclasses import replace

    shape = (*batch.tokens_BT.shape, decoder.model.d_model)
    parts = [replace(own, pass_norm=Plus(own.pass_norm, shape)) for own in decoder.parts]
    deltas, last = [own.pass_norm.delta for own in parts], []
    loss = mean_loss(decoder, batch, parts=parts, watch=lambda application, x_BTD: last.append(x_BTD))
    v = torch.from_numpy(unit_noise(7, "v", shape)).double()
    jacobian = torch.autograd.grad(last[-1], deltas, v, retain_graph=True, allow_unused=True)
    found = backward(decoder, batch, 7, "v")
    assert len(found.loss) == len(found.growth) == len(deltas) + 1 and found.growth[-1] == 1.0
    assert found.growth[1:] == pytest.approx([length(one) / length(v) for one in jacobian], rel=1e-12)
    summed = torch.autograd.grad(loss * batch.counted, deltas, allow_unused=True)
    assert found.loss[1:] == pytest.approx([length(one) / math.sqrt(batch.counted) for one in summed], rel=1e-12)


def test_the_growth_of_a_layer_that_does_nothing_is_1(small_model, small_decoder, batch):
    decoder = small_decoder(small_model(schedule="1..2 1..2"), VOCAB, CONTEXT)
    with torch.no_grad():
        for layer in decoder.layers.values():
            layer.attn.o.weight.zero_()
            layer.mlp.down.weight.zero_()
    found = backward(decoder, batch)
    assert found.growth == [1.0] * 5 and found.loss == pytest.approx([found.loss[-1]] * 5, rel=1e-12)


def test_nothing_of_the_model_is_touched(decoder, batch):
    mean_loss(decoder, batch).backward()
    before = {name: (own.detach().clone(), None if own.grad is None else own.grad.clone()) for name, own in decoder.named_parameters()}
    state, loss = torch.get_rng_state(), float(mean_loss(decoder, batch).detach())
    decoder.activation_checkpointing = True
    kept = backward(decoder, batch)
    decoder.activation_checkpointing = False
    again = backward(decoder, batch)
    assert torch.equal(torch.get_rng_state(), state) and float(mean_loss(decoder, batch).detach()) == loss
    for name, own in decoder.named_parameters():
        weight, gradient = before[name]
        assert torch.equal(own, weight) and (own.grad is None if gradient is None else torch.equal(own.grad, gradient))
    assert (kept.loss, kept.growth) == (again.loss, again.growth)


def test_products_are_those_of_each_pair():
    drawn = torch.Generator().manual_seed(1)
    parts = {place: torch.randn(3, 4, generator=drawn) for place in (1, 4, 6)}
    applications, values = products(parts)
    assert applications == [1, 4, 6]
    pairs = [(1, 1), (4, 1), (4, 4), (6, 1), (6, 4), (6, 6)]
    assert values == pytest.approx([float((parts[a].double() * parts[b].double()).sum()) for a, b in pairs], rel=1e-12)


def taken(trainer, every, steps):
    look = Gradients(trainer, every)
    return [look.of(trainer.step) for _ in range(steps)]


def test_the_first_step_and_every_third_are_looked_at_and_training_is_the_same(make_trainer, small_arm):
    arm = small_arm(model={"schedule": "1..2 1..2"}, recipe={"clip": 0.5})
    plain, watched = make_trainer(arm), make_trainer(arm)
    steps = [plain.step() for _ in range(7)]
    found = taken(watched, 3, 7)
    assert [record["step"] for _, record in found if record] == [1, 3, 6]
    assert [step.loss for step, _ in found] == [step.loss for step in steps]
    for (_, one), (_, other) in zip(plain.decoder.named_parameters(), watched.decoder.named_parameters(), strict=True):
        assert torch.equal(one, other)
    for step, record in found:
        if record:
            assert record["tokens"] == step.tokens and record["seconds"] > 0
            assert math.fsum(norm**2 for norm in record["norms"].values()) == pytest.approx(step.grad_norm**2, rel=1e-5)
            assert record["targets"] == 16 and record["applications"] == [[1, "both", 1], [2, "both", 1], [1, "both", 2], [2, "both", 2]]
            assert len(record["loss"]) == len(record["growth"]) == 5
    assert all(step.grad_norm > 0.5 for step in steps)  # so every gradient was clipped, after it was looked at


def test_0_looks_at_nothing(make_trainer):
    assert [record for _, record in taken(make_trainer(), 0, 3)] == [None] * 3


def test_all_rows_give_the_gradient_of_the_step(make_trainer, small_arm, monkeypatch):
    monkeypatch.setattr(room, "SHARE", 1)
    ((_, record),) = taken(make_trainer(small_arm(model={"schedule": "1..2 1..2"})), 1, 1)
    assert record["targets"] == 64
    for name, (applications, values) in record["dots"].items():
        pairs = [(a, b) for place, a in enumerate(applications) for b in applications[: place + 1]]
        whole = math.fsum(value * (1 if a == b else 2) for (a, b), value in zip(pairs, values, strict=True))
        assert whole == pytest.approx(record["norms"][name] ** 2, rel=1e-4)


def test_memory_that_runs_out_costs_the_measure_and_not_the_run(make_trainer, monkeypatch, caplog):
    monkeypatch.setattr(room, "SHARE", 1)
    genuine = room.backward

    def full(most):
        def look(decoder, batch, *given):
            if len(batch.tokens_BT) > most:
                raise MemoryError("no room")
            return genuine(decoder, batch, *given)

        return look

    trainer = make_trainer()
    look = Gradients(trainer, 1)
    monkeypatch.setattr(room, "backward", full(1))
    with caplog.at_level(logging.WARNING, "ostinato"):
        _, record = look.of(trainer.step)
        assert (record["targets"], look.rows) == (16, 1)
        monkeypatch.setattr(room, "backward", full(0))
        records = [look.of(trainer.step)[1] for _ in range(2)]
    assert [(record["step"], record["targets"], record["dots"], record["growth"]) for record in records] == [(2, 0, {}, []), (3, 0, {}, [])]
    assert all(record["norms"] for record in records)
    assert caplog.text.count("are not measured any more") == 1
