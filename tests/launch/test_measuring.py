"""Measures at the end of a run: what is lacking makes it due, a failure leaves it trained, a stop leaves the rest for later."""

from __future__ import annotations

import contextlib
import json
import shutil

import pytest

from ostinato.api import take_measures
from ostinato.data import minimal_pairs
from ostinato.errors import DataError, StoreError
from ostinato.files import lock
from ostinato.launch import due, run_study
from ostinato.launch.jobs import all_jobs, prepare_texts
from ostinato.launch.measuring import measure_at_end, measure_one, measure_study, measured_run
from ostinato.measure.taking import measure_run
from ostinato.store import RunFolder
from ostinato.study.records import Measure
from ostinato.train import RunRequest, train

MEASURE = Measure(take=("lens", "states"), targets=100)


@pytest.fixture
def trained(tiny, store):
    """(study, the job of plain, seed 1, trained to its end with nothing but losses)."""
    study = tiny(measure=MEASURE)
    job = next(job for job in all_jobs(study, store, prepare_texts(study)) if job.name == "plain, seed 1")
    content = {"arm": job.arm.model_dump(mode="json"), "seed": 1, "data_fingerprint": job.prepared.fingerprint}
    job.folder.write_record({"arm": "plain", "seed": 1, "study": "tiny"}, content, {})
    assert train(RunRequest(job.arm, 1, study.evaluate, study.checkpoints), job.prepared, job.folder, device="cpu", threads=1,
                 tensorboard=False) == "done"  # fmt: skip
    store.create().study_folder(study.name).write(study, {(one.arm.name, one.seed): one.fingerprint
                                                         for one in all_jobs(study, store, prepare_texts(study))})  # fmt: skip
    return study, job


def at_end(study, job, stop=lambda: False):
    return measure_at_end(job.folder, job.prepared, job.arm, study.evaluate, study.measure, "cpu", stop)


def test_a_trained_run_without_its_measures_is_due_and_not_trained_anew(trained, store):
    study, job = trained
    assert job.state() == "unmeasured" and "plain, seed 1" in [one.name for one in due(study, store)]
    before = job.folder.finished_steps_path.read_bytes()
    assert at_end(study, job) == "done" and job.state() == "done"
    assert job.folder.finished_steps_path.read_bytes() == before and job.folder.status()["state"] == "done"
    assert {one.name: one.tokens for one in job.folder.measures()} == {"lens": 1280, "states": 1280}
    assert job.folder.progress()["taking"] >= 0
    more = study.model_copy(update={"measure": MEASURE.model_copy(update={"targets": 50})})
    assert "plain, seed 1" in [one.name for one in due(more, store)]


def test_a_failure_leaves_the_run_trained_and_is_tried_again(trained, monkeypatch):
    study, job = trained
    with monkeypatch.context() as patch:
        patch.setattr("ostinato.measure.lens.take", lambda *_: 1 / 0)
        assert at_end(study, job) == "failed"
    status = job.folder.status()
    assert status["state"] == "done" and status["tokens"] == 1280 and "not measured: lens: ZeroDivisionError" in status["error"]
    assert [one.name for one in job.folder.measures()] == ["states"] and job.state() == "unmeasured"
    assert at_end(study, job) == "done" and "error" not in job.folder.status() and job.state() == "done"


def test_a_run_without_its_checkpoint_is_trained_all_the_same(trained):
    study, job = trained
    for path in job.folder.checkpoints().values():
        (path / "weights.safetensors").write_bytes(b"")
    assert at_end(study, job) == "failed" and job.folder.status()["state"] == "done"
    assert "weights" in job.folder.status()["error"]


def test_a_stop_keeps_what_was_taken(trained):
    study, job = trained
    heard = []

    def stop():
        heard.append(1)
        return len(job.folder.measures()) == 1

    assert at_end(study, job, stop) == "stopped"
    assert [one.name for one in job.folder.measures()] == ["lens"] and job.folder.status()["state"] == "done"
    assert at_end(study, job) == "done"


def test_the_share_of_the_work_that_is_left(trained):
    job = trained[1]
    assert job.taking_work > 0 and job.measuring_work > job.taking_work
    assert job.work_done(1280, None, 0.0) == pytest.approx(job.work - job.taking_work)
    assert job.work_done(1280, None, 1.0) == pytest.approx(job.work)


def test_a_study_is_measured_run_by_run(trained, store, console):
    study, job = trained
    measured = measure_study(study, store, MEASURE, device="cpu", console=console)
    states = {(row["arm"], row["seed"], row["measure"]): row["state"] for row in measured.rows}
    assert states["plain", 1, "lens"] == states["plain", 1, "states"] == "taken"
    assert states["plain", 2, ""] == states["twice", 1, ""] == "untrained" and not measured.failed
    again = measure_study(study, store, MEASURE, only=("lens", "depths"), device="cpu", console=console)
    assert {row["measure"]: row["state"] for row in again.rows if row["seed"] == 1 and row["arm"] == "plain"} == {
        "lens": "taken", "depths": "left out"}  # fmt: skip
    missing = measure_study(study, store, MEASURE, tokens=7, device="cpu", console=console)
    assert [row["why"].splitlines()[0] for row in missing.failed] == [f"run {job.folder.name} has no checkpoint at 7 tokens"]


