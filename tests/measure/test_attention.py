"""Attention computed again in blocks: P v is the kernel's own output, with windows, ALiBi, groups, gates and documents."""

from __future__ import annotations

import pytest
import torch

from ostinato.measure import attention
from ostinato.measure.attention import watch_attention

LENGTH = 150  # more than two blocks of queries
MODELS = {
    "plain": {},
    "twice, grouped": {"schedule": "1..2 1..2", "heads": 4, "kv_heads": 2},
    "windows": {"layers": 3, "windows": {"pattern": "SSL", "short": 70}},
    "alibi in windows": {"positions": "alibi", "heads": 6, "kv_heads": 3, "head_dim": 4, "windows": {"pattern": "SL", "short": 9}},
    "gates and tied attention": {"layers": 3, "attn_gate": "channel", "tie": {"3:attn": "1:attn"}, "qk_norm": "weight"},
    "value embeddings, plain norm": {"value_embeddings": "all", "qk_norm": "plain", "schedule": "1..2 2:mlp 1:attn"},
    "hybrid": {"layers": "gqa gdn gqa", "schedule": "(1..3)x2"},
}


def rows_and_documents(rows=2, length=LENGTH):
    draw = torch.Generator().manual_seed(3)
    tokens = torch.randint(0, 11, (rows, length), generator=draw)
    return tokens, (torch.rand(rows, length, generator=draw) < 0.03).cumsum(1)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_the_weights_give_the_output_of_the_kernel(small_model, small_decoder, monkeypatch, model, masked):
    """Of every application once and in order; with one head at a time as with all at once; the whole P sums to 1."""
    decoder = small_decoder(small_model(**MODELS[model]), context=LENGTH)
    tokens, documents = rows_and_documents()
    found = []

    def see(seen):
        off = own = 0.0
        for span in seen.spans():
            visible = seen.seen(span)
            for few, weights in seen.weights(span, visible):
                assert (weights[~visible[:, None, None].expand_as(weights)] == 0).all()
                torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
                parts = seen.difference(span, few, weights)
                off, own = off + float(parts[0]), own + float(parts[1])
        found.append((seen.application, (off / own) ** 0.5))

    for at_once in (1, 2**22):
        monkeypatch.setattr(attention, "SCORES_AT_ONCE", at_once)
        watch_attention(decoder, tokens, documents if masked else None, see)
    heads = [a.index for a in decoder.applications if a.attn and decoder.model.layers[a.layer - 1] == "gqa"]
    assert [index for index, _ in found] == heads * 2
    assert max(error for _, error in found) < 1e-9


def test_a_wrong_mask_is_seen_in_the_difference(small_model, small_decoder):
    """What the validation is for: weights of a window that is one too wide are off by much more than 0.3%."""
    decoder = small_decoder(small_model(windows={"pattern": "SL", "short": 5}), context=LENGTH)
    errors = []

    def see(seen):
        if seen.window:
            object.__setattr__(seen, "window", seen.window + 1)
            sums = [seen.difference(span, few, weights) for span in seen.spans() for few, weights in seen.weights(span, seen.seen(span))]
            off, own = map(sum, zip(*sums, strict=True))
            errors.append(float(off / own) ** 0.5)

    watch_attention(decoder, rows_and_documents()[0], None, see)
    assert len(errors) == 1 and errors[0] > 0.03


def test_looking_leaves_nothing_behind(small_model, small_decoder):
    decoder = small_decoder(small_model(schedule="1..2 1..2"), context=LENGTH)
    tokens, _ = rows_and_documents()
    before = decoder(tokens)
    watch_attention(decoder, tokens, None, lambda seen: None)
    assert torch.equal(before, decoder(tokens)) and not any(module._forward_pre_hooks for module in decoder.modules())
    with pytest.raises(ZeroDivisionError):
        watch_attention(decoder, tokens, None, lambda seen: 1 / 0)
    assert not any(module._forward_pre_hooks for module in decoder.modules())
