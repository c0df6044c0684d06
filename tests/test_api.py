"""What a notebook uses: every verb is a function of the package, and what it gives shows itself."""

from __future__ import annotations

import inspect

import pytest

import ostinato
from ostinato import api
from ostinato.cli.main import app
from ostinato.errors import StoreError, StudyError

OF_A_STUDY = {"plan", "register", "run", "judge", "report", "draw"}
OTHER_NAMES = {"list": ("list_runs", "list_studies"), "export": ("export_run",), "measure": ("take_measures",)}
"""Verbs whose function is not called so: a room of the house has the name, or there are two."""


def test_every_verb_is_there():
    for command in app.registered_commands:
        verb = command.name or command.callback.__name__
        for name in OTHER_NAMES.get(verb, (verb,)):
            assert callable(getattr(ostinato.Study if verb in OF_A_STUDY else ostinato, name))


def test_names_of_the_package_are_those_of_the_api():
    for name in set(ostinato.__all__) - {"__version__"}:
        assert getattr(ostinato, name) is getattr(api, name) and name in dir(ostinato)
    public = {name for name, value in vars(api).items()
              if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == "ostinato.api"}  # fmt: skip
    assert public | {"Study"} == set(ostinato.__all__) - {"__version__"}
    with pytest.raises(AttributeError, match="nothing_such"):
        ostinato.nothing_such  # noqa: B018


def test_a_new_study_loads_and_is_not_overwritten(tmp_path):
    path = ostinato.new(tmp_path / "my.yaml")
    assert ostinato.Study.load(path).plan().rows()
    path.write_text("mine")
    with pytest.raises(StudyError, match="exists already"):
        ostinato.new(str(path))
    assert path.read_text() == "mine" and ostinato.new(path, force=True).read_text() != "mine"
    with pytest.raises(StudyError, match="is a folder"):
        ostinato.new(tmp_path)


def test_drawings_show_themselves():
    drawings = ostinato.Study.load("quickstart").draw()
    assert list(drawings) == ["plain", "early", "twice", "deep"]
    assert "<svg" not in repr(drawings) and "plain\nlayer" in repr(drawings) and repr(drawings["twice"]) == drawings["twice"].text
    assert drawings._repr_html_().count("<svg") == 4 and "<h4>deep</h4>" in drawings._repr_html_()
    assert "<svg" in ostinato.draw_schedule("1 (2 3)x3 4", 4)._repr_html_()


def test_a_store_that_is_not_there_is_empty(tmp_path, monkeypatch):
    monkeypatch.setenv("OSTINATO_STORE", str(tmp_path / "none"))
    assert ostinato.list_runs() == [] and ostinato.query("select * from runs").records() == []
    assert not (tmp_path / "none").exists()
    for call in (ostinato.check, ostinato.generate, ostinato.find_run):
        with pytest.raises(StoreError, match="list --runs"):
            call("abc")


def test_an_arm_that_is_not_there_names_the_nearest():
    with pytest.raises(StudyError, match="did you mean twice"):
        ostinato.Study.load("quickstart").arm("twize")
