"""Arms from a few words, as a study file would make them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ostinato.study.families import with_family
from ostinato.study.layers import layer_kinds
from ostinato.study.records import Arm, Data, Model, Recipe

GOLDEN = Path(__file__).parents[1] / "golden"
SHARED = Path(__file__).parents[3] / "shared" / "golden"


def build_arm(name="arm", recipe=None, data=None, seeds=(1, 2), **model):
    """An arm; `layers` as in a study file, family defaults merged below."""
    model = with_family({"layers": 2, "d_model": 64, "heads": 2, **model})
    model["layers"] = layer_kinds(model["layers"])
    recipe = {"tokens": 4096, "batch": 256, "context": 64, **(recipe or {})}
    return Arm(name=name, model=Model(**model), recipe=Recipe(**recipe), data=Data(**(data or {})), seeds=seeds)


@pytest.fixture
def make_arm():
    return build_arm


@pytest.fixture
def golden():
    return lambda name: json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.fixture
def shared_golden():
    def read(name):
        path = SHARED / f"{name}.json"
        if not path.exists():
            pytest.skip(f"{path} is not here")
        return json.loads(path.read_text())

    return read
