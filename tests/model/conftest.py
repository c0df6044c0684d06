"""Small models by their keys, with every weight away from zero, and the comparison with the naive twin."""

from __future__ import annotations

import pytest
import torch

from ostinato.model.decoder import build
from ostinato.model.init import unit_noise
from ostinato.study.families import with_family
from ostinato.study.layers import layer_kinds
from ostinato.study.records import Model


def make_model(**keys):
    given = with_family({"layers": 2, "d_model": 32, "heads": 2, "mlp": {"hidden": 12}, **keys})
    given["layers"] = layer_kinds(given["layers"])
    return Model.model_validate(given)


def make_decoder(model, vocab=11, context=8, seed=1, dtype=torch.float64, scale=0.3, **options):
    """A decoder whose every weight is noise of its own, so that nothing hides behind a zero."""
    decoder = build(model, vocab, context, seed, dtype=dtype, **options)
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            noise = torch.from_numpy(unit_noise(seed, "test " + name, parameter.shape)) * scale
            parameter.copy_(noise + 1 if "norm" in name or "scale" in name else noise)
    return decoder


@pytest.fixture
def small_model():
    """small_model(**keys) -> Model, family defaults merged below: two layers of width 32, 2 heads, MLP of 12."""
    return make_model


@pytest.fixture
def small_decoder():
    """small_decoder(model, vocab=11, context=8, ...) -> Decoder in float64 with random weights everywhere."""
    return make_decoder
