"""Registering: what existed already is found by what a run is, the user's commit is read whatever state it is in, the next step is said."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from ostinato.errors import StudyError
from ostinato.files import sha256
from ostinato.judge.register import register, results, unregistered
from ostinato.store import Store, evaluation_key
from ostinato.store.environment import file_state
from ostinato.study import load_study, run_fingerprint

STUDY = """
data: {corpus: text.txt}
model: {layers: 2, d_model: 16, heads: 2}
arms:
  plain: {}
  twice: {schedule: 1..2 1..2}
seeds: [1, 2]
"""
PREDICTED = STUDY + "predictions:\n  - {supported: gain(twice) >= 0.02, killed: gain(twice) <= 0}\n"
DATA = "d" * 64


@pytest.fixture
def place(tmp_path):
    (tmp_path / "text.txt").write_text("some text")
    return tmp_path


def load(place, text=PREDICTED, name="mine"):
    (place / f"{name}.yaml").write_text(text)
    return load_study(place / f"{name}.yaml")


def targets_of(count=4):
    ids = np.arange(count, dtype=np.int32)
    return SimpleNamespace(id="t" * 64, document=ids, position=ids + 1, token=ids, bytes=np.ones(count, dtype=np.int32),
                           digest=ids.astype(np.uint64), row=None, policy="each document alone")  # fmt: skip


def trained(store, study, arm, seed, points=(100, 200), parts=("validation",), data=DATA):
    """A run in the store as the launch records it."""
    found = next(one for one in study.arms if one.name == arm)
    fingerprint = run_fingerprint(found, seed, data)
    folder = store.create().run(fingerprint, evaluation_key(study.evaluate, found.recipe.context))
    folder.write_record({"study": study.name, "arm": arm, "seed": seed},
                        {"arm": found.model_dump(mode="json"), "data_fingerprint": data, "fingerprint": fingerprint}, {})  # fmt: skip
    for part in parts:
        for tokens in points:
            folder.write_losses(part, tokens, np.ones(4, dtype=np.float32), targets_of())
    return folder


def test_a_study_without_predictions_is_told_how_to_make_one(place):
    store = Store(place / "store")
    with pytest.raises(StudyError, match="predictions:") as caught:
        register(load(place, STUDY), store)
    assert "ostinato keys predictions" in caught.value.fix and not store.root.exists()


def test_before_any_run_nothing_existed(place):
    study, store = load(place), Store(place / "store")
    assert unregistered(study, store) == "its predictions are not registered" and not store.root.exists()
    made = register(study, store)
    assert made.results == () and not made.found and made.study.given == PREDICTED
    assert unregistered(study, store) == "" and register(study, store).found
    changed = load(place, PREDICTED.replace("0.02", "0.03"))
    assert unregistered(changed, store) == "the study has changed since registration 1"
    assert unregistered(load(place, STUDY), store) == ""


def test_what_existed_is_listed_with_the_hash_of_its_newest_file(place):
    study, store = load(place), Store(place / "store")
    folder = trained(store, study, "twice", 2, parts=("validation", "held_out"))
    made = register(study, store)
    assert [(one.arm, one.seed, one.part, one.points, one.run) for one in made.results] == [
        ("twice", 2, "held_out", (100, 200), folder.name),
        ("twice", 2, "validation", (100, 200), folder.name),
    ]
    assert made.results[1].sha256 == sha256(store.root / made.results[1].file) and made.results[1].file.endswith("validation/200.parquet")


def test_a_run_of_another_study_is_a_result_of_this_one(place):
    """The same model, recipe and text under another name: it would be taken over without training."""
    study, store = load(place), Store(place / "store")
    other = load(place, PREDICTED.replace("twice", "loop"), "other")
    trained(store, other, "loop", 1)
    trained(store, load(place, STUDY.replace("d_model: 16", "d_model: 32"), "wide"), "plain", 1)
    assert [(one.arm, one.seed) for one in results(study, store)] == [("twice", 1)]


def test_a_version_of_before_counts_too(place):
    """The arm has changed since; its run is still a result that somebody has seen."""
    old, store = load(place), Store(place / "store")
    folder = trained(store, old, "twice", 1)
    store.study_folder("mine").write(old, {("twice", 1): folder.name + "0" * 48})
    study = load(place, PREDICTED.replace("1..2 1..2", "1..2 2"))
    assert [(one.arm, one.run) for one in results(study, store)] == [("twice", folder.name)]


def test_training_losses_without_a_measurement_count(place):
    study, store = load(place), Store(place / "store")
    folder = trained(store, study, "plain", 1, points=())
    assert list(results(study, store)) == []
    folder.append_step({"step": 1, "tokens": 64, "loss": 3.0, "lr": 0.1, "grad_norm": None, "seconds": 0.1})
    (one,) = results(study, store)
    assert (one.part, one.tokens, one.sha256) == ("train", 64, "")


def test_a_torn_record_is_no_reason_not_to_register(place):
    study, store = load(place), Store(place / "store")
    folder = trained(store, study, "twice", 1)
    (folder.path / "record.json").write_text("{")
    assert register(study, store).number == 1


def test_the_commit_whatever_the_repository_is(place):
    file = place / "repository" / "mine.yaml"
    file.parent.mkdir()
    file.write_text(PREDICTED)
    git = ("git", "-C", str(file.parent), "-c", "user.name=x", "-c", "user.email=x@example.org")

    def does(*words):
        subprocess.run([*git, *words], check=True, capture_output=True)

    assert file_state(file) == {"commit": None, "why": "it is in no git repository that can be read"}
    assert file_state(None)["why"] == "the study was not read from a file"
    does("init", "-b", "main")
    assert file_state(file) == {"commit": None, "why": "its repository has no commit yet"}
    (file.parent / "README").write_text("x")
    does("add", "README")
    does("commit", "-m", "one")
    assert file_state(file)["file"] == "not committed" and len(file_state(file)["commit"]) == 40
    does("add", "mine.yaml")
    assert file_state(file)["file"] == "changed since", "added, and not committed yet"
    does("commit", "-m", "two")
    assert file_state(file) == file_state(file) | {"file": "as committed", "branch": "main"}
    (file.parent / "README").write_text("dirty elsewhere")
    assert file_state(file)["file"] == "as committed"
    file.write_text(STUDY)
    assert file_state(file)["file"] == "changed since"


def test_without_git_the_seal_says_so(place, monkeypatch):
    monkeypatch.setenv("PATH", "")
    made = register(load(place), Store(place / "store"))
    assert made.commit is None and made.git["why"] == "git is not installed"


def test_registering_imports_no_torch_and_no_arrays(place):
    load(place)
    script = ("import sys, ostinato; ostinato.Study.load('mine.yaml', store='store').register(); "
              "print(sorted({'torch', 'numpy', 'pyarrow', 'scipy'} & set(sys.modules)))")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", script], cwd=place, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
