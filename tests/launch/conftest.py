"""A study of two tiny arms on a small text, its own store and cache; nothing here takes longer than a few seconds."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ostinato.store import Store
from ostinato.study.families import with_family
from ostinato.study.records import Checkpoints, Evaluate, Measure, Model, Recipe, Study


@pytest.fixture(scope="session")
def make_tiny(small_arm):
    """make_tiny(tokens=1280, **study keys) -> Study: arms plain and twice, seeds 1 and 2 of plain, 1 of twice, and a contingent third.

    Nothing but losses is measured, unless `measure` says so."""

    def make(tokens=1280, every="640", **more):
        def arm(name, seeds, contingent=None, **model):
            shape = with_family({"layers": 2, "d_model": 32, "heads": 2, **model})
            recipe = Recipe(tokens=tokens, batch=64, context=16, lr=0.005)
            changes = {"name": name, "model": Model.model_validate(shape), "recipe": recipe, "seeds": seeds, "contingent": contingent}
            return small_arm().model_copy(update=changes)

        arms = (arm("plain", (1, 2)), arm("twice", (1,), schedule="1..2 1..2"), arm("later", (1,), "if twice wins", layers=4))
        given = {"evaluate": Evaluate(every=every), "checkpoints": Checkpoints(every="320"), "measure": Measure(take=()), **more}
        return Study(name="tiny", arms=arms, reference="plain", **given)

    return make


@pytest.fixture
def tiny(make_tiny, small_text, monkeypatch):
    """`make_tiny`, with the text of the tests in the cache."""
    monkeypatch.setenv("OSTINATO_CACHE", str(small_text.cache))
    return make_tiny


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def console():
    """A console that is no terminal; `console.file.getvalue()` is what was printed."""
    return Console(file=io.StringIO(), width=200)
