"""Models of transformers as subjects: tiny random ones of many families, a trained one, and those that are refused."""

from __future__ import annotations

import pytest
import torch

from ostinato.errors import OstinatoError
from ostinato.measure.foreign import Foreign

transformers = pytest.importorskip("transformers")

V = 50
LLAMA = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
         "intermediate_size": 40, "vocab_size": V,
         "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}  # fmt: skip
SPECIAL = {"vocab_size": V, "bos_token_id": 1, "eos_token_id": 2}
KINDS = {
    "llama": LLAMA,
    "qwen2": LLAMA,
    "gemma2": LLAMA | {"final_logit_softcapping": 0.5, "query_pre_attn_scalar": 8},
    "granite": LLAMA | {"logits_scaling": 3.0},
    "gpt2": SPECIAL | {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64},
    "gpt_neox": SPECIAL | {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40},
}


def made(kind: str) -> torch.nn.Module:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(kind, **KINDS[kind])).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


@pytest.fixture
def tokens():
    return torch.randint(3, V, (2, 17), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_stream_and_losses_are_the_models_own(kind, tokens):
    model = made(kind)
    subject, seen = Foreign(model, kind, 1), {}
    before = model(tokens).logits
    normed = subject.hidden(tokens, watch=lambda index, x: seen.__setitem__(index, x.clone()))
    assert list(seen) == [None, 0, 1, 2] and [str(label) for label in subject.labels] == ["1", "2", "3"]
    logits = subject.readout(seen[2])
    assert torch.allclose(logits, before, atol=1e-5) and torch.equal(model(tokens).logits, before), "a probe changes nothing"
    assert torch.equal(normed, subject.parts.norm(seen[2])) and subject.vocab == V
    targets = torch.where(torch.arange(16) < 12, tokens[:, 1:], -1)
    nats = subject.losses(tokens[:, :-1], targets)
    wanted = -torch.log_softmax(model(tokens[:, :-1]).logits, -1).gather(-1, targets.clamp_min(0)[..., None])[..., 0]
    assert nats.dtype == torch.float64 and torch.allclose(nats, (wanted * (targets >= 0)).double(), atol=1e-5)
    assert (nats[:, 12:] == 0).all()


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@torch.no_grad()
def test_a_skipped_layer_hands_on_its_input(kind, tokens):
    model, seen = made(kind), {}
    subject = Foreign(model, kind, 1)
    without = subject.hidden(tokens, skip=frozenset({1}), watch=lambda index, x: seen.__setitem__(index, x.clone()))
    assert torch.equal(seen[1], seen[0]) and not torch.equal(seen[2], seen[1])
    layers = model.model.layers if kind == "llama" else model.transformer.h
    del layers[1]
    twin = Foreign(model, kind, 1)
    assert torch.allclose(without, twin.hidden(tokens), atol=1e-6)


@torch.no_grad()
def test_a_layer_that_is_called_twice_is_two_applications(tokens):
    class Twice(torch.nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, *args, **keys):
            return self.layer(self.layer(*args, **keys), **keys)

    model = made("llama")
    plain = made("llama")
    plain.model.layers.insert(1, plain.model.layers[0])  # the same layer again, right after itself
    plain.config.num_hidden_layers = 4
    subject = Foreign(plain, "loop", 1)
    assert [str(label) for label in subject.labels] == ["1", "1, pass 2", "2", "3"]
    seen = {}
    hidden = subject.hidden(tokens, watch=seen.__setitem__)
    assert list(seen) == [None, 0, 1, 2, 3]
    model.model.layers[0] = Twice(model.model.layers[0])
    wrapped = Foreign(model, "wrapped", 1)
    assert len(wrapped.labels) == 3 and torch.allclose(wrapped.hidden(tokens), hidden, atol=1e-5)
    assert torch.allclose(subject.hidden(tokens, skip=frozenset({1})), Foreign(made("llama"), "once", 1).hidden(tokens), atol=1e-5)


@torch.no_grad()
def test_what_is_refused(tokens):
    model = made("llama")
    subject = Foreign(model, "mine", 1)
    with pytest.raises(OstinatoError, match=r"65 tokens for mine(.|\n)*64 positions"):
        subject.losses(torch.zeros(1, 65, dtype=torch.int64), torch.zeros(1, 65, dtype=torch.int64))
    with pytest.raises(OstinatoError, match="document mask"):
        subject.hidden(tokens, torch.zeros_like(tokens))


@torch.no_grad()
def test_a_model_that_does_something_else_at_its_end_keeps_its_losses(tokens):
    class Odd(transformers.LlamaForCausalLM):
        def forward(self, *args, **keys):
            found = super().forward(*args, **keys)
            found.logits = found.logits + found.logits.square()
            return found

    torch.manual_seed(0)
    subject = Foreign(Odd(transformers.LlamaConfig(**LLAMA)), "odd", 1)
    assert subject.losses(tokens[:, :-1], tokens[:, 1:]).gt(0).all() and subject.labels == ()
    for ask in (lambda: subject.hidden(tokens), lambda: subject.readout(torch.zeros(1, 1, 32))):
        with pytest.raises(OstinatoError, match="off by"):
            ask()


def test_a_model_that_sees_what_comes_later_is_refused():
    config = transformers.BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=V)
    with pytest.raises(OstinatoError, match="later"):
        Foreign(transformers.BertLMHeadModel(config), "bert", 1)
