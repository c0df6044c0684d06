"""`ostinato register` and `ostinato judge` as a person gives them, from a study without a prediction to an edited seal."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from ostinato import api
from ostinato.cli.main import app
from ostinato.store import StudyFolder

STUDY = """
data: {corpus: text.txt}
model: {layers: 2, d_model: 16, heads: 2}
arms:
  plain: {}
  twice: {schedule: 1..2 1..2}
"""
PREDICTED = STUDY + "predictions:\n  - {name: E1, claim: looping helps, supported: gain(twice) >= 0.02, killed: {KILL: gain(twice) <= 0}}\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("some text")
    (tmp_path / "mine.yaml").write_text(PREDICTED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OSTINATO_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("OSTINATO_CACHE", str(tmp_path / "cache"))
    return tmp_path


def ostinato(*words, code=0):
    """In this process: what a mistake looks like is tested in one of its own."""
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def test_register_amend_check_and_edit(place):
    said = ostinato("register", "mine.yaml")
    (made,) = json.loads(ostinato("register", "--check", "store", "--json"))["registrations"]
    assert "registration 1 of mine, sealed" in said and made["fingerprint"] in said and "No result of its runs existed yet" in said
    assert made["path"].replace("store/", str(place / "store") + "/", 1) in said
    assert "ostinato run mine.yaml" in said and "commit       none: " in said
    assert "registered already" in ostinato("register", "mine.yaml")
    (place / "mine.yaml").write_text(PREDICTED.replace("0.02", "0.03"))
    amended = ostinato("register", "mine.yaml")
    assert "changed since registration 1, before any results:" in amended
    assert "predictions.E1.supported.SUPPORTED: gain(twice) >= 0.02 → gain(twice) >= 0.03" in amended
    again = json.loads(ostinato("register", "mine.yaml", "--json"))
    assert again["found"] and again["number"] == 2 and again["previous"] == made["fingerprint"]
    folder = place / "store" / "studies" / "mine"
    assert "2 registrations as sealed" in ostinato("register", "--check", str(folder))
    file = folder / "registrations" / "0001" / "study.json"
    file.write_text(file.read_text().replace(">= 0.02", ">= 0.01"))
    shown = ostinato("register", "--check", str(folder / "registrations"), code=1)
    assert "study.json, line " in shown and ">= 0.01" in shown and "1 fault: this is not what was sealed" in shown
    assert len(json.loads(ostinato("register", "--check", "store", "--json", code=1))["faults"]) == 1


def test_a_registration_deleted_before_another_was_made(place):
    made = []
    for bound in ("0.02", "0.03", "0.04", "0.05"):
        if bound == "0.05":
            shutil.rmtree(made[-1]["path"])
        (place / "mine.yaml").write_text(PREDICTED.replace("0.02", bound))
        shown = ostinato("register", "mine.yaml")
        made.append(json.loads(ostinato("register", "mine.yaml", "--json")))
    assert [one["number"] for one in made] == [1, 2, 3, 4] and "changed since registration 2, before any results:" in shown
    faults = json.loads(ostinato("register", "--check", "store", "--json", code=1))["faults"]
    assert any("registration 3 is missing before" in fault and "which follows registration 2" in fault for fault in faults)
    assert not any(made[1]["fingerprint"] in fault for fault in faults) and any(made[2]["fingerprint"] in fault for fault in faults)


def test_what_plan_and_run_name_as_the_next_step(place, monkeypatch):
    outcome = SimpleNamespace(interrupted=False, failed=[])
    monkeypatch.setattr(api.Study, "run", lambda self, **options: outcome)
    next_step = "next: ostinato register mine.yaml   (its predictions are not registered), then ostinato run mine.yaml"
    assert next_step in ostinato("plan", "mine.yaml")
    early = ostinato("run", "mine.yaml")
    assert "! its predictions are not registered" in early and "next: ostinato judge mine.yaml" in early
    ostinato("register", "mine.yaml")
    assert "register" not in ostinato("plan", "mine.yaml")
    assert "register" not in ostinato("run", "mine.yaml")
    (place / "mine.yaml").write_text(STUDY)
    assert "judge" not in ostinato("run", "mine.yaml") and "register" not in ostinato("plan", "mine.yaml")


def test_judge_tells_scripts_and_people(place):
    shown = ostinato("judge", "mine.yaml", code=20)
    assert "○ NOT ESTIMABLE" in shown and "Nothing is registered" in shown and "ostinato register mine.yaml" in shown
    assert "2 missing" in shown and not (place / "store").exists()
    ostinato("register", "mine.yaml")
    record = json.loads(ostinato("judge", "mine.yaml", "--json", code=20))
    (verdict,) = record["verdicts"]
    assert (verdict["name"], verdict["registered"], verdict["exploratory"]) == ("E1", 1, False) and record["exit_status"] == 20
    assert [event["event"] for event in api.open_store().study_folder("mine").events()] == ["registered", "judged"]
    assert api.open_store().study_folder("mine").judged()
    file = place / "store" / "studies" / "mine" / "registrations" / "0001" / "study.json"
    file.write_text(file.read_text().replace("looping helps", "looping hurts"))
    shown = " ".join(ostinato("judge", "mine.yaml", code=20).split())
    assert "was edited; it reads" in shown and "looping hurts" in shown


def test_a_store_that_cannot_be_written_is_judged_all_the_same(place, monkeypatch):
    ostinato("register", "mine.yaml")

    def refused(self, event, **info):
        raise PermissionError(13, "Permission denied", str(self.path / "log.jsonl"))

    monkeypatch.setattr(StudyFolder, "log", refused)
    shown = " ".join(ostinato("judge", "mine.yaml", code=20).split())
    assert "NOT ESTIMABLE E1" in shown and "the study's log cannot be written" in shown


def test_the_exit_status_is_in_the_help():
    shown = " ".join(ostinato("judge", "--help").split())
    assert all(number in shown for number in ("10", "20", "30"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("register", "plain.yaml"), "ostinato keys predictions"),
        (("register",), "neither a study nor --check"),
        (("register", "mine.yaml", "--check", "store"), "both study mine.yaml and --check store"),
        (("register", "--check", "nowhere"), "not there"),
        (("register", "--check", "."), "holds no registration"),
        (("register", "mine.yaml", "--store", "text.txt/store"), "text.txt"),
        (("register", "mine.yaml", "--store", "/proc/store"), "/proc"),
        (("judge", "nothing.yaml"), "nothing.yaml"),
    ],
)
def test_a_mistake_is_a_message_with_a_way_out(words, said, place):
    (place / "plain.yaml").write_text(STUDY)
    command = [sys.executable, "-m", "ostinato", *words]
    done = subprocess.run(command, cwd=place, env=os.environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
