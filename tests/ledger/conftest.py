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

LOOP2 = dict(family="loop2", layers=8, d_model=512, heads=4, head_dim=128, windows={"pattern": "SSSL", "short": 1025})
LOOP2_RECIPE = dict(tokens=499_646_464, batch=524_288, context=2048)
LOOP2_ARMS = {
    "base": {},
    "l9": {"layers": 9},
    "l12": {"layers": 12},
    "l16": {"layers": 16},
    "w10": {"mlp": {"kind": "relu2", "ratio": 10}, "value_embeddings": "all"},
    "loop2": {"schedule": "1..8 1..8"},
    "loop2_attn": {"schedule": "1..8 1..8:attn"},
    "loop2_mlp": {"schedule": "1..8 1..8:mlp"},
    "rr_prefix": {"schedule": "1..8 1..4"},
    "rr_suffix": {"schedule": "1..8 5..8"},
    "rr1": {"schedule": "1..8 4"},
    "ng2_in": {"bigram_table": 65_536},
    "loop2_ng": {"schedule": "1..8 1..8", "bigram_table": 65_536},
    "l16_ng": {"layers": 16, "bigram_table": 65_536},
    "tieattn16": {"layers": 16, "tie": {"9..16:attn": "1..8:attn"}},
}


def build_arm(name="arm", recipe=None, data=None, seeds=(1, 2), **model):
    """An arm; `layers` as in a study file, family defaults merged below."""
    model = with_family({"layers": 2, "d_model": 64, "heads": 2, **model})
    model["layers"] = layer_kinds(model["layers"])
    recipe = {"tokens": 4096, "batch": 256, "context": 64, **(recipe or {})}
    return Arm(name=name, model=Model(**model), recipe=Recipe(**recipe), data=Data(**(data or {})), seeds=seeds)


@pytest.fixture
def make_arm():
    return build_arm


@pytest.fixture(params=LOOP2_ARMS)
def any_loop2_arm(request):
    return build_arm(request.param, recipe=LOOP2_RECIPE, **{**LOOP2, **LOOP2_ARMS[request.param]})


@pytest.fixture
def loop2_arm():
    return lambda name: build_arm(name, recipe=LOOP2_RECIPE, **{**LOOP2, **LOOP2_ARMS[name]})


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
