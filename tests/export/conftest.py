"""A decoder as its exported model in this process, with the decoder's weights."""

from __future__ import annotations

import pytest
import torch

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="session")
def as_exported():
    """as_exported(decoder) -> OstinatoForCausalLM in the decoder's dtype, as the modeling file of an export has it."""
    from ostinato.export.config import model_config
    from ostinato.export.folder import tensors
    from ostinato.export.modeling import OstinatoForCausalLM
    from ostinato.export.modeling_parts import OstinatoConfig

    def make(decoder):
        model = OstinatoForCausalLM(OstinatoConfig(**model_config(decoder))).to(decoder.dtype).eval()
        found = model.load_state_dict(tensors(decoder), strict=False)
        tied = {"lm_head.weight"} if decoder.model.tie_embeddings else set()
        assert set(found.missing_keys) == tied and not found.unexpected_keys
        model.tie_weights()
        return model

    return make


@pytest.fixture
def tokens():
    """Two rows of eight tokens of a vocabulary of eleven."""
    return torch.randint(0, 11, (2, 8), generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="session", autouse=True)
def modules_of_models(tmp_path_factory):
    """Where transformers copies the code of a model before it imports it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path_factory.mktemp("modules")))
        yield
