"""How many rows at once: asked for, estimated, halved; and a run that goes on takes every step as it was taken."""

from __future__ import annotations

import contextlib
import logging
import shutil

import pytest
import torch

from ostinato.errors import TrainingError
from ostinato.ledger import account
from ostinato.model.decoder import Decoder
from ostinato.store.runs import RunFolder
from ostinato.study.records import Checkpoints, Evaluate
from ostinato.train import RunRequest, checkpoints, rows, train, trainer
from ostinato.train.optimizers import Optimizers
from ostinato.train.rows import Rows, fitting, free_bytes, needed, remembered


@contextlib.contextmanager
def small_memory(most, after_rows=0, where="forward"):
    """More rows at once than `most` do not fit, once `after_rows` have gone through; yields the sizes of all passes of training steps."""
    genuine, sizes, done = Decoder.losses, [], [0]

    def losses(self, tokens_BT, *rest, **watched):
        if watched or not torch.is_grad_enabled():
            return genuine(self, tokens_BT, *rest, **watched)
        sizes.append(len(tokens_BT))
        if done[0] < after_rows or len(tokens_BT) <= most:
            done[0] += len(tokens_BT)
            return genuine(self, tokens_BT, *rest)
        if where == "forward":
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes")
        return Short.apply(genuine(self, tokens_BT, *rest))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Decoder, "losses", losses)
        yield sizes


class Short(torch.autograd.Function):
    """Runs out of memory on the way back."""

    @staticmethod
    def forward(ctx, nats_BT):
        return nats_BT.clone()

    @staticmethod
    def backward(ctx, grad):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")


def gradients(made):
    return {name: tensor.grad.clone() for name, tensor in made.decoder.named_parameters() if tensor.grad is not None}


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("model", [{}, {"schedule": "(1..2)x2", "inject": "linear", "h0": "noise"}])
def test_the_step_is_taken_again_with_half_the_rows_and_the_same_gradient(make_trainer, small_arm, caplog, where, model):
    arm = small_arm(model=model, recipe={"micro_batch": 48})
    plain = make_trainer(arm)
    record, expected = plain.step(), gradients(plain)
    made = make_trainer(arm)
    before = {name: tensor.clone() for name, tensor in made.optimizers.state().items()}
    seen, step = [], made.optimizers.step
    made.optimizers.step = lambda at: (seen.append({name: tensor.clone() for name, tensor in made.optimizers.state().items()}), step(at))
    with small_memory(2, where=where) as sizes, caplog.at_level(logging.WARNING, "ostinato"):
        again = made.step()
        found = gradients(made)
        made.step()
    assert sizes == [3, 2, 2, 2, 2] and made.rows_at_once == 2, "the next step begins with what fits"
    assert caplog.text.count("step 1: out of memory with 3 rows at once") == 1 == len(caplog.records)
    assert again.loss == pytest.approx(record.loss, rel=1e-6) and again.grad_norm == pytest.approx(record.grad_norm, rel=1e-5)
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-7)
    assert all(torch.equal(before[name], seen[0][name]) for name in before), "no state has moved before the gradient is whole"


def test_a_part_of_the_gradient_is_dropped_with_the_attempt(make_trainer):
    wanted, made = make_trainer(), make_trainer()
    wanted.rows.fewer(0, 1)
    expected = wanted.step()
    made.rows.fewer(0, 2)
    with small_memory(1, after_rows=1) as sizes:  # the first two rows have left their gradient when the next two do not fit
        found = made.step()
    assert sizes == [2, 2, 1, 1, 1, 1]
    assert (found.loss, found.grad_norm) == (expected.loss, expected.grad_norm)


def test_half_the_rows_from_the_start_are_the_same_bits(make_trainer, small_arm):
    wanted = make_trainer(small_arm(recipe={"micro_batch": 32}))
    expected = [wanted.step() for _ in range(3)]
    made = make_trainer()
    with small_memory(2):
        found = [made.step() for _ in range(3)]
    assert [(one.loss, one.grad_norm) for one in found] == [(one.loss, one.grad_norm) for one in expected]


def test_one_row_that_does_not_fit_leaves_the_run_as_it_was(make_trainer):
    made = make_trainer()
    made.step()
    weights = [tensor.detach().clone() for tensor in made.optimizers.tensors]
    with small_memory(0), pytest.raises(TrainingError, match="step 2: out of memory with one row at once") as raised:
        made.step()
    assert "activation_checkpointing" in raised.value.fix and "context" in raised.value.fix
    assert all(tensor.grad is None for tensor in made.optimizers.tensors) and made.step_number == 1
    assert all(torch.equal(one, other) for one, other in zip(weights, made.optimizers.tensors, strict=True))


def test_memory_that_runs_out_within_the_optimizer_is_an_error_and_no_second_try(make_trainer, monkeypatch):
    made, seen = make_trainer(), []

    def short(self, at):
        seen.append(at)
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Optimizers, "step", short)
    with pytest.raises(TrainingError, match="step 1: out of memory while the optimizer moved the weights"):
        made.step()
    assert len(seen) == 1 and made.step_number == 0


def test_a_model_that_does_not_fit_is_an_error_with_a_next_step(make_trainer, monkeypatch):
    def short(*_, **__):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(trainer, "build", short)
    with pytest.raises(TrainingError, match="no memory for weights and optimizer states"):
        make_trainer()


# --- what a run remembers


