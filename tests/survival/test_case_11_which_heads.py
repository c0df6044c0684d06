"""Case 11. Six query heads on two key-value heads: 0-2 use 0 and 3-5 use 1. ALiBi slopes of 8 and of 12 heads."""

from __future__ import annotations

import pytest
import torch

from ostinato.model.decoder import build
from ostinato.model.masks import Masks
from ostinato.model.positions import alibi_slopes
from ostinato.study.records import Mlp, Model


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("backend", ["causal", "masked", "flex"])
@pytest.mark.parametrize("heads, groups", [(6, 2), (6, 3), (6, 1), (6, 6), (12, 4)])
def test_every_backend_groups_neighbouring_heads(backend, heads, groups):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, heads, 5, 16), torch.randn(2, groups, 5, 16), torch.randn(2, groups, 5, 16)
    mask = Masks(backend, queries=5, device=q.device, dtype=q.dtype, head_dim=16).of(None, 5)
    y = mask.attend(q, k, v)
    for head in range(heads):
        group = head // (heads // groups)
        scores = (q[:, head] @ k[:, group].transpose(1, 2) / 4).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
        torch.testing.assert_close(y[:, head], scores.softmax(-1) @ v[:, group], rtol=1e-5, atol=1e-5)


def test_in_the_decoder():
    """The values of key-value head 0 reach query heads 0-2 alone, those of 1 reach 3-5 alone."""
    model = Model(layers=("gqa",), d_model=24, heads=6, kv_heads=2, mlp=Mlp(hidden=8))
    made = build(model, 9, 8, seed=1)
    attn, seen = made.layers["1"].attn, {}
    attn.o.register_forward_pre_hook(lambda module, inputs: seen.update(y=inputs[0].detach().unflatten(-1, (6, 4))))
    tokens = torch.arange(8)[None]
    made(tokens)
    before = seen["y"]
    for group, heads in ((0, {0, 1, 2}), (1, {3, 4, 5})):
        with torch.no_grad():
            attn.v.weight[group * 4 : group * 4 + 4] += 1
        made(tokens)
        changed = {head for head in range(6) if not torch.equal(seen["y"][:, :, head], before[:, :, head])}
        assert changed == heads
        before = seen["y"]


def test_alibi_slopes():
    eight = [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(8) == eight
    assert alibi_slopes(12) == pytest.approx([*eight, 0.7071, 0.3536, 0.1768, 0.0884], abs=5e-5)
    assert alibi_slopes(1) == [2.0**-8]
    assert alibi_slopes(4) == [2.0**-i for i in (2, 4, 6, 8)]
    assert alibi_slopes(16) == pytest.approx([2 ** (-i / 2) for i in range(1, 17)])
