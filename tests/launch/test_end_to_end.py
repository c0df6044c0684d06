"""A study with real workers: run, interrupted, killed with SIGKILL, resumed; the numbers are those of an unbroken run, bit for bit."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from ostinato.analysis import results_table
from ostinato.launch import due, run_study
from ostinato.measure.check import check
from ostinato.measure.load import load_run
from ostinato.store import Store

pytestmark = pytest.mark.xdist_group("launch end to end")  # they share one finished study
TOKENS = 64 * 200
LAUNCH = """
import sys
from pathlib import Path
from ostinato.launch import run_study
from ostinato.store import Store
from ostinato.study.records import Study
study = Study.model_validate_json(Path(sys.argv[1]).read_text())
outcome = run_study(study, Store(sys.argv[2]), seeds=[1], jobs=2)
sys.exit(130 if outcome.interrupted else 1 if outcome.failed else 0)
"""


def long(make):
    return make(tokens=TOKENS, every="3200")


@pytest.fixture(scope="module")
def unbroken(make_tiny, small_text, tmp_path_factory):
    """The study run in one go: its store, its outcome and what was printed."""
    console = Console(file=io.StringIO(), width=200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OSTINATO_CACHE", str(small_text.cache))
        store = Store(tmp_path_factory.mktemp("unbroken") / "store")
        outcome = run_study(long(make_tiny), store, seeds=[1], console=console)
    return SimpleNamespace(store=store, outcome=outcome, study=long(make_tiny), shown=console.file.getvalue())


def content(store, study):
    """All that must be the same: losses at every point, and the logged steps without their seconds."""
    found = {}
    version = store.study_folder(study.name).version(study)
    for key, fingerprint in version.runs.items():
        folder = store.run(fingerprint, version.evaluation(key[0]))
        for part, tokens in folder.measured():
            found[(*key, part, tokens)] = folder.read_losses(part, tokens).losses.tobytes()
        if folder.exists():
            found[(*key, "steps")] = folder.steps().drop_columns(["seconds"]).to_pylist()
            found[(*key, "weights")] = (folder.checkpoints()[TOKENS] / "weights.safetensors").read_bytes()
            found[(*key, "optimizer")] = (folder.checkpoints()[TOKENS] / "optimizer.safetensors").read_bytes()
    return found


def test_a_study_runs_to_its_end(unbroken):
    assert [row["arm"] for row in unbroken.outcome.done] == ["plain", "twice"], unbroken.shown
    rows = {row.name: row for row in results_table(unbroken.study, unbroken.store)}
    assert rows["twice"].final and rows["twice"].seeds.mean is not None and rows["twice"].below_floors is not None
    assert rows["plain"].runs[1].state == "missing" and rows["later"].runs[0].state == "not asked"
    assert rows["plain"].seconds > 0 and 0 < rows["plain"].sums.nats_per_token < rows["plain"].floors["unigram"]


def launched(study, root, tmp_path):
    """The launcher as a process of its own."""
    (tmp_path / "study.json").write_text(study.model_dump_json())
    with open(tmp_path / "launch.txt", "a") as log:
        return subprocess.Popen([sys.executable, "-c", LAUNCH, str(tmp_path / "study.json"), str(root)], stdout=log, stderr=log)


def first_beyond(folders, tokens, process, seconds=120):
    """Wait until one of the runs is beyond its number of tokens in `tokens`, and return that run."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for folder, least in zip(folders, tokens, strict=True):
            if (folder.progress().get("tokens") or 0) > least:
                return folder
        assert process.poll() is None, "the launcher ended too early"
        time.sleep(0.02)
    raise AssertionError("waited too long")


def test_interrupted_and_killed_then_the_same_command_ends_bit_identical(tiny, unbroken, tmp_path):
    study, store = long(tiny), Store(tmp_path / "store")
    folders = [job.folder for job in due(study, store, seeds=[1])]

    process = launched(study, store.root, tmp_path)  # once: SIGTERM to the launcher, so that the workers save
    first = first_beyond(folders, [640, 640], process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 130
    assert first.status()["state"] == "stopped" and max(first.checkpoints()) == first.progress()["tokens"]
    said = (tmp_path / "launch.txt").read_text()
    assert "Go on with:" in said and "ostinato run tiny" in said and not any(folder.in_use() for folder in folders)

    reached = [(folder.progress().get("tokens") or 0) + 640 for folder in folders]
    process = launched(study, store.root, tmp_path)  # twice: SIGKILL to the launcher and to one of its workers
    killed = first_beyond(folders, reached, process)
    process.kill()
    os.kill(killed.status()["process"], signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 120
    while any(folder.in_use() for folder in folders):  # the other worker notices that it is alone, saves and leaves
        assert time.monotonic() < deadline, "a worker goes on without its launcher"
        time.sleep(0.1)
    assert killed.status()["state"] == "stopped" and killed.status()["killed"]
    assert all(folder.status()["state"] in ("new", "stopped") for folder in folders)

    process = launched(study, store.root, tmp_path)  # and now to the end
    assert process.wait(300) == 0, (tmp_path / "launch.txt").read_text()
    ours, theirs = content(store, study), content(unbroken.store, study)
    assert ours.keys() == theirs.keys() and len(ours) == 2 * (2 * 4 + 3)
    assert [key for key in ours if ours[key] != theirs[key]] == []


def test_a_worker_that_is_killed_is_told_and_the_same_command_goes_on(tiny, unbroken, store, console):
    study, killed = long(tiny), []

    def kill(view):
        if not killed and view.runs[0].tokens > 1280:
            folder = store.runs_of(study)["plain", 1]
            killed.append(os.kill(folder.status()["process"], signal.SIGKILL))

    outcome = run_study(study, store, arms=["plain"], seeds=[1], console=console, on_update=kill)
    assert killed and "killed by SIGKILL" in outcome.failed[0]["error"] and not outcome.interrupted
    assert store.runs_of(study)["plain", 1].status()["state"] == "failed"
    assert run_study(study, store, arms=["plain"], seeds=[1], console=console).done
    ours, theirs = content(store, study), content(unbroken.store, study)
    assert len(ours) == 2 * 4 + 3 and [key for key in ours if ours[key] != theirs[key]] == []


def test_another_study_finds_the_run(unbroken, tiny, console):
    other = long(tiny).model_copy(update={"name": "other", "arms": long(tiny).arms[:1]})
    outcome = run_study(other, unbroken.store, seeds=[1], console=console)
    assert [row["arm"] for row in outcome.reused] == ["plain"] and not outcome.done
    assert "found done already, 1 of them for another study" in console.file.getvalue()


def test_the_stored_losses_are_reproduced(unbroken, small_text):
    store = unbroken.store
    for folder in store.runs():
        assert check(folder, store, cache=small_text.cache).verdict == "bit-identical"
    decoder, prepared = load_run(store.runs()[0], cache=small_text.cache)
    assert decoder.vocab == prepared.vocab


def test_a_worker_that_fails_says_why_and_the_other_goes_on(tiny, store, console):
    study = tiny(tokens=640)
    broken = study.arms[1].model_copy(update={"model": study.arms[1].model.model_copy(update={"head_dim": 3})})
    study = study.model_copy(update={"arms": (study.arms[0], broken)})
    outcome = run_study(study, store, seeds=[1], console=console)
    assert [row["arm"] for row in outcome.done] == ["plain"] and [row["arm"] for row in outcome.failed] == ["twice"]
    assert "RoPE on heads of 3 channels" in outcome.failed[0]["error"]
    assert [row.record()["seeds_failed"] for row in results_table(study, store)] == [[], [1]]
