"""What is said of a step's memory: exact where it can be known, the same in every session, and no change to any result."""

from __future__ import annotations

import itertools

import pytest
import torch

from ostinato.ledger import account
from ostinato.measure import memory
from ostinato.measure.memory import held
from ostinato.model.decoder import Decoder
from ostinato.store.runs import RunFolder
from ostinato.study.records import Checkpoints, Evaluate
from ostinato.train import RunRequest, train
from ostinato.train.peak import Peak


def peak_of(trainer, steps=3):
    told = []
    meter = Peak(trainer, told.append)
    records = [meter.step() for _ in range(steps)]
    return told, records


def test_what_tensors_hold_counts_shared_storage_once():
    whole = torch.zeros(6, 4)
    assert held([whole, whole[:2], whole.T]) == 96 and held([whole, torch.zeros(2, dtype=torch.float64)]) == 112


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_peak_holds_weights_gradients_states_and_about_the_activations_of_the_ledger(make_trainer, small_arm, small_text, optimizer):
    arm = small_arm(model={"layers": 4}, recipe={"optimizer": optimizer, "batch": 512})
    (found,), _ = peak_of(make_trainer(arm))
    estimate = account(arm, small_text.vocab).memory
    fixed = estimate["weights"] + estimate["gradients"] + estimate["optimizer"]
    assert found > fixed
    assert 0.8 < found / (fixed + estimate["activations"]) < 1.6


def test_more_applications_and_larger_micro_batches_hold_more(make_trainer, small_arm):
    def found(**given):
        return peak_of(make_trainer(small_arm(**given)))[0][0]

    plain, twice = found(), found(model={"schedule": "(1..2)x4"})
    assert twice > 1.5 * plain
    assert found(model={"schedule": "(1..2)x4"}, recipe={"micro_batch": 16}) < 0.6 * twice


def test_it_is_the_same_every_time_and_changes_no_step(make_trainer):
    trainer = make_trainer()
    plain = [trainer.step() for _ in range(3)]
    first, records = peak_of(make_trainer())
    assert first == peak_of(make_trainer())[0]
    for one, other in zip(plain, records, strict=True):
        assert (one.loss, one.grad_norm) == (other.loss, other.grad_norm)


def test_an_attempt_that_ran_out_of_memory_is_not_in_it(make_trainer, small_arm, monkeypatch):
    trainer, genuine, big = make_trainer(), Decoder.losses, []

    def losses(self, tokens_BT, *rest):
        if trainer.step_number == 1 and len(tokens_BT) > 2:
            big.append(torch.zeros(1 << 22).sum())  # 16 MB
            raise MemoryError
        return genuine(self, tokens_BT, *rest)

    monkeypatch.setattr(Decoder, "losses", losses)
    (found,), _ = peak_of(trainer, 4)
    monkeypatch.undo()
    assert len(big) == 1 and found == peak_of(make_trainer(small_arm(recipe={"micro_batch": 32})))[0][0]


def test_on_a_gpu_the_allocator_is_asked_at_every_step(make_trainer, monkeypatch):
    trainer = make_trainer()
    counts = itertools.chain([500, 700, 600], itertools.repeat(0))
    reset = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset.append)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: next(counts))
    told, cuda = [], torch.device("cuda")
    meter = Peak(trainer, told.append)
    machine = trainer.machine
    monkeypatch.setattr(trainer, "step", lambda: None)
    object.__setattr__(machine, "device", cuda)
    for _ in range(4):
        meter.step()
    assert told == [500, 700] and reset == [cuda] * 4


def test_where_it_cannot_be_measured_the_run_goes_on(make_trainer, monkeypatch, caplog):
    def busy(**_):
        class Look:
            def __enter__(self):
                raise RuntimeError("another profiler is at work")

        return Look()

    monkeypatch.setattr(memory, "profile", busy)
    with caplog.at_level("INFO", "ostinato"):
        told, records = peak_of(make_trainer())
    assert told == [] and len(records) == 3 and "another profiler is at work" in caplog.text


def test_a_run_stores_its_peak_and_a_resumed_one_keeps_the_most(small_arm, small_text, tmp_path):
    def session(name, **rest):
        folder = RunFolder(tmp_path / "runs" / name, tmp_path / "targets")
        request = RunRequest(small_arm(), 1, Evaluate(targets=300, context=16), Checkpoints(every="640"))
        train(request, small_text, folder, device="cpu", threads=1, tensorboard=False, **rest)
        return folder

    seen = []
    folder = session("parts", stop=lambda: len(seen) >= 5, on_step=seen.append)
    first = folder.peak_bytes()
    assert first and first == session("parts").peak_bytes() == session("whole").peak_bytes()
    folder.write_peak(first + 1, "cuda")
    assert session("parts").peak_bytes() == first + 1
