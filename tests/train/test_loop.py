"""A run from beginning to end: what it writes, where it goes on, what it refuses."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import logging

import numpy as np
import pytest
import torch

from ostinato.errors import StoreError, TrainingError
from ostinato.model.compiled import code_folder
from ostinato.store.environment import no_compiler
from ostinato.store.runs import RunFolder
from ostinato.study.records import Checkpoints, Evaluate
from ostinato.train import RunRequest, checkpoints, evaluation, loop, session, train
from ostinato.train.session import Session
from ostinato.train.trainer import Trainer

EVALUATE = Evaluate(every="640", targets=300, context=16)


@pytest.fixture
def run(small_text, tmp_path):
    """run(arm, name="a", evaluate=..., keep="all", every="320", **rest) -> (state, RunFolder), on one thread."""

    def start(arm, name="a", evaluate=EVALUATE, seed=1, keep="all", every="320", **rest):
        folder = RunFolder(tmp_path / "runs" / name, tmp_path / "targets")
        request = RunRequest(arm, seed, evaluate, Checkpoints(every=every, keep=keep))
        return train(request, small_text, folder, **{"device": "cpu", "threads": 1, "tensorboard": False, **rest}), folder

    return start


def after(steps):
    """A stop that says so after so many steps."""
    seen = []
    return {"stop": lambda: len(seen) >= steps, "on_step": seen.append}


def losses(folder):
    return {point: folder.read_losses(*point).losses for point in folder.measured()}


def steps(folder):
    table = folder.steps().to_pylist()
    return [{key: value for key, value in row.items() if key != "seconds"} for row in table]


def same_run(first, second):
    assert steps(first) == steps(second)
    one, other = losses(first), losses(second)
    assert one.keys() == other.keys()
    for point in one:
        np.testing.assert_array_equal(one[point], other[point])
    pair = [checkpoints.newest(folder.checkpoints_path) for folder in (first, second)]
    assert pair[0].manifest["files"] == pair[1].manifest["files"]


def test_a_whole_run(run, small_arm):
    state, folder = run(small_arm())
    assert state == "done" == folder.status()["state"]
    assert [row["step"] for row in steps(folder)] == list(range(1, 21))
    assert [row["tokens"] for row in steps(folder)] == list(range(64, 1281, 64))
    assert folder.measured() == [("held_out", 640), ("held_out", 1280), ("validation", 640), ("validation", 1280)]
    assert all(len(found) and np.isfinite(found).all() for found in losses(folder).values())
    assert losses(folder)["validation", 1280].mean() < losses(folder)["validation", 640].mean()
    assert [found.tokens for found in checkpoints.listing(folder.checkpoints_path)] == [320, 640, 960, 1280]
    progress = folder.progress()
    assert (progress["step"], progress["steps"], progress["tokens"], progress["total"]) == (20, 20, 1280, 1280)
    assert progress["loss"] == steps(folder)[-1]["loss"]
    assert progress["tokens_per_s"] > 0 == progress["seconds_left"]
    assert folder.status()["seconds"] == folder.training_seconds() > 0


def test_the_groups_are_logged_once_and_stored(run, small_arm, caplog):
    with caplog.at_level(logging.INFO, "ostinato"):
        _, folder = run(small_arm())
    assert caplog.text.count("optimizer groups") == 1
    assert caplog.text.count("Muon batched in") == 1
    rows = json.loads((folder.path / "optimizer_groups.json").read_text())
    assert {row["role"]: row["optimizer"] for row in rows} == {"matrix": "muon", "norm": "adamw", "embedding": "adamw"}


def test_the_log_and_the_screen_show_no_held_out_number(run, small_arm, caplog):
    with caplog.at_level(logging.DEBUG, "ostinato"):
        _, folder = run(small_arm())
    held_out = losses(folder)["held_out", 1280].mean(dtype=np.float64)
    assert f"{losses(folder)['validation', 1280].mean(dtype=np.float64):.4f}" in caplog.text
    assert f"{held_out:.4f}" not in caplog.text


def test_stopped_and_gone_on_equals_unbroken(run, small_arm):
    _, whole = run(small_arm(), "whole")
    for number in (3, 7, 1):
        state, folder = run(small_arm(), "parts", **after(number))
        assert state == "stopped" == folder.status()["state"]
    assert folder.progress()["step"] == 11
    state, folder = run(small_arm(), "parts")
    assert state == "done"
    same_run(whole, folder)


@pytest.mark.skipif(no_compiler() is not None, reason=f"needs {no_compiler()}")
def test_compiled_it_goes_on_to_the_bit_with_the_code_on_disk(run, small_arm, monkeypatch, tmp_path):
    """Compiled to machine code once; two more sessions find it in the cache folder. Losses are those of eager training."""
    from torch._dynamo.utils import counters
    from torch._inductor import config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "put back at the end")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.setenv("OSTINATO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(config.cpp, "vec_isa_ok", True)  # trying every instruction set takes eight seconds
    _, eager = run(small_arm(), "eager")
    counters.clear()
    _, whole = run(small_arm(), "whole", compiled=True)
    assert counters["aot_autograd"]["autograd_cache_saved"] == 1 and not counters["aot_autograd"]["autograd_cache_hit"]
    assert list((tmp_path / "cache" / "compiled").iterdir()) == [code_folder()]
    assert run(small_arm(), "parts", compiled=True, **after(7))[0] == "stopped"
    state, parts = run(small_arm(), "parts", compiled=True)
    assert state == "done" and counters["aot_autograd"]["autograd_cache_saved"] == 1 and counters["aot_autograd"]["autograd_cache_hit"] == 2
    same_run(whole, parts)
    assert [row["loss"] for row in steps(whole)] == pytest.approx([row["loss"] for row in steps(eager)], rel=1e-5)
    assert [row["grad_norm"] for row in steps(whole)] == pytest.approx([row["grad_norm"] for row in steps(eager)], rel=1e-3)


def test_stopped_before_the_first_step_saves_nothing(run, small_arm):
    state, folder = run(small_arm(), stop=lambda: True)
    assert state == "stopped"
    assert checkpoints.listing(folder.checkpoints_path) == []
    assert run(small_arm())[0] == "done"


def test_checkpoints_by_the_clock_change_nothing(run, small_arm):
    _, whole = run(small_arm(), "whole")
    _, often = run(small_arm(), "often", safety_seconds=0.0)
    same_run(whole, often)
    assert [found.tokens for found in checkpoints.listing(often.checkpoints_path)] == [320, 640, 960, 1216, 1280]


def test_keep_last_keeps_two_and_those_at_measurements(run, small_arm):
    _, folder = run(small_arm(), keep="last", every="64")
    assert [found.tokens for found in checkpoints.listing(folder.checkpoints_path)] == [640, 1216, 1280]


def test_a_done_run_is_not_touched(run, small_arm):
    _, folder = run(small_arm())
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*") if path.is_file() and path.name != "lock"}
    assert run(small_arm(), device="cpu", on_step=lambda record: pytest.fail("a step was taken"))[0] == "done"
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*") if path.is_file() and path.name != "lock"} == before


def test_a_new_point_of_a_done_run_starts_from_the_checkpoint_before_it(run, small_arm, monkeypatch, caplog):
    dense = Evaluate(every="at 640, 704, 1280", targets=300, context=16)
    _, whole = run(small_arm(), "whole", evaluate=dense)
    _, folder = run(small_arm(), "late")
    taken = []
    step = Session._step
    monkeypatch.setattr(Session, "_step", lambda self, on_step: (step(self, on_step), taken.append(self.trainer.step_number)))
    with caplog.at_level(logging.WARNING, "ostinato"):
        assert run(small_arm(), "late", evaluate=dense)[0] == "done"
    assert taken == [11]
    assert caplog.text == ""
    assert ("validation", 704) in folder.measured()
    same_run(whole, folder)
    assert folder.status()["tokens"] == 1280, "a run that is done is at its end, also when a session came for a point on the way"
    told = folder.progress()
    assert (told["step"], told["tokens"], told["seconds_left"], told["loss"]) == (20, 1280, 0, whole.progress()["loss"])


def test_a_new_point_without_checkpoints_starts_from_the_beginning(run, small_arm):
    dense = Evaluate(every="at 192, 640, 1280", targets=300, context=16)
    _, whole = run(small_arm(), "whole", evaluate=dense)
    _, folder = run(small_arm(), "late")
    assert run(small_arm(), "late", evaluate=dense)[0] == "done"
    same_run(whole, folder)
    assert [found.tokens for found in checkpoints.listing(folder.checkpoints_path)] == [320, 640, 960, 1280]


def test_another_evaluation_of_the_same_run_stands_beside_the_first(run, small_arm):
    _, folder = run(small_arm())
    first = folder.evaluation
    before = losses(folder.under(first))
    assert run(small_arm(), evaluate=Evaluate(targets=300, context=12))[0] == "done"
    assert len(folder.evaluations()) == 2
    other = next(name for name in folder.evaluations() if name != first)
    assert folder.under(other).measured() == [("held_out", 1280), ("validation", 1280)]
    for point, values in losses(folder.under(first)).items():
        np.testing.assert_array_equal(values, before[point])


def test_held_out_at_the_end_only(run, small_arm):
    evaluate = EVALUATE.model_copy(update={"held_out": "end"})
    state, folder = run(small_arm(), evaluate=evaluate)
    end = max(tokens for _, tokens in folder.measured())
    assert state == "done" and {tokens for part, tokens in folder.measured() if part == "held_out"} == {end}
    assert len({tokens for part, tokens in folder.measured() if part == "validation"}) > 1
    assert run(small_arm())[0] == "done"  # asked for at every point after all: what is missing is measured
    assert {tokens for part, tokens in folder.measured() if part == "held_out"} == {
        tokens for part, tokens in folder.measured() if part == "validation"
    }


def test_losses_of_other_targets_are_not_replaced(run, small_arm, monkeypatch):
    _, folder = run(small_arm())
    before = losses(folder)
    genuine = evaluation.targets
    monkeypatch.setattr(evaluation, "targets", lambda *given: dataclasses.replace(genuine(*given), id="f" * 64))
    with pytest.raises(StoreError, match="losses at 640 tokens on other"):
        run(small_arm())
    assert folder.status()["state"] == "done"
    for point, values in losses(folder).items():
        np.testing.assert_array_equal(values, before[point])


def test_a_torn_newest_checkpoint_costs_steps_and_changes_nothing(run, small_arm, caplog):
    _, whole = run(small_arm(), "whole")
    _, folder = run(small_arm(), "torn", **after(12))
    newest = checkpoints.newest(folder.checkpoints_path)
    assert newest.step == 12
    newest.weights.write_bytes(newest.weights.read_bytes()[:100])
    with caplog.at_level(logging.WARNING, "ostinato"):
        assert run(small_arm(), "torn")[0] == "done"
    assert f"{newest.path.name} is torn" in caplog.text
    same_run(whole, folder)


def test_no_complete_checkpoint_at_all_starts_again(run, small_arm):
    _, whole = run(small_arm(), "whole")
    _, folder = run(small_arm(), "none", **after(12))
    for found in checkpoints.listing(folder.checkpoints_path):
        (found.path / "manifest.json").unlink()
    assert run(small_arm(), "none")[0] == "done"
    same_run(whole, folder)


def test_a_log_that_was_deleted_costs_its_lines_only(run, small_arm, caplog):
    _, whole = run(small_arm(), "whole")
    _, folder = run(small_arm(), "lost", **after(12))
    folder.steps_path.unlink()
    with caplog.at_level(logging.WARNING, "ostinato"):
        assert run(small_arm(), "lost")[0] == "done"
    assert "lacks 12 of the first 12" in caplog.text
    assert steps(folder) == steps(whole)[12:]
    for point, values in losses(whole).items():
        np.testing.assert_array_equal(losses(folder)[point], values)


def test_a_torn_last_line_of_the_log_is_dropped(run, small_arm):
    _, whole = run(small_arm(), "whole")
    _, folder = run(small_arm(), "line", **after(12))
    with open(folder.steps_path, "a") as file:
        file.write('{"step": 13, "tok')
    assert run(small_arm(), "line")[0] == "done"
    same_run(whole, folder)


def test_a_loss_that_is_not_finite_fails_and_keeps_what_is_there(run, small_arm, monkeypatch):
    genuine = Trainer.step

    def poisoned(self):
        if self.step_number == 13:
            with torch.no_grad():
                self.decoder.final_norm.weight[0] = float("nan")
        return genuine(self)

    monkeypatch.setattr(Trainer, "step", poisoned)
    with pytest.raises(TrainingError, match="the loss is nan"):
        run(small_arm())
    monkeypatch.undo()
    folder = run(small_arm(), stop=lambda: True)[1]
    assert checkpoints.newest(folder.checkpoints_path).step == 10
    assert all(np.isfinite(row["loss"]) for row in steps(folder))


def test_a_failed_run_says_why(run, small_arm, monkeypatch, tmp_path):
    monkeypatch.setattr(Trainer, "step", lambda self: (_ for _ in ()).throw(TrainingError("the loss is nan")))
    with pytest.raises(TrainingError):
        run(small_arm())
    status = RunFolder(tmp_path / "runs" / "a").status()
    assert (status["state"], status["error"]) == ("failed", "the loss is nan")


def test_ctrl_c_between_saves_leaves_a_run_that_goes_on(run, small_arm, tmp_path):
    def interrupt(record):
        if record.step == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(small_arm(), on_step=interrupt)
    assert RunFolder(tmp_path / "runs" / "a").status()["state"] == "stopped"
    _, whole = run(small_arm(), "whole")
    _, folder = run(small_arm())
    same_run(whole, folder)


def test_windows_longer_than_learned_positions_are_refused(run, small_arm):
    with pytest.raises(TrainingError, match="learned positions"):
        run(small_arm(model={"positions": "learned"}), evaluate=Evaluate(context=32))


def test_a_checkpoint_of_other_threads_or_micro_batches_is_named(run, small_arm, caplog):
    _, folder = run(small_arm(), **after(5))
    with caplog.at_level(logging.WARNING, "ostinato"):
        folder.write_session(threads=2)  # as a session on another kind of device would leave it
        run(small_arm(recipe={"micro_batch": 32}), stop=lambda: True)
    assert "threads 1, now 2; rows_at_once 4, now 2" in caplog.text


def test_progress_says_what_is_left(run, small_arm, monkeypatch, tmp_path):
    monkeypatch.setattr(session, "WRITE_SECONDS", 0.0)
    seen = []
    run(small_arm(), on_step=lambda record: seen.append(RunFolder(tmp_path / "runs" / "a").progress()))
    assert [progress.get("step") for progress in seen] == [None, *range(1, 20)]
    late = seen[15]
    assert late["loss"] > 0
    assert late["seconds_left"] >= (1280 - late["tokens"]) / late["tokens_per_s"] > 0


def test_progress_says_how_far_a_measurement_is(run, small_arm, monkeypatch):
    written, genuine = [], RunFolder.write_progress
    monkeypatch.setattr(session, "WRITE_SECONDS", 0.0)
    monkeypatch.setattr(RunFolder, "write_progress", lambda self, progress: (written.append(progress), genuine(self, progress)))
    run(small_arm())
    shares = [progress["measuring"] for progress in written if progress["tokens"] == 1280 and progress["measuring"] is not None]
    assert shares == sorted(shares) and 0 < shares[0] < shares[-1] == 1, "both parts are one measurement"
    assert all(progress["seconds_left"] >= 0 for progress in written if progress["measuring"])
    assert written[-1]["measuring"] is None


def test_progress_is_not_written_more_often_than_it_must(run, small_arm, monkeypatch):
    written, genuine = [], RunFolder.write_progress
    monkeypatch.setattr(session, "WRITE_SECONDS", 3600.0)
    monkeypatch.setattr(RunFolder, "write_progress", lambda self, progress: (written.append(progress), genuine(self, progress)))
    run(small_arm())
    assert [progress["step"] for progress in written] == [20, 20]


def test_tensorboard_curves(run, small_arm):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(small_arm(), tensorboard=True, **after(10))
    _, folder = run(small_arm(), tensorboard=True)
    events = EventAccumulator(str(folder.tensorboard_path))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == list(range(1, 21))
    assert [event.value for event in events.Scalars("train/loss")] == pytest.approx([row["loss"] for row in steps(folder)], rel=1e-6)
    others = {"train/lr", "train/grad_norm", "train/tokens_per_s", "validation/nats", "gradients/growth"}
    assert set(events.Tags()["scalars"]) == others | {"train/loss"}
    assert [event.step for event in events.Scalars("validation/nats")] == [10, 20]


def test_without_tensorboard_one_line_says_so(run, small_arm, monkeypatch, caplog):
    genuine = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "tensorboard" else genuine(name, *rest))
    with caplog.at_level(logging.INFO, "ostinato"):
        _, folder = run(small_arm(), tensorboard=True)
    assert caplog.text.count("no TensorBoard curves") == 1
    assert not folder.tensorboard_path.exists()


@pytest.mark.parametrize(
    "model", [{"family": "loop2", "windows": {"short": 4}, "schedule": "1..2 1..2:attn"}, {"inject": "add", "schedule": "(1..2)x2"}]
)
def test_other_models_run_too(run, small_arm, model):
    state, folder = run(small_arm(model=model, data={"document_mask": True}))
    assert state == "done"
    assert steps(folder)[-1]["loss"] < steps(folder)[0]["loss"]


def test_a_run_goes_on_with_the_threads_it_began_with(run, small_arm, caplog):
    state, folder = run(small_arm(), name="broken", threads=2, **after(7))
    assert state == "stopped" and folder.session().items() >= {"device": "cpu", "threads": 2, "compiled": False}.items()
    with caplog.at_level(logging.INFO, logger="ostinato"):
        assert run(small_arm(), name="broken", threads=1)[0] == "done"
    assert "as the run began: 2 threads, not compiled" in caplog.text and "the last digits may differ" not in caplog.text
    same_run(folder, run(small_arm(), name="whole", threads=2)[1])


def test_a_run_that_has_taken_no_step_may_still_compute_in_any_way(run, small_arm, tmp_path):
    """As after a first session that could not compile."""
    folder = RunFolder(tmp_path / "runs" / "a")
    folder.write_session(device="cpu", threads=2, compiled=True)
    state, folder = run(small_arm())
    assert state == "done" and folder.session().items() >= {"threads": 1, "compiled": False}.items()


def test_a_compiled_run_goes_on_where_nothing_can_be_compiled(run, small_arm, monkeypatch, caplog):
    _, folder = run(small_arm(), **after(5))
    folder.write_session(compiled=True)
    monkeypatch.setattr(loop, "no_compiler", lambda: "the C++ compiler g++")
    with caplog.at_level(logging.WARNING, logger="ostinato"):
        assert run(small_arm())[0] == "done"
    assert "the run began compiled; without the C++ compiler g++ it goes on not compiled" in caplog.text
    assert folder.session()["compiled"] is False
