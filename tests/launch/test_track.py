"""Which trackers a launch has, and where they are said to write."""

from __future__ import annotations

import importlib.util
import logging

import pytest

from ostinato.errors import StudyError
from ostinato.launch import run_study
from ostinato.launch.track import TITLES, asked, installed, places
from ostinato.launch.tracking import TRACKERS


def test_names_come_from_the_command_or_the_variable(monkeypatch):
    monkeypatch.delenv("OSTINATO_TRACK", raising=False)
    assert asked(None) == () == asked([])
    assert asked(["wandb", "trackio, wandb"]) == ("wandb", "trackio")
    monkeypatch.setenv("OSTINATO_TRACK", " Trackio,,")
    assert asked(None) == ("trackio",)
    assert asked(["wandb"]) == ("wandb",), "the command line is nearer"


@pytest.mark.parametrize(
    ("name", "fix"), [("wanbd", "you mean wandb?"), ("trakio", "you mean trackio?"), ("mlflow", "--track"), ("tensorboard", "leave it")]
)
def test_an_unknown_tracker_is_an_error_before_anything_runs(tiny, store, name, fix):
    with pytest.raises(StudyError) as caught:
        run_study(tiny(), store, track=[name])
    assert repr(name) in caught.value.what and fix in caught.value.fix and "wandb, trackio" in caught.value.rule
    assert not store.root.exists()


def test_a_package_that_is_not_there_is_one_line(monkeypatch, tmp_path):
    (tmp_path / "wandb").mkdir()  # as W&B leaves it in the working folder
    monkeypatch.syspath_prepend(tmp_path)
    genuine = importlib.util.find_spec
    missing = ("trackio", "wandb")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: genuine("json") if name not in missing else genuine(name, *rest))
    (tmp_path / "trackio.py").write_text("")
    told = []
    assert installed(["wandb", "trackio"], told.append) == ("trackio",)
    assert told == ["Weights & Biases: not installed, so no curves there (pip install wandb)"]


def test_where_the_curves_are(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: logging.__spec__)
    assert places(["wandb", "trackio"], tmp_path / "my store" / "runs") == (
        "tensorboard --logdir 'my store/runs'; Weights & Biases; trackio"
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert places([], tmp_path) == ""


def test_every_tracker_is_known_on_both_sides():
    assert {name: kind.title for name, kind in TRACKERS.items()} == TITLES
