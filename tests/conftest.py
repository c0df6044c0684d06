"""What tests of several rooms share: a small text, prepared once a session, and a maker of small arms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")  # on a busy machine a property is slow, not wrong

WORDS = ("the", "a", "stone", "river", "bird", "runs", "sees", "under", "over", "and", "then", "slow", "quick", "old", "song", "returns")


@pytest.fixture(scope="session")
def small_text(tmp_path_factory):
    """`Prepared` of 80 documents, about 12,000 tokens at 300 entries: the first word of a sentence tells much of the rest."""
    from ostinato.data.prepare import prepare
    from ostinato.study.records import Data, Tokenizer

    draw = np.random.Generator(np.random.Philox(7))
    folder = tmp_path_factory.mktemp("small")
    documents = []
    for _ in range(80):
        starts = draw.integers(0, len(WORDS), 30)
        sentences = [" ".join(WORDS[(start + 3 * place) % len(WORDS)] for place in range(int(draw.integers(3, 8)))) for start in starts]
        documents.append(". ".join(sentences))
    (folder / "text.txt").write_text("\n%%\n".join(documents), encoding="utf-8")
    data = Data(corpus=str(folder / "text.txt"), separator="\n%%\n", tokenizer=Tokenizer(bpe=300), packing="contiguous")
    return prepare(data, folder / "cache")


@pytest.fixture(scope="session")
def small_arm(small_text):
    """small_arm(model={...}, recipe={...}) -> Arm: two layers of width 32, context 16, 20 steps of 64 tokens, unless said otherwise."""
    from ostinato.study.families import with_family
    from ostinato.study.records import Arm, Model, Recipe

    def make(model: dict[str, Any] | None = None, recipe: dict[str, Any] | None = None, data: dict[str, Any] | None = None) -> Arm:
        shape = with_family({"layers": 2, "d_model": 32, "heads": 2, **(model or {})})
        budget = {"tokens": 1280, "batch": 64, "context": 16, **(recipe or {})}
        return Arm(name="small", model=Model.model_validate(shape), recipe=Recipe.model_validate(budget),
                   data=small_text.data.model_copy(update=data or {}), seeds=(1,))  # fmt: skip

    return make


@pytest.fixture(scope="session")
def small_model():
    """small_model(**keys) -> Model, family defaults merged below: two layers of width 32, 2 heads, MLP of 12."""
    from ostinato.study.families import with_family
    from ostinato.study.layers import layer_kinds
    from ostinato.study.records import Model

    def make(**keys: Any) -> Model:
        given = with_family({"layers": 2, "d_model": 32, "heads": 2, "mlp": {"hidden": 12}, **keys})
        given["layers"] = layer_kinds(given["layers"])
        return Model.model_validate(given)

    return make


@pytest.fixture(scope="session")
def small_decoder():
    """small_decoder(model, vocab=11, context=8, …) -> Decoder in float64, every weight noise of its own: nothing hides behind a zero."""
    import torch

    from ostinato.model.decoder import build
    from ostinato.model.init import unit_noise

    def make(model: Any, vocab: int = 11, context: int = 8, seed: int = 1, dtype: Any = torch.float64, scale: float = 0.3, **options: Any):
        decoder = build(model, vocab, context, seed, dtype=dtype, **options)
        with torch.no_grad():
            for name, parameter in decoder.named_parameters():
                noise = torch.from_numpy(unit_noise(seed, "test " + name, parameter.shape)) * scale
                parameter.copy_(noise + 1 if "norm" in name or "scale" in name else noise)
        return decoder

    return make
