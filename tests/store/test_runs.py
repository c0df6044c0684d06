"""One run on disk: records, states, locks, steps, losses, and what happens to torn files."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow.parquet as pq
import pytest

from ostinato.errors import StoreError

FINGERPRINT = "0123456789abcdef" * 4


def test_nothing_exists_before_it_is_written(store):
    folder = store.run(FINGERPRINT)
    assert not folder.exists() and not store.root.exists()
    assert folder.status() == {"state": "new"} and folder.progress() == {} and folder.measured() == [] and folder.steps().num_rows == 0
    assert not store.root.exists()
    with pytest.raises(StoreError, match="no run in"):
        folder.record()


def test_the_first_record_stays_and_sessions_are_added(store):
    folder = store.run(FINGERPRINT)
    folder.write_record({"arm": "plain"}, {"lr": 0.1}, {"host": 1})
    folder.write_record({"arm": "other name"}, {"lr": 0.1}, {"host": 2})
    record = folder.record()
    assert record["given"] == {"arm": "plain"} and record["resolved"] == {"lr": 0.1}
    assert [session["environment"]["host"] for session in record["sessions"]] == [1, 2]
    assert [found.name for found in store.runs()] == [FINGERPRINT[:16]]


def test_states(store):
    folder = store.run(FINGERPRINT)
    with pytest.raises(StoreError, match="'finished'"):
        folder.set_status("finished")
    with folder.lock():
        folder.set_status("running", tokens=5)
        assert folder.status()["state"] == "running" and folder.in_use()
    status = folder.status()  # nobody holds it any more: the process died
    assert status["state"] == "stopped" and status["killed"] and status["tokens"] == 5
    folder.set_status("done")
    assert folder.status()["state"] == "done"


def test_a_lock_is_held_once_across_processes_and_again_by_the_same_thread(store):
    folder = store.run(FINGERPRINT)
    code = textwrap.dedent("""
        import sys
        from pathlib import Path
        from ostinato.store import RunFolder
        from ostinato.errors import StoreError
        try:
            with RunFolder(Path(sys.argv[1])).lock(wait=0):
                print("free")
        except StoreError as error:
            print(error)
    """)

    def attempt():
        return subprocess.run([sys.executable, "-c", code, str(folder.path)], capture_output=True, text=True, check=True).stdout

    with folder.lock(holder="ostinato run tiny"):
        with folder.lock():
            assert "in use by ostinato run tiny" in attempt()
        assert "in use" in attempt(), "the inner block must not let go of the lock"
    assert attempt() == "free\n" and not folder.in_use()


def test_the_most_memory_of_all_sessions_stays(store):
    folder = store.run(FINGERPRINT)
    assert folder.peak_bytes() is None
    for peak in (300, 500, 400):
        folder.write_peak(peak, "cpu")
    assert folder.peak_bytes() == 500
    (folder.path / "cost.json").write_text("{")
    with pytest.raises(StoreError, match=r"cost\.json cannot be read"):
        folder.peak_bytes()


def test_tokens_a_second_are_the_median_of_the_steps(store):
    folder = store.run(FINGERPRINT)
    folder.path.mkdir(parents=True)
    assert folder.tokens_per_s() is None
    for step, seconds in ((4, 0.5), (5, 0.25), (6, 100.0)):  # the first lines are lost, and a laptop slept
        folder.append_step({"step": step, "tokens": 8 * step, "loss": 0.1, "lr": 0.1, "grad_norm": 1.0, "seconds": seconds})
    assert folder.tokens_per_s() == 16.0


def test_steps_survive_a_torn_last_line_and_a_resume(store):
    folder = store.run(FINGERPRINT)
    folder.path.mkdir(parents=True)
    for step in (1, 2, 3):
        folder.append_step({"step": step, "tokens": 8 * step, "loss": 0.1 + step, "lr": 0.1, "grad_norm": 1.0, "seconds": 0.25})
    with open(folder.steps_path, "a") as file:
        file.write('{"step": 4, "tok')
    assert folder.steps()["step"].to_pylist() == [1, 2, 3]
    folder.keep_steps(2)
    folder.append_step({"step": 3, "tokens": 24, "loss": 9.0, "lr": 0.1, "grad_norm": 1.0, "seconds": 0.25})
    assert folder.steps()["loss"].to_pylist() == [1.1, 2.1, 9.0]
    folder.finish_steps()
    folder.finish_steps()
    assert not folder.steps_path.exists() and folder.steps()["loss"].to_pylist() == [1.1, 2.1, 9.0]
    folder.keep_steps(1)  # a finished run that goes back to an earlier checkpoint
    assert folder.steps()["step"].to_pylist() == [1] and not folder.finished_steps_path.exists()


def test_steps_torn_in_the_middle_are_named(store):
    folder = store.run(FINGERPRINT)
    folder.path.mkdir(parents=True)
    folder.steps_path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(StoreError, match=r"steps\.jsonl cannot be read: line 2"):
        folder.steps()


def test_losses_round_trip_bit_for_bit_with_their_sums(store, targets):
    folder = store.run(FINGERPRINT)
    losses = np.random.default_rng(0).exponential(size=20).astype(np.float32)
    folder.write_losses("validation", 1000, losses, targets)
    folder.write_losses("validation", 200, losses, targets)
    table = folder.read_losses("validation", 1000)
    assert table.losses.dtype == np.float32 and (table.losses == losses).all()
    assert (table.target_id, table.tokens, table.part) == (targets.id, 1000, "validation")
    summary = folder.read_loss_summary("validation", 1000)
    assert summary["sum_nats"] == losses.sum(dtype=np.float64) and (summary["targets"], summary["bytes"]) == (20, 60)
    assert folder.measured() == [("validation", 200), ("validation", 1000)]
    stored = store.targets(targets.id)
    for name in ("document", "position", "token", "bytes"):
        assert (getattr(stored, name) == getattr(targets, name)).all()
    assert stored.policy == "each document alone"


@pytest.mark.parametrize("losses", [np.zeros(19), np.zeros((20, 1)), np.full(20, np.nan), np.full(20, np.inf)])
def test_losses_that_do_not_fit_are_refused_and_nothing_is_written(store, targets, losses):
    folder = store.run(FINGERPRINT)
    with pytest.raises(StoreError):
        folder.write_losses("validation", 1, losses, targets)
    assert folder.measured() == []


def test_unknown_points_and_parts(store, targets):
    folder = store.run(FINGERPRINT)
    folder.write_losses("validation", 7, np.ones(20), targets)
    with pytest.raises(StoreError, match="measured points: 7"):
        folder.read_losses("validation", 8)
    with pytest.raises(StoreError, match="'test'"):
        folder.write_losses("test", 7, np.ones(20), targets)


@pytest.mark.parametrize(("name", "key"), [("record.json", "'given'"), ("status.json", "'state'")])
def test_a_file_that_lacks_what_it_must_say_is_named(store, name, key):
    folder = store.run(FINGERPRINT)
    folder.write_record({}, {}, {})
    (folder.path / name).write_text("{}")
    with pytest.raises(StoreError, match=f"it lacks {key}") as caught:
        (folder.record if name == "record.json" else folder.status)()
    assert f"delete {folder.path / name}" in caught.value.fix


@pytest.mark.parametrize("name", ["record.json", "status.json", "progress.json", "losses/default/validation/7.parquet", "steps.parquet"])
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\xff" * len(data)])
def test_a_torn_file_is_named_with_how_to_mend_it(store, targets, name, damage):
    folder = store.run(FINGERPRINT)
    folder.write_record({}, {}, {})
    folder.set_status("done")
    folder.write_progress({"step": 1})
    folder.append_step({"step": 1, "tokens": 8, "loss": 1.0, "lr": 0.1, "grad_norm": 1.0, "seconds": 0.25})
    folder.finish_steps()
    folder.write_losses("validation", 7, np.ones(20), targets)
    readers = [folder.record, folder.status, folder.progress, lambda: folder.read_losses("validation", 7), folder.steps]
    for reader in readers:
        reader()
    file = folder.path / name
    file.write_bytes(damage(file.read_bytes()))
    failures = []
    for reader in readers:
        try:
            reader()
        except StoreError as error:
            failures.append(error)
    assert len(failures) == 1 and str(file) in failures[0].what and "delete" in failures[0].fix


def test_numbers_that_json_lacks_become_null(store):
    folder = store.run(FINGERPRINT)
    folder.write_progress({"loss": float("nan"), "rate": [float("inf"), 1.5]})
    assert folder.progress()["loss"] is None and folder.progress()["rate"] == [None, 1.5]


def test_fingerprints_are_checked(store):
    for bad in ("", "abc", "../../../etc/passwd", "G" * 64):
        with pytest.raises(StoreError, match="hex digits"):
            store.run(bad)


def test_targets_of_an_older_store_are_completed_and_keep_their_id(store, targets):
    folder, path = store.run("a" * 64, "x"), store.targets_path / f"{targets.id}.parquet"
    folder.write_losses("validation", 100, np.full(20, 3.0), targets)
    assert (store.targets(targets.id).digest == targets.digest).all()
    pq.write_table(pq.read_table(path).drop_columns("digest"), path)
    assert store.targets(targets.id).digest is None
    store.write_targets(targets)
    after = store.targets(targets.id)
    assert (after.digest == targets.digest).all() and after.id == targets.id and (after.position == targets.position).all()
    written = path.stat().st_mtime_ns
    store.write_targets(targets)
    assert path.stat().st_mtime_ns == written, "what is whole is left alone"
    path.write_bytes(b"torn")
    with pytest.raises(StoreError, match="is written anew"):
        store.write_targets(targets)


def test_targets_of_rows_keep_their_rows_and_an_older_file_gets_them(store, targets):
    targets.row = np.arange(len(targets.token), dtype=np.int32) // 5
    path = store.targets_path / f"{targets.id}.parquet"
    store.write_targets(targets)
    assert (store.targets(targets.id).row == targets.row).all()
    pq.write_table(pq.read_table(path).drop_columns("row"), path)
    assert store.targets(targets.id).row is None
    store.write_targets(targets)
    assert (store.targets(targets.id).row == targets.row).all()


def test_how_the_first_session_computed_is_remembered_piece_by_piece(store):
    folder = store.run(FINGERPRINT)
    assert folder.session() == {} and not store.root.exists()
    folder.write_session(device="cpu", threads=2, compiled=False)
    folder.write_session(rows_at_once=4)
    assert folder.session() == {"device": "cpu", "threads": 2, "compiled": False, "rows_at_once": 4}
    with pytest.raises(StoreError, match="'rows'"):
        folder.write_session(rows=4)
    (folder.path / "session.json").write_text("{")
    with pytest.raises(StoreError, match=r"session\.json cannot be read"):
        folder.session()


@pytest.mark.parametrize(("name", "value"), [
    ("threads", 0), ("threads", "2"), ("threads", True), ("compiled", 1), ("device", None), ("rows_at_once", {}), ("rows_at_once", [8]),
    ("rows_at_once", {"asked": None, "at": []}), ("rows_at_once", {"asked": 0, "at": [[0, 8]]}),
    ("rows_at_once", {"asked": 8, "at": [[1, 8]]}), ("rows_at_once", {"asked": 8, "at": [[0, 8], [3, 0]]}),
])  # fmt: skip
def test_what_no_session_can_have_computed_with_is_refused_by_name(store, name, value):
    folder = store.run(FINGERPRINT)
    folder.path.mkdir(parents=True)
    (folder.path / "session.json").write_text(json.dumps({"threads": 2, "rows_at_once": {"asked": None, "at": [[0, 8], [3, 4]]}}))
    assert folder.session()["threads"] == 2
    (folder.path / "session.json").write_text(json.dumps({"threads": 2, name: value}))
    with pytest.raises(StoreError, match=rf"{name} is .*\n.*\n.*delete .*session\.json"):
        folder.session()


def test_of_an_older_run_the_newest_checkpoint_says_how_it_was_computed(store):
    folder = store.run(FINGERPRINT)
    for tokens, threads in ((64, 2), (128, 1)):
        path = folder.checkpoints_path / f"{tokens:012d}"
        path.mkdir(parents=True)
        (path / "manifest.json").write_text(f'{{"threads": {threads}, "compiled": false, "step": 1}}')
    assert folder.session() == {"threads": 1, "compiled": False}
    (path / "manifest.json").write_text("{")  # training goes on from the one before, too
    assert folder.session() == {"threads": 2, "compiled": False}
