"""A trainer takes the same steps however its steps are cut, whoever else runs, and learns something."""

from __future__ import annotations

import pytest
import torch

from ostinato.errors import DataError, StudyError, TrainingError


def losses(trainer, steps):
    return [trainer.step().loss for _ in range(steps)]


def weights(trainer):
    return {name: tensor.detach().clone() for name, tensor in trainer.decoder.named_parameters()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_the_loss_falls(make_trainer, small_arm, optimizer):
    trainer = make_trainer(small_arm(recipe={"tokens": "4k", "lr": 0.02 if optimizer == "muon" else 0.01, "optimizer": optimizer}))
    found = losses(trainer, 60)
    assert sum(found[-5:]) / 5 < found[0] - 1.0


def test_two_trainers_of_one_seed_agree_bit_for_bit_and_another_seed_differs(make_trainer):
    first, second, third = make_trainer(), make_trainer(), make_trainer(seed=2)
    assert losses(first, 5) == losses(second, 5) != losses(third, 5)
    assert same(weights(first), weights(second))


def test_a_restart_is_a_new_trainer(make_trainer):
    trainer = make_trainer()
    before = losses(trainer, 3)
    trainer.restart()
    assert losses(trainer, 3) == before


def test_micro_batches_and_checkpointing_change_nothing_but_rounding(make_trainer, small_arm):
    whole = make_trainer()
    cut = make_trainer(small_arm(recipe={"micro_batch": 20}))
    kept = make_trainer(small_arm(recipe={"activation_checkpointing": True}))
    assert (whole.rows_at_once, cut.rows_at_once) == (4, 1)
    reference = losses(whole, 4)
    assert losses(cut, 4) == pytest.approx(reference, rel=1e-5)
    assert losses(kept, 4) == reference


def test_a_record_says_where_the_run_is(make_trainer, small_arm):
    trainer = make_trainer(small_arm(recipe={"tokens": 256, "lr": 0.02, "lr_schedule": {"decay": 0.5}}))
    records = [trainer.step() for _ in range(4)]
    assert [(record.step, record.tokens) for record in records] == [(1, 64), (2, 128), (3, 192), (4, 256)]
    assert [record.lr for record in records] == [0.02, 0.02, 0.02, 0.01]
    assert all(record.seconds > 0 and record.grad_norm > 0 for record in records)


def test_the_first_loss_is_that_of_a_model_that_knows_nothing(make_trainer, small_text):
    assert make_trainer().step().loss == pytest.approx(torch.tensor(float(small_text.vocab)).log().item(), rel=0.05)


def test_clipping_bounds_what_the_optimizer_sees(make_trainer, small_arm):
    trainer = make_trainer(small_arm(recipe={"clip": 0.001}))
    record = trainer.step()
    seen = torch.cat([tensor.grad.flatten() for tensor in trainer.optimizers.tensors]).norm().item()
    assert record.grad_norm > 0.01
    assert seen == pytest.approx(0.001, rel=1e-4)


def test_a_loss_that_is_not_finite_leaves_model_and_optimizers_as_they_were(make_trainer):
    trainer = make_trainer()
    trainer.step()
    with torch.no_grad():
        trainer.decoder.final_norm.weight[0] = float("nan")
    before, state = weights(trainer), {name: tensor.clone() for name, tensor in trainer.optimizers.state().items()}
    with pytest.raises(TrainingError, match="the loss is nan"):
        trainer.step()
    assert trainer.step_number == 1
    after = weights(trainer)
    assert all(torch.equal(before[name].nan_to_num(), after[name].nan_to_num()) for name in before)
    assert same(state, trainer.optimizers.state())


def test_bfloat16_products_train_float32_weights(make_trainer, small_arm, small_text):
    from ostinato.train.machine import choose
    from ostinato.train.trainer import Trainer

    trainer = Trainer(small_arm(recipe={"dtype": "bfloat16"}), 1, small_text, choose("cpu", "bfloat16", 1, False))
    full = make_trainer()
    assert {tensor.dtype for tensor in trainer.optimizers.tensors} == {torch.float32}
    assert losses(trainer, 3) == pytest.approx(losses(full, 3), rel=2e-2)


def test_more_rows_a_step_than_there_are_is_an_error(make_trainer, small_arm):
    with pytest.raises(DataError, match="fewer than"):
        make_trainer(small_arm(recipe={"tokens": "10M", "batch": "1M"}))


def test_fewer_tokens_than_one_step_is_an_error(make_trainer, small_arm):
    with pytest.raises(StudyError, match="fewer than one step"):
        make_trainer(small_arm(recipe={"tokens": 10}))


def test_several_epochs_are_reshuffled(make_trainer, small_arm):
    trainer = make_trainer(small_arm(recipe={"tokens": "40k"}))
    rows = len(trainer.plan.rows)
    first = [trainer.plan.indices(step).tolist() for step in range(rows // 4)]
    second = [trainer.plan.indices(step).tolist() for step in range(-(-rows // 4), 2 * rows // 4)]
    assert first != second[: len(first)]
