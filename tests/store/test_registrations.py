"""Sealed studies: what is sealed, how they are chained, and that whatever is edited afterwards is found with its line."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import threading

import pytest

from ostinato.errors import StoreError
from ostinato.store import Store, registrations, seals
from ostinato.store.registrations import Change, Result
from ostinato.study.records import Prediction

from .conftest import make_study

GAIN = Prediction(name="p1", claim="looping helps", supported={"PASS": "gain(twice) >= 0.02"}, killed={"KILL": "gain(twice) <= 0"})
GIVEN = "question: ?\npredictions:\n  - {supported: gain(twice) >= 0.02}\n"
RESULT = Result("twice", 1, "c" * 16, "validation", (100, 200), "runs/x.parquet", "0" * 64)


def study_of(*predictions, **more):
    return make_study(predictions=predictions or (GAIN,), given=GIVEN, **more)


def killed_at(border):
    return GAIN.model_copy(update={"killed": {"KILL": f"gain(twice) <= {border}"}})


@pytest.fixture
def folder(store):
    return store.create().study_folder("tiny")


@pytest.fixture
def chain(folder):
    """Three registrations; the kill line moves."""
    for border in ("0", "0.01", "0.02"):
        folder.register(study_of(killed_at(border)))
    return folder


def edit(file, old, new):
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, text
    file.write_text(text.replace(old, new), encoding="utf-8")
    return next(place for place, line in enumerate(text.split("\n"), 1) if old.split("\n")[0] in line)


def reseal(path):
    """What somebody does who knows how it is made: the digests and the fingerprint fit what is there."""
    seal = json.loads((path / "seal.json").read_text(encoding="utf-8"))
    text = (path / "study.json").read_text(encoding="utf-8")
    seal["files"]["study.json"], seal["lines"]["study.json"] = registrations.sha256_of(text), registrations.line_digests(text)
    rest = {key: value for key, value in seal.items() if key not in ("digests", "fingerprint")}
    seal = {**rest, "digests": {key: registrations.digest(registrations.canonical(value)) for key, value in rest.items()}}
    seal["fingerprint"] = registrations.seal_fingerprint(seal, text)
    (path / "seal.json").write_text(json.dumps(seal), encoding="utf-8")


def test_what_is_sealed_is_read_back(folder):
    study = study_of()
    made = folder.register(study, [RESULT], {"commit": "a" * 40, "branch": "main", "file": "as committed"})
    assert (made.number, made.previous, made.found, made.changes, made.results) == (1, None, False, (), (RESULT,))
    assert made.study == study and made.study.given == GIVEN and made.commit == "a" * 40 and made.results[0].tokens == 200
    assert made.versions["ostinato"] and "torch" in made.versions and made.at.endswith("+00:00")
    assert folder.registrations() == [made] and seals.faults(folder.registrations_path) == []
    assert sorted(path.name for path in made.path.iterdir()) == ["given.yaml", "seal.json", "study.json"]
    assert [(event["number"], event["fingerprint"]) for event in folder.events()] == [(1, made.fingerprint)]
    lines = (made.path / "study.json").read_text(encoding="utf-8").split("\n")
    assert sum("gain(twice) >= 0.02" in line for line in lines) == 1 and max(map(len, lines)) < 140
    json.dumps(made.record())


def test_the_fingerprint_is_of_the_seal_and_the_text(folder):
    """Made again by hand, from the sentence in the docstring."""
    import hashlib

    made = folder.register(study_of())
    seal = json.loads((made.path / "seal.json").read_text(encoding="utf-8"))
    assert seal.pop("fingerprint") == made.fingerprint
    text = json.dumps(seal, sort_keys=True, separators=(",", ":")) + "\n" + (made.path / "study.json").read_text(encoding="utf-8")
    assert hashlib.sha256(text.encode()).hexdigest() == made.fingerprint
    assert seal["files"]["given.yaml"] == hashlib.sha256(GIVEN.encode()).hexdigest()


def test_the_same_study_again_is_the_one_that_is_there(chain):
    again = chain.register(study_of(killed_at("0.02"), path="/elsewhere.yaml"), [RESULT])
    assert again.found and again.number == 3 and len(chain.registrations()) == 3 and again.results == ()
    back = chain.register(study_of(killed_at("0")))
    assert back.number == 4 and not back.found, "to take an amendment back is an amendment"


def test_an_amendment_says_what_changed(chain):
    one, two, _ = chain.registrations()
    assert two.previous == one.fingerprint
    assert two.changes == (Change(("predictions", "p1", "killed", "KILL"), "gain(twice) <= 0", "gain(twice) <= 0.01"),)
    assert two.changes[0].prediction == "p1" and str(two.changes[0]) == "predictions.p1.killed.KILL: gain(twice) <= 0 → gain(twice) <= 0.01"
    more = chain.register(study_of(GAIN.model_copy(update={"name": "p.2"}), arms=("plain", "twice", "deep")))
    assert {(change.place, change.before is None, change.after is None, change.prediction) for change in more.changes} == {
        (("predictions", "p1"), False, True, "p1"),
        (("predictions", "p.2"), True, False, "p.2"),
        (("arms", "deep"), True, False, None),
    }


def test_the_order_of_outcomes_is_a_change_and_that_of_arms_is_none(folder):
    two = {"NONE": "gain(twice) <= 0", "FAIL": "gain(twice) <= 0.01"}
    folder.register(study_of(GAIN.model_copy(update={"killed": two})))
    turned = study_of(GAIN.model_copy(update={"killed": dict(reversed(two.items()))}))
    made = folder.register(turned)
    assert [str(change) for change in made.changes] == ["predictions.p1.killed.order: NONE, FAIL → FAIL, NONE"]
    assert list(folder.registrations()[1].study.predictions[0].killed) == ["FAIL", "NONE"]
    assert folder.register(turned.model_copy(update={"arms": turned.arms[::-1]})).found


def test_an_edited_line_is_named_with_its_number_and_text(chain):
    one, two, _ = chain.registrations()
    file = two.path / "study.json"
    line = edit(file, "gain(twice) <= 0.01", "gain(twice) <= 0.00")
    (fault,) = seals.faults(chain.registrations_path)
    assert fault.startswith(f"{file}, line {line} was edited") and 'it reads: "KILL": "gain(twice) <= 0.00"' in fault
    assert seals.faults(one.path.parent) == [fault], "the others are as they were"


def test_what_an_edited_line_read_is_found_where_it_still_stands(chain):
    _, two, three = chain.registrations()
    line = edit(two.path / "study.json", '"question": "?"', '"question": "!"')
    (fault,) = seals.faults(chain.registrations_path)
    assert f"line {line} was edited" in fault and '(sealed: "question": "?",)' in fault
    (two.path / "study.json").write_bytes((three.path / "study.json").read_bytes())
    (fault,) = seals.faults(chain.registrations_path)
    assert "gain(twice) <= 0.02" in fault


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (' "question": "?",\n', "", "taken out before it"),
        (' "question": "?",\n', ' "question": "?",\n "about": "more",\n', 'was put in: "about": "more",'),
        ("}\n", "} \n", "was edited"),
    ],
)
def test_lines_put_in_and_taken_out(folder, old, new, said):
    file = folder.register(study_of()).path / "study.json"
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: text.rindex(old)] + new + text[text.rindex(old) + len(old) :], encoding="utf-8")
    faults = seals.faults(folder.registrations_path)
    assert len(faults) == 1 and said in faults[0]


def test_the_file_as_it_was_given_is_sealed_too(folder):
    file = folder.register(study_of()).path / "given.yaml"
    edit(file, ">= 0.02", ">= 0.01")
    (fault,) = seals.faults(folder.registrations_path)
    assert f"{file}, line 3 was edited" in fault


def test_line_ends_of_another_system_are_no_edit(folder):
    path = folder.register(study_of()).path
    for file in path.iterdir():
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert seals.faults(path.parent) == [] and folder.registrations()[0].study == study_of()


@pytest.mark.parametrize("key", ["at", "results", "git", "previous", "number", "held_out_shown", "versions", "changes", "study"])
def test_an_edited_seal_is_named_with_the_key(folder, key):
    file = folder.register(study_of(), [RESULT]).path / "seal.json"
    seal = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**seal, key: {"at": "2020-01-01T00:00:00+00:00", "number": 7, "results": []}.get(key, {"x": 1})}, indent=1))
    faults = seals.faults(file.parent.parent)
    assert any(f": {key} was edited; it reads" in fault and f"{file}, line " in fault for fault in faults), faults


def test_a_key_taken_out_and_another_fingerprint(folder):
    file = folder.register(study_of()).path / "seal.json"
    seal = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({key: value for key, value in seal.items() if key != "study"}))
    assert any("study was taken out" in fault for fault in seals.faults(file.parent.parent))
    file.write_text(json.dumps({**seal, "fingerprint": "f" * 64}))
    assert any(seal["fingerprint"] in fault and "f" * 64 in fault for fault in seals.faults(file.parent.parent))


def test_who_seals_an_edit_again_breaks_the_chain(chain):
    _, two, _ = chain.registrations()
    edit(two.path / "study.json", "gain(twice) <= 0.01", "gain(twice) <= -1")
    reseal(two.path)
    faults = seals.faults(chain.registrations_path)
    assert any("0003" in fault and f"it follows {two.fingerprint}" in fault for fault in faults)
    assert any("log.jsonl says" in fault and two.fingerprint in fault for fault in faults)


def test_a_missing_link_and_a_missing_end(chain):
    _, two, three = chain.registrations()
    shutil.rmtree(two.path)
    faults = seals.faults(chain.registrations_path)
    assert any(f"registration 2 is missing before {three.path}" in fault and two.fingerprint in fault for fault in faults)
    shutil.copytree(three.path, two.path)
    assert any("is of registration 3 and lies in 0002" in fault for fault in seals.faults(chain.registrations_path))
    shutil.rmtree(two.path)
    shutil.rmtree(three.path)
    assert len(seals.faults(chain.registrations_path)) == 2, "the log names both"
    made = chain.register(study_of(killed_at("9")))
    assert made.number == 4, "a number that was given is not given again"


def test_a_clock_that_goes_backwards_is_a_note_and_no_fault(folder, monkeypatch):
    times = iter(["2026-11-30T10:00:00+00:00", "2026-11-29T10:00:00+00:00", "2099-01-01T00:00:00+00:00"])
    monkeypatch.setattr(registrations, "now", lambda: next(times))
    for border in ("0", "1", "2"):
        folder.register(study_of(killed_at(border)))
    checked = seals.check(folder.path)
    assert [one.number for one in checked.registrations] == [1, 2, 3] and checked.faults == ()
    assert any("a clock went backwards: registration 2" in note for note in checked.notes)
    assert any("registration 3 says 2099" in note and "ahead" in note for note in checked.notes)


@pytest.mark.parametrize("content", [b"", b"{", b'{"number": 1}', b"[1]", b"\xff\xfe", b"null"])
def test_a_torn_seal_is_a_fault_and_stops_the_chain(chain, content):
    file = chain.registrations()[2].path / "seal.json"
    file.write_bytes(content)
    assert any(str(file) in fault for fault in seals.faults(chain.registrations_path))
    with pytest.raises(StoreError, match="--check"):
        chain.register(study_of(killed_at("9")))
    file.unlink()
    assert any("is not there" in fault for fault in seals.faults(chain.registrations_path))
    with pytest.raises(StoreError, match="is not there"):
        chain.registrations()
    assert len(registrations.numbered(chain.registrations_path)) == 3


def test_a_torn_study_is_a_fault(folder):
    file = folder.register(study_of()).path / "study.json"
    file.write_text("{")
    assert any(str(file) in fault for fault in seals.faults(folder.registrations_path))
    with pytest.raises(StoreError, match=r"study\.json"):
        folder.registrations()


def test_what_a_crash_leaves_is_no_registration(folder):
    folder.register(study_of())
    (folder.registrations_path / ".0002.x1").mkdir()
    (folder.registrations_path / "notes").mkdir()
    assert len(folder.registrations()) == 1 and seals.faults(folder.registrations_path) == []
    assert folder.register(study_of(killed_at("1"))).number == 2


def _register(root, border, gate):
    gate.wait()
    Store(root).study_folder("tiny").register(study_of(killed_at(border)))


def test_two_processes_at_once_make_one_chain(store, folder):
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(4)
    workers = [context.Process(target=_register, args=(store.root, border, gate)) for border in ("1", "2", "3", "3")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * 4
    made = folder.registrations()
    assert [one.number for one in made] == list(range(1, len(made) + 1)) and len(made) in (3, 4) and seals.faults(made[0].path.parent) == []
    assert {one.study.predictions[0].killed["KILL"] for one in made} == {f"gain(twice) <= {border}" for border in "123"}


def test_many_threads_of_the_same_study_make_one(folder):
    threads = [threading.Thread(target=folder.register, args=(study_of(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folder.registrations()) == 1 and seals.faults(folder.registrations_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_may_not_be_written(chain):
    chain.path.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            chain.register(study_of(killed_at("9")))
        assert seals.faults(chain.registrations_path) == []
    finally:
        chain.path.chmod(0o700)


def test_checking_takes_any_of_the_folders_and_writes_nothing(store, chain, tmp_path):
    before = sorted((path, path.stat().st_mtime_ns) for path in store.root.rglob("*"))
    for place in (store.root, store.root / "studies", chain.path, chain.registrations_path):
        assert len(seals.check(place).registrations) == 3 and seals.check(place).faults == ()
    copy = tmp_path / "mail" / "0002"
    shutil.copytree(chain.registrations()[1].path, copy)
    alone = seals.check(copy)
    assert alone.faults == () and len(alone.registrations) == 1 and "cannot be checked" in alone.notes[0]
    beside = seals.check(chain.registrations_path / "0002")
    assert "registration 1 is checked, and not that one itself" in beside.notes[0]
    assert beside.faults == () and [one.number for one in beside.registrations] == [2]
    (tmp_path / "empty").mkdir()
    for nothing in (tmp_path / "empty", tmp_path / "nowhere", chain.path / "log.jsonl"):
        with pytest.raises(StoreError, match="registration"):
            seals.check(nothing)
    assert sorted((path, path.stat().st_mtime_ns) for path in store.root.rglob("*")) == before


def test_a_result_that_changed_since_is_a_note(store, folder):
    file = store.root / "runs" / "x.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"losses")
    from ostinato.files import sha256

    folder.register(study_of(), [Result("twice", 1, "c" * 16, "validation", (200,), "runs/x.parquet", sha256(file))])
    assert seals.check(folder.path).notes == ()
    file.write_bytes(b"others")
    assert "has changed" in seals.check(folder.path).notes[0] and seals.check(folder.path).faults == ()
    file.unlink()
    assert "is gone" in seals.check(folder.path).notes[0]


def test_looking_at_the_held_out_part_first_is_sealed(folder):
    folder.log("held_out_shown", by="query")
    assert folder.register(study_of()).held_out_shown == folder.events()[0]["at"] and folder.judged() is None
