"""The key `measure:`: what it reads, what it refuses, and that no run becomes another by it."""

from __future__ import annotations

import json

import pytest

from ostinato.errors import StudyError
from ostinato.store import Store, study_hash
from ostinato.study import load_study
from ostinato.study.fingerprint import run_fingerprint
from ostinato.study.records import MEASURE_NAMES

BASE = "model: {layers: 2, d_model: 16, heads: 2}\narms: {plain: {}}\n"


@pytest.fixture
def study(tmp_path):
    def load(measure: str = ""):
        (tmp_path / "mine.yaml").write_text(BASE + (f"measure: {measure}\n" if measure else ""))
        return load_study(tmp_path / "mine.yaml")

    return load


@pytest.mark.parametrize(("text", "taken"), [("", MEASURE_NAMES), ("{take: all}", MEASURE_NAMES), ("{take: none}", ()), ("{take: []}", ()),
                                             ("{take: heads}", ("heads",)), ("{take: [lens, heads]}", ("lens", "heads"))])  # fmt: skip
def test_which_are_taken(study, text, taken):
    assert study(text).measure.take == taken


@pytest.mark.parametrize(("text", "said"), [("{take: [lense]}", "'lense' is not lens, "), ("{targets: 0}", "at least 1"),
                                            ("{pairs: nowhere}", "nowhere is not there"), ("{pears: blimp}", "pairs")])  # fmt: skip
def test_what_is_refused_names_the_line(study, text, said):
    with pytest.raises(StudyError) as caught:
        study(text)
    assert said in str(caught.value) and "line 3" in str(caught.value) and "measure" in str(caught.value)


def test_pairs_are_blimp_or_a_folder_beside_the_study(study, tmp_path):
    (tmp_path / "mine").mkdir()
    assert study("{pairs: mine}").measure.pairs == str(tmp_path / "mine")
    assert study("{pairs: BLiMP}").measure.pairs == "blimp"
    assert study("{pairs: none}").measure.pairs is None
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="is a file"):
        study("{pairs: file}")


def test_no_run_is_another_by_it(study):
    plain, other = study(), study("{take: none, targets: 5}")
    assert study_hash(plain) != study_hash(other)
    assert run_fingerprint(plain.arms[0], 1, "d") == run_fingerprint(other.arms[0], 1, "d")


def test_a_study_that_was_stored_before_the_key_is_found_again(study, tmp_path):
    folder = Store(tmp_path / "store").create().study_folder("mine")
    version = folder.write(study(), {("plain", 1): "a" * 64})
    file = version.path / "study.json"
    content = json.loads(file.read_text())
    del content["study"]["measure"]
    file.write_text(json.dumps(content))
    assert folder.version(study()).name == version.name
    assert folder.version(study("{take: none}")) is None
