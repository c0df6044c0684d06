"""Versions of a study beside each other, shared runs, and the store as a whole."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ostinato.errors import StoreError
from ostinato.store import Store, evaluation_key, study_hash
from ostinato.study.records import Evaluate, Prediction

from .conftest import make_study

RUNS = {("plain", 1): "a" * 64, ("twice", 1): "c" * 64}


def test_a_changed_study_is_another_version_and_overwrites_nothing(store):
    folder = store.study_folder("tiny")
    first, changed = make_study(given="question: ?\n"), make_study(size="another")
    one = folder.write(first, RUNS)
    content = {file: file.read_bytes() for file in one.path.rglob("*") if file.is_file()}
    two = folder.write(changed, RUNS)
    assert one.path != two.path and study_hash(first) != study_hash(changed)
    assert {file: file.read_bytes() for file in one.path.rglob("*") if file.is_file()} == content
    assert folder.version(first).path == one.path and folder.version(changed).path == two.path
    assert folder.version(first).study == make_study() and folder.version(first).runs == RUNS
    assert (one.path / "given.yaml").read_text() == "question: ?\n"
    assert [version.path for version in folder.versions()] == [one.path, two.path]


def test_a_comment_in_the_file_or_its_place_is_no_change(store):
    folder = store.study_folder("tiny")
    one = folder.write(make_study(given="question: ?", path="/a.yaml"), RUNS)
    assert folder.write(make_study(given="question: ?  # why", path="/b.yaml"), RUNS).path == one.path


def test_another_wording_is_no_change(store):
    folder, study = store.study_folder("tiny"), make_study()
    one = folder.write(study, RUNS)
    arms = tuple(arm.model_copy(update={"note": "said otherwise"}) for arm in study.arms)
    said = study.model_copy(update={"question": "why?", "about": "more", "ours": {"lr": "ours"}, "arms": arms})
    assert folder.write(said, RUNS).path == one.path == folder.version(said).path and study_hash(said) == study_hash(study)


def test_what_is_predicted_is_no_part_of_which_study_it_is(store):
    """A study stored before there were predictions is found by one that makes some, with the same runs, and each by the other."""
    folder, before = store.study_folder("tiny"), make_study()
    one = folder.write(before, RUNS)
    stored = json.loads((one.path / "study.json").read_text())
    assert not {"predictions", "quantities"} & set(stored["study"]) and "run_if" not in stored["study"]["arms"][0]
    said = (Prediction(supported="gain(twice) > 0", killed="otherwise"),)
    waits = before.arms[1].model_copy(update={"run_if": "gain(twice) > 0"})
    after = before.model_copy(update={"predictions": said, "quantities": {"x": "gain(twice)"}, "arms": (before.arms[0], waits)})
    assert study_hash(after) == study_hash(before)
    assert folder.write(after, RUNS).path == one.path == folder.version(after).path == folder.version(before).path


def test_evaluations_of_a_shared_run_are_kept_apart(filled, study, targets):
    """Another stride in another study measures the same run anew and leaves the first losses alone."""
    other = make_study("other", evaluate=Evaluate(stride=7))
    filled.study_folder("other").write(other, {("plain", 1): "a" * 64})
    ours, theirs = filled.runs_of(study)["plain", 1], filled.runs_of(other)["plain", 1]
    assert ours.path == theirs.path and ours.evaluation != theirs.evaluation and theirs.measured() == []
    before = ours.read_losses("validation", 100).losses
    theirs.write_losses("validation", 100, before + 1, targets)
    assert (ours.read_losses("validation", 100).losses == before).all()
    assert filled.query("select study, nats from results where tokens = 100 and arm = 'plain' order by study").rows == [
        ("other", pytest.approx(3.9)),
        ("tiny", pytest.approx(2.9)),
    ]
    assert ours.evaluations() == [ours.evaluation, theirs.evaluation]


def test_what_an_evaluation_is_named_by():
    plain = evaluation_key(Evaluate(), 128)
    assert plain == evaluation_key(Evaluate(every="100k", batch=1, context=128), 64), "when and in what batches changes no loss"
    assert (
        len(
            {plain, evaluation_key(Evaluate(), 64), evaluation_key(Evaluate(windows="rows"), 128), evaluation_key(Evaluate(targets=9), 128)}
        )
        == 4
    )


def test_the_same_study_over_other_data_is_another_version_and_the_last_run_counts(store):
    folder, study = store.study_folder("tiny"), make_study()
    one = folder.write(study, RUNS)
    two = folder.write(study, {**RUNS, ("twice", 1): "e" * 64})
    assert one.path != two.path and folder.version(study).path == two.path
    assert folder.write(study, RUNS).path == one.path
    assert folder.version(study).path == one.path, "the data went back to what it was"
    assert len(folder.versions()) == 2


def test_a_study_that_never_ran(store):
    folder = store.study_folder("tiny")
    assert folder.versions() == [] and folder.version(make_study()) is None and list(folder.events()) == []
    assert store.runs_of(make_study()) == {} and store.studies() == [] and not store.root.exists()


def test_two_studies_share_a_run(filled, study, targets):
    other = make_study("other", arms=("plain", "third"))
    filled.study_folder("other").write(other, {("plain", 1): "a" * 64})
    assert filled.runs_of(other)["plain", 1].path == filled.runs_of(study)["plain", 1].path
    assert list(filled.runs_of(other)) == [("plain", 1)]
    assert filled.query("select distinct study from results where run = 'aaaaaaaaaaaaaaaa' order by 1").rows == [("other",), ("tiny",)]
    assert filled.query("select studies from runs where arm = 'plain'").rows == [("other, tiny",)]
    assert [folder.name for folder in filled.studies()] == ["other", "tiny"]


@pytest.mark.parametrize("name", ["tiny", "..", ".hidden", "a/b", "größe 2", "x" * 60, "a\\b", "%2E"])
def test_any_name_is_one_folder_inside_the_store(store, name):
    folder = store.study_folder(name)
    assert folder.path.parent == store.root / "studies" and folder.name == name and not folder.path.name.startswith(".")
    folder.write(make_study(name), RUNS)
    assert [found.name for found in store.studies()] == [name]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: '{"study": ',
        lambda content: "{}",
        lambda content: json.dumps(content | {"study": content["study"] | {"key of another version": 1}}),
        lambda content: json.dumps(content | {"runs": [{"arm": "plain"}]}),
    ],
)
def test_a_torn_version_is_named(store, damage):
    file = store.study_folder("tiny").write(make_study(), RUNS).path / "study.json"
    file.write_text(damage(json.loads(file.read_text())))
    with pytest.raises(StoreError, match=r"study\.json cannot be read") as caught:
        store.study_folder("tiny").versions()
    assert caught.value.fix


def test_events_skip_a_line_torn_by_a_crash(store):
    folder = store.study_folder("tiny")
    folder.log("run", version="x")
    with open(folder.path / "log.jsonl", "a") as file:
        file.write('{"at": "20')
    assert [event["event"] for event in folder.events()] == ["run"]


def test_floors_belong_to_targets_and_data(store):
    assert store.floors("t" * 64, "d" * 64) is None
    store.write_floors("t" * 64, "d" * 64, {"unigram": np.float64(5.3), "bigram": 3.6})
    assert store.floors("t" * 64, "d" * 64) == {"unigram": 5.3, "bigram": 3.6} and store.floors("t" * 64, "e" * 64) is None


def test_stores_of_another_format_and_files_are_refused(tmp_path):
    Store(tmp_path).create()
    assert json.loads((tmp_path / "store.json").read_text()) == {"format": 1}
    (tmp_path / "store.json").write_text('{"format": 99}')
    with pytest.raises(StoreError, match="format 99"):
        Store(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        Store(tmp_path / "file")
    with pytest.raises(StoreError, match="is missing"):
        Store(tmp_path / "none").targets("t" * 64)


def test_a_study_stored_before_a_key_was_there_is_still_found(store):
    """A version of ostinato with more keys finds the results of one with fewer, as long as the new keys are not given."""
    folder, study = store.study_folder("tiny"), make_study()
    one = folder.write(study, RUNS)
    file = one.path / "study.json"
    content = json.loads(file.read_text())
    for arm in content["study"]["arms"]:
        del arm["against"]
    file.write_text(json.dumps(content | {"study_hash": "0" * 64}))
    assert folder.version(study).path == one.path and folder.write(study, RUNS).path == one.path and len(folder.versions()) == 1
    given = study.model_copy(update={"arms": (study.arms[0], study.arms[1].model_copy(update={"against": "plain"}))})
    assert folder.version(given) is None
