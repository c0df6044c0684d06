"""Case 14. Re-applied layers, ties, a tied head, built on meta, compiled: each tensor once, no wrapper in a name, exact keys."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from ostinato.errors import StoreError
from ostinato.ledger import inventory
from ostinato.model.decoder import build
from ostinato.model.save import load_weights, save_weights
from ostinato.study.records import Mlp, Model

pytestmark = pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")  # of torch, when its compiler is imported
VOCAB, CONTEXT = 19, 8
MODEL = Model(layers=("gqa",) * 12, d_model=16, heads=2, mlp=Mlp(hidden=8), schedule="1 1 2..11 11 12", tie={"9..10:attn": "3..4:attn"},
              attn_gate="channel", inject="linear", h0="noise", pass_norm=True)  # fmt: skip
TOKENS = torch.arange(8)[None] % VOCAB


class DataParallel(torch.nn.Module):
    """A wrapper as data-parallel training makes one."""

    def __init__(self, module):
        super().__init__()
        self.module = module


WRAPPERS = {
    "bare": lambda made: made,
    "compiled": lambda made: torch.compile(made),
    "data parallel": DataParallel,
    "both": lambda made: torch.compile(DataParallel(torch.compile(made))),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_each_tensor_once_under_its_own_name(tmp_path, wrapper):
    made = build(MODEL, VOCAB, CONTEXT, seed=1)
    save_weights(WRAPPERS[wrapper](made), tmp_path / "weights.safetensors")
    stored = load_file(tmp_path / "weights.safetensors")
    planned = {row.name: row.shape for row in inventory(MODEL, VOCAB, CONTEXT)}
    assert {name: tuple(tensor.shape) for name, tensor in stored.items()} == planned
    assert not any("_orig_mod" in name or "module" in name for name in stored)
    size = sum(tensor.numel() * 4 for tensor in stored.values())
    assert size <= (tmp_path / "weights.safetensors").stat().st_size < size + 16_384


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_loaded_model_is_the_saved_one(tmp_path, device, wrapper):
    made = build(MODEL, VOCAB, CONTEXT, seed=1)
    save_weights(made, tmp_path / "weights.safetensors")
    loaded = build(MODEL, VOCAB, CONTEXT, seed=2, device=device)
    load_weights(WRAPPERS[wrapper](loaded), tmp_path / "weights.safetensors")
    for (name, one), (other_name, other) in zip(made.named_parameters(), loaded.named_parameters(), strict=True):
        assert name == other_name and torch.equal(one, other) and other.requires_grad and not other.is_meta
    assert torch.equal(made(TOKENS), loaded(TOKENS))


def test_identities_hold_after_loading(tmp_path):
    """The head is the embedding, and a re-applied or tied sublayer is one tensor: moving it moves every place where it is used."""
    save_weights(build(MODEL, VOCAB, CONTEXT, seed=1), tmp_path / "weights.safetensors")
    loaded = build(MODEL, VOCAB, CONTEXT, seed=2, device="meta")
    load_weights(loaded, tmp_path / "weights.safetensors")
    applied = [loaded.layers[str(loaded.source[a.layer, "attn"])].attn for a in loaded.applications]
    assert applied[0] is applied[1] and applied[3] is applied[9]
    hidden = loaded.hidden(TOKENS)
    torch.testing.assert_close(loaded.logits(hidden), hidden @ loaded.embedding.weight.T)
    optimizer = torch.optim.SGD(loaded.parameters(), lr=0.1)
    loaded.losses(TOKENS, TOKENS.roll(-1, 1)).sum().backward()
    optimizer.step()
    again = build(MODEL, VOCAB, CONTEXT, seed=3)
    save_weights(loaded, tmp_path / "later.safetensors")
    load_weights(again, tmp_path / "later.safetensors")
    assert torch.equal(again(TOKENS), loaded(TOKENS))


@pytest.mark.parametrize("change, name", [
    (lambda w: w.pop("layers.11.attn.q.weight"), "layers.11.attn.q.weight is missing"),
    (lambda w: w.update({"head.weight": torch.zeros(VOCAB, 16)}), "head.weight is not a tensor of this model"),
    (lambda w: w.update({"_orig_mod.final_norm.weight": w.pop("final_norm.weight")}), "final_norm.weight is missing"),
    (lambda w: w.update({"layers.10.attn.q.weight": torch.zeros(16, 16)}), "layers.10.attn.q.weight is not a tensor"),
    (lambda w: w.update({"embedding.weight": torch.zeros(VOCAB + 1, 16)}), r"weight is float32 \[20, 16\] and not float32 \[19, 16\]"),
    (lambda w: w.update({"final_norm.weight": torch.zeros(16, dtype=torch.float16)}), "final_norm.weight is float16"),
])  # fmt: skip
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_another_set_of_tensors_fails_and_changes_nothing(tmp_path, change, name, device):
    weights = {key: tensor.detach().clone() for key, tensor in build(MODEL, VOCAB, CONTEXT, seed=1).named_parameters()}
    change(weights)
    save_file(weights, tmp_path / "weights.safetensors")
    loaded = build(MODEL, VOCAB, CONTEXT, seed=2, device=device)
    before = {key: tensor.clone() for key, tensor in loaded.named_parameters()}
    with pytest.raises(StoreError, match=name):
        load_weights(loaded, tmp_path / "weights.safetensors")
    assert device == "meta" or all(torch.equal(before[key], tensor) for key, tensor in loaded.named_parameters())


def test_a_torn_or_missing_file_is_named(tmp_path):
    made = build(MODEL, VOCAB, CONTEXT, seed=1)
    path = tmp_path / "weights.safetensors"
    with pytest.raises(StoreError, match="cannot be read"):
        load_weights(made, path)
    save_weights(made, path)
    for size in (0, 5, 300, path.stat().st_size - 1):
        torn = tmp_path / "torn.safetensors"
        torn.write_bytes(path.read_bytes()[:size])
        with pytest.raises(StoreError, match=r"torn\.safetensors cannot be read"):
            load_weights(made, torn)