def test_a_run_that_another_process_has_is_measured_elsewhere(trained, store, console, monkeypatch):
    study, job = trained
    monkeypatch.setattr("ostinato.measure.taking.WAIT_SECONDS", 0.0)

    def measured():
        found = measure_study(study, store, MEASURE, device="cpu", console=console)
        assert not found.failed
        return [row for row in found.rows if row["run"] == job.folder.name]

    with contextlib.ExitStack() as other:
        other.enter_context(lock(job.folder.path / "lock", holder="process 7"))
        (row,) = measured()
        assert row["state"] == "elsewhere" and "another process works on it" in row["why"] and "process 7" in row["why"]
        assert not job.folder.measures()

        def then_let_go(*given, **text):
            with contextlib.closing(other):
                return measured_run(*given, **text)

        monkeypatch.setattr("ostinato.launch.measuring.measured_run", then_let_go)
        assert [row["state"] for row in measured()] == ["taken", "taken"], "tried again behind the others"


def test_what_another_process_took_meanwhile_is_not_taken_again(trained, store, monkeypatch):
    study, job = trained
    genuine = RunFolder.lock

    @contextlib.contextmanager
    def late(folder, *rest, **more):
        monkeypatch.setattr(RunFolder, "lock", genuine)
        at_end(study, job)
        with genuine(folder, *rest, **more):
            yield

    monkeypatch.setattr(RunFolder, "lock", late)
    took = measure_run(job.folder, MEASURE, device="cpu", evaluate=study.evaluate, prepared=job.prepared)
    assert [one.state for one in took] == ["stored", "stored"]


def test_a_study_without_a_trained_run_is_refused(tiny, store, console):
    with pytest.raises(StoreError, match="ostinato run tiny"):
        measure_study(tiny(), store, MEASURE, device="cpu", console=console)
    assert not store.root.exists()


def line(good="A bird sings.", bad="A bird sing."):
    return json.dumps({"sentence_good": good, "sentence_bad": bad}) + "\n"


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs"
    path.mkdir()
    (path / "agreement.jsonl").write_text(line() + "{torn\n")
    return path


def test_pairs_that_cannot_be_read_stop_a_study_before_it_trains(tiny, store, console, pairs):
    study = tiny(measure=Measure(take=("pairs",), pairs=str(pairs)))
    with pytest.raises(DataError, match=r"agreement.jsonl, line 2: not JSON"):
        run_study(study, store, console=console, device="cpu")
    assert not store.root.exists()
    (pairs / "agreement.jsonl").unlink()
    with pytest.raises(DataError, match="has no file of pairs"):
        run_study(study, store, console=console, device="cpu")
    assert not store.root.exists()


def test_pairs_that_cannot_be_read_stop_measuring_before_anything_is_taken(trained, store, console, pairs):
    study, job = trained
    wanted = Measure(take=("lens", "pairs"), targets=100, pairs=str(pairs))
    for ask in (lambda: measure_study(study, store, wanted, device="cpu", console=console),
                lambda: measure_one(job.folder, wanted, device="cpu", console=console),
                lambda: take_measures(job.folder.name, ["lens", "pairs"], pairs, device="cpu", store=store.root, console=console)):
        with pytest.raises(DataError, match="line 2"):
            ask()
    assert not job.folder.measures()
    lens = measure_study(study, store, wanted, only=("lens",), device="cpu", console=console)
    assert not lens.failed and [one.name for one in job.folder.measures()] == ["lens"], "whoever asks for no pairs needs none"


def test_pairs_are_read_once_for_all_runs_and_not_where_they_are_taken(trained, store, console, pairs, monkeypatch):
    (pairs / "agreement.jsonl").write_text(line())
    study, job = trained
    for other in all_jobs(study, store, prepare_texts(study)):
        if other.name == "plain, seed 2":
            shutil.copytree(job.folder.path, other.folder.path)
    read, genuine = [], minimal_pairs.read_pairs
    monkeypatch.setattr(minimal_pairs, "read_pairs", lambda where: read.append(where) or genuine(where))
    wanted = Measure(take=("pairs",), pairs=str(pairs))
    measured = measure_study(study, store, wanted, device="cpu", console=console)
    assert [row["state"] for row in measured.rows].count("taken") == 2 and len(read) == 1
    (pairs / "agreement.jsonl").write_text("{torn\n")
    again = measure_study(study, store, wanted, device="cpu", console=console)
    assert [row["state"] for row in again.rows].count("stored") == 2 and len(read) == 1
    with pytest.raises(DataError, match="line 1"):
        measure_study(study, store, wanted, only=("pairs",), device="cpu", console=console)