@pytest.fixture
def run(small_text, tmp_path):
    def start(arm, name, **rest):
        folder = RunFolder(tmp_path / "runs" / name, tmp_path / "targets")
        request = RunRequest(arm, 1, Evaluate(targets=300, context=16), Checkpoints(every="320", keep="all"))
        train(request, small_text, folder, device="cpu", threads=1, tensorboard=False, **rest)
        return folder

    return start


def losses(folder):
    return [(row["step"], row["loss"], row["grad_norm"]) for row in folder.steps().to_pylist()]


def test_a_resumed_run_takes_every_step_as_it_was_taken(run, small_arm, caplog):
    whole_rows = losses(run(small_arm(), "plain"))
    with small_memory(2, after_rows=8 * 4):  # in the ninth step
        whole = run(small_arm(), "whole")
    expected = losses(whole)
    assert whole.session()["rows_at_once"] == {"asked": None, "at": [[0, 4], [8, 2]]}
    assert expected[:8] == whole_rows[:8] and expected[8:] != whole_rows[8:]

    seen = []
    with small_memory(2, after_rows=8 * 4):
        broken = run(small_arm(), "broken", stop=lambda: len(seen) >= 11, on_step=seen.append)
    for found in checkpoints.listing(broken.checkpoints_path)[1:]:
        shutil.rmtree(found.path)  # only that of step 5 is left, as after a kill: steps 6 to 11 are taken again, on both sides of the ninth
    with caplog.at_level(logging.WARNING, "ostinato"):
        caplog.clear()
        broken = run(small_arm(), "broken")  # where there is memory enough: as if there were not
    assert losses(broken) == expected
    assert not caplog.records


def test_a_run_that_lost_its_session_file_goes_on_with_the_rows_of_its_checkpoint(run, small_arm, caplog):
    with small_memory(2, after_rows=4 * 4):  # in the fifth step
        expected = losses(run(small_arm(), "whole"))
    seen = []
    with small_memory(2, after_rows=4 * 4):
        broken = run(small_arm(), "broken", stop=lambda: len(seen) >= 11, on_step=seen.append)
    (broken.path / "session.json").unlink()
    with caplog.at_level(logging.WARNING, "ostinato"):
        caplog.clear()
        broken = run(small_arm(), "broken")
    assert losses(broken) == expected and not caplog.records
    assert broken.session()["rows_at_once"] == {"asked": None, "at": [[0, 2]]}


def test_another_micro_batch_in_the_study_counts_from_where_the_run_stands(run, small_arm):
    seen = []
    folder = run(small_arm(), "a", stop=lambda: len(seen) >= 5, on_step=seen.append)
    assert folder.session()["rows_at_once"] == {"asked": None, "at": [[0, 4]]}
    folder = run(small_arm(recipe={"micro_batch": 32}), "a")
    assert folder.session()["rows_at_once"] == {"asked": 2, "at": [[0, 4], [5, 2]]}


def test_the_places_of_changes():
    kept = Rows(None, [(0, 64)])
    kept.fewer(17, 32)
    kept.fewer(20, 16)
    assert kept.at == [(0, 64), (17, 32), (20, 16)]
    assert [kept.of(step) for step in (0, 16, 17, 19, 20, 999)] == [64, 64, 32, 32, 16, 16]
    kept.fewer(3, 32)  # the first steps taken again on a smaller machine
    assert kept.at == [(0, 64), (3, 32), (20, 16)]
    kept.fewer(0, 8)
    assert kept.at == [(0, 8)]
    kept.asked_anew(30, 64, 64)
    assert kept.record() == {"asked": 64, "at": [[0, 8], [30, 64]]} and remembered(kept.record()) == kept
    assert remembered(None) is None and remembered(4) is None


# --- the first guess, on a GPU


def test_what_fits_is_a_half_of_a_half_and_grows_with_memory(small_arm, small_text):
    arm = small_arm(recipe={"batch": 16 * 12})
    estimates = {n: needed(arm, small_text.vocab, n) for n in (12, 6, 3, 2, 1)}
    assert estimates[1] < estimates[2] < estimates[3] < estimates[6] < estimates[12]
    for n, estimate in estimates.items():
        assert fitting(arm, small_text.vocab, int(estimate / rows.SHARE) + 1) == n
    assert fitting(arm, small_text.vocab, 0) == 1


def test_the_estimate_is_that_of_the_ledger(small_arm, small_text):
    arm = small_arm()
    memory = account(arm, small_text.vocab).memory
    assert needed(arm, small_text.vocab, 4) == memory["gradients"] + memory["activations"]
    kept = small_arm(recipe={"activation_checkpointing": True})
    assert needed(kept, small_text.vocab, 4) == memory["gradients"] + memory["activations_checkpointed"]


def test_only_a_gpu_without_a_micro_batch_is_estimated(make_trainer, small_arm, monkeypatch):
    made, cut = make_trainer(), make_trainer(small_arm(recipe={"micro_batch": 48}))
    monkeypatch.setattr(trainer, "free_bytes", lambda device: 0)
    assert (made.first_rows(), cut.first_rows()) == (4, 3)
    for one in (made, cut):
        object.__setattr__(one.machine, "device", torch.device("cuda"))
    assert (made.first_rows(), cut.first_rows()) == (1, 3)


def test_free_is_what_the_driver_has_and_what_the_allocator_does_not_use(monkeypatch):
    for name, value in {"mem_get_info": (100, 1000), "memory_reserved": 50, "memory_allocated": 20}.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    assert free_bytes(torch.device("cuda")) == 130
