"""Threads that share a micro-batch: the gradient is that of its parts one after another, to the bit."""

from __future__ import annotations

import itertools

import pytest
import torch

from ostinato.ledger import account
from ostinato.model.compiled import Compiled
from ostinato.model.decoder import build
from ostinato.study.records import Model
from ostinato.train.crew import Crew
from ostinato.train.machine import choose
from ostinato.train.peak import Peak
from ostinato.train.step import MicroBatch, accumulate
from ostinato.train.trainer import Trainer

LOOPED = Model(layers=("gqa", "gdn", "gqa"), d_model=32, heads=2, schedule="1 (2..3)x3", inject="linear", h0="noise")


@pytest.fixture
def decoder():
    return build(LOOPED, 50, 16, 1)


def whole(rows: int) -> MicroBatch:
    drawn = torch.Generator().manual_seed(rows)
    tokens = torch.randint(0, 50, (rows, 17), generator=drawn)
    tokens[:, 5] = 0
    documents = (tokens[:, :-1] == 0).cumsum(1)
    targets = torch.where(torch.rand(rows, 16, generator=drawn) < 0.2, -1, tokens[:, 1:])
    return MicroBatch(tokens[:, :-1], targets, documents, torch.randint(0, 2**31, (rows, 2), generator=drawn))


def gradient(decoder, batches, crew=None):
    parameters = list(decoder.parameters())
    for parameter in parameters:
        parameter.grad = None
    loss = accumulate(decoder, batches, parameters, crew=crew)
    return loss, [parameter.grad for parameter in parameters]


@pytest.mark.parametrize(("rows", "threads", "cuts"), [(4, 2, [0, 2, 4]), (6, 3, [0, 2, 4, 6]), (17, 2, [0, 8, 17])])
def test_the_same_bits_as_its_parts_one_after_another_with_one_thread(decoder, rows, threads, cuts):
    batch, crew = whole(rows), Crew(threads)
    assert [(place.start, place.stop) for place in crew.places(rows, 16)] == list(itertools.pairwise(cuts))
    loss, found = gradient(decoder, [batch], crew)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    wanted, parts = gradient(decoder, [batch.part(slice(*place)) for place in itertools.pairwise(cuts)])
    torch.set_num_threads(before)
    assert (loss.nats, loss.counted, loss.grad_norm) == (wanted.nats, wanted.counted, wanted.grad_norm)
    assert all((one is None and other is None) or torch.equal(one, other) for one, other in zip(found, parts, strict=True))


def test_it_adds_to_the_gradient_of_other_micro_batches_and_is_that_of_the_whole(decoder):
    batches = [whole(4), whole(2)]
    loss, found = gradient(decoder, batches, Crew(2))
    wanted, plain = gradient(decoder, batches)
    assert loss.nats == pytest.approx(wanted.nats, rel=1e-6)
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_rows_that_cannot_be_shared_fairly_stay_together():
    assert [len(Crew(2).places(rows, 8)) for rows in (1, 2, 3, 15, 16, 17)] == [1, 2, 1, 1, 2, 2]
    assert [len(Crew(2, least=12).places(rows, 8)) for rows in (2, 4)] == [1, 2]


def test_an_error_of_a_part_is_raised_when_all_have_ended_and_threads_are_as_before():
    ended, before = [], torch.get_num_threads()

    def work(part: int) -> None:
        assert torch.get_num_threads() == 1
        ended.append(part)
        if part == 0:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    with pytest.raises(RuntimeError, match="can't allocate"):
        Crew(2).map(work, [0, 1])
    assert sorted(ended) == [0, 1] and torch.get_num_threads() == before


def test_threads_that_meet_the_same_kind_compile_it_once():
    compiled = Compiled("aot_eager")
    doubled = compiled.of(lambda x: x.sin() * 2, "doubled")
    leaves = [torch.ones(3, requires_grad=True) for _ in range(2)]
    found = Crew(2).map(doubled, leaves)
    assert len(compiled.functions) == 1 and torch.equal(*found) and found[0].grad_fn is not None


def test_the_peak_of_a_step_counts_all_parts(small_arm, small_text):
    arm, told = small_arm(model={"layers": 4}, recipe={"batch": 512}), []
    machine = choose("cpu", "float32", 2, False)
    with machine.session():
        trainer, plain = (Trainer(arm, 1, small_text, machine) for _ in range(2))
        trainer.crew.least = plain.crew.least = 1  # a model as small as this is not shared otherwise
        meter = Peak(trainer, told.append)
        for _ in range(3):
            assert (meter.step().loss, trainer.crew.look) == (plain.step().loss, None)
    estimate = account(arm, small_text.vocab).memory
    once = estimate["weights"] + estimate["optimizer"]
    assert 0.8 < told[0] / (once + 2 * estimate["gradients"] + estimate["activations"]) < 1.6
