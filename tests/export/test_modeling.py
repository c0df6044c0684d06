"""The exported model of every kind against the decoder: whole rows, a cache, padding on either side, labels; in float64."""

from __future__ import annotations

import pytest
import torch

from ostinato.errors import OstinatoError
from ostinato.export.config import model_config
from ostinato.study.records import Model

KINDS = {
    "llama": {},
    "an unused layer, no positions": {"layers": 3, "schedule": "1 3 1", "positions": "none", "rope_base": 100},
    "partial passes in groups of heads": {"schedule": "1..2 1..2:attn 2:mlp 1:mlp", "heads": 4, "kv_heads": 2, "head_dim": 6},
    "learned positions, bigrams, untied": {"positions": "learned", "bigram_table": 7, "tie_embeddings": False},
    "alibi in windows": {"positions": "alibi", "heads": 6, "kv_heads": 3, "head_dim": 4, "windows": {"pattern": "SL", "short": 3},
                         "schedule": "1..2 1..2"},
    "rope of another base, weighted q and k": {"rope_base": 100, "qk_norm": "weight", "kv_heads": 1},
    "windows of the query alone": {"windows": {"pattern": "S", "short": 1}, "mlp": {"kind": "relu2", "hidden": 20}},
    "no norm weights, softcap": {"norm": {"weight": False, "eps": 0.01}, "softcap": 2, "qk_norm": "plain"},
    "value embeddings": {"layers": 3, "value_embeddings": "alternate", "heads": 4, "kv_heads": 2, "schedule": "1..3 3:attn 1"},
    "normed bigrams and scalars": {"bigram_table": 7, "embedding_norm": True, "application_scalars": True, "schedule": "1..2 2:mlp 1"},
    "tied gated attention": {"layers": 4, "attn_gate": "channel", "tie": {"3..4:attn": "1..2:attn"}, "value_embeddings": "all"},
    "tied mlp of a later layer": {"layers": 3, "tie": {"1:mlp": "3:mlp"}, "schedule": "1..3 1", "attn_gate": "head"},
    "tied layers and windows": {"layers": 3, "tie": {"3": "1"}, "windows": {"pattern": "SSS", "short": 2}},
    "x = h + e": {"inject": "add", "schedule": "(1..2)x{r}", "passes": 3, "pass_norm": True},
    "a core that sees its input": {"inject": "linear", "layers": 4, "schedule": "1 (2..3)x3 4", "norm": {"weight": False}},
    "two groups of noise": {"inject": "linear", "h0": "noise", "schedule": "1x3 2x2", "pass_norm": True, "init": {"std": 0.7}},
    "noise of a normed input": {"inject": "linear", "h0": "noise", "schedule": "(1 2)x2", "embedding_norm": True, "d_model": 33,
                                "heads": 3, "head_dim": 4},
    "switches without a repeated group": {"pass_norm": True, "inject": "linear", "h0": "noise", "layers": 3, "schedule": "1..3 1"},
    "gated delta rule": {"layers": "2 x gdn", "heads": 3, "head_dim": 3},
    "hybrid, super-blocks": {"layers": "gdn gqa gdn", "schedule": "(1..2)x2 3:attn 3", "qk_norm": "weight", "inject": "add"},
    "tied recurrence": {"layers": "gdn gqa gdn", "tie": {"3:attn": "1:attn"}, "schedule": "1..3 3:attn"},
    "loop2": {"family": "loop2", "layers": 4, "heads": 4, "windows": {"pattern": "SSSL", "short": 3}, "schedule": "1..4 1..4:attn",
              "mlp": {"hidden": None, "ratio": 1}, "bigram_table": 13},
    "loop2 recurrent": {"family": "loop2", "layers": 4, "heads": 4, "windows": {"pattern": "SSSL", "short": 3}, "pass_norm": True,
                        "mlp": {"hidden": None, "ratio": 1}, "schedule": "1 (2..3)x2 4", "inject": "linear", "h0": "noise"},
}  # fmt: skip
START_ONLY = {"residual_scaling"}
"""What only says where weights begin, and is not in an export."""
CLOSE = {"rtol": 1e-5, "atol": 1e-9}


@pytest.fixture(params=KINDS)
def pair(request, small_model, small_decoder, as_exported):
    """A decoder and its exported model."""
    decoder = small_decoder(small_model(**KINDS[request.param]), bos=0).eval()
    return decoder, as_exported(decoder)


def test_every_key_of_a_model_is_among_the_kinds():
    of_training, refused = {"backprop"}, {"streams"}
    assert {key for keys in KINDS.values() for key in keys} | START_ONLY | of_training | refused == set(Model.model_fields)


def test_streams_are_refused_in_words(small_model, small_decoder):
    with pytest.raises(OstinatoError, match="streams 2: a model with hyper-connections"):
        model_config(small_decoder(small_model(streams=2)))


@torch.no_grad()
def test_whole_rows(pair, tokens):
    decoder, model = pair
    torch.testing.assert_close(model(tokens).logits, decoder(tokens), **CLOSE)


@torch.no_grad()
def test_a_cache_has_a_slot_for_every_application_and_changes_nothing(pair, tokens):
    decoder, model = pair
    out = model(tokens[:, :3], use_cache=True)
    parts, cache = [out.logits], out.cache
    for first, last in ((3, 4), (4, 5), (5, 7), (7, 8)):
        parts.append(model(tokens[:, first:last], cache=cache).logits)
    torch.testing.assert_close(torch.cat(parts, 1), decoder(tokens), **CLOSE)
    assert cache.get_seq_length() == 8
    assert set(cache.slots) == {application.index for application in decoder.applications if application.attn}
    for index, (keys, _) in cache.slots.items():
        layer = decoder.applications[index].layer
        if decoder.model.layers[layer - 1] == "gqa":
            assert keys.shape[2] == (decoder.windows[layer] or 8)


@torch.no_grad()
def test_padding_on_either_side(pair, tokens):
    decoder, model = pair
    alone = decoder(tokens[:1, :5])
    for real, padded in ((slice(3, 8), (3, 0)), (slice(0, 5), (0, 3))):
        both = torch.cat((torch.nn.functional.pad(tokens[:1, :5], padded), tokens[1:]))
        mask = torch.ones_like(both)
        mask[0] = 0
        mask[0, real] = 1
        logits = model(both, attention_mask=mask).logits
        torch.testing.assert_close(logits[:1, real], alone, **CLOSE)
        torch.testing.assert_close(logits[1:], decoder(tokens[1:]), **CLOSE)


@torch.no_grad()
def test_left_padding_and_a_cache(pair, tokens):
    decoder, model = pair
    left = torch.cat((torch.nn.functional.pad(tokens[:1, :5], (3, 0)), tokens[1:]))
    mask = torch.ones_like(left)
    mask[0, :3] = 0
    parts, cache = [], None
    for first, last in ((0, 4), (4, 7), (7, 8)):
        out = model(left[:, first:last], attention_mask=mask[:, :last], cache=cache)
        parts, cache = [*parts, out.logits], out.cache
    logits = torch.cat(parts, 1)
    torch.testing.assert_close(logits[:1, 3:], decoder(tokens[:1, :5]), **CLOSE)
    torch.testing.assert_close(logits[1:], decoder(tokens[1:]), **CLOSE)


@pytest.mark.parametrize("kind", ["partial passes in groups of heads", "loop2", "hybrid, super-blocks", "two groups of noise"])
def test_labels_give_the_loss_and_its_gradients(small_model, small_decoder, as_exported, tokens, kind):
    decoder = small_decoder(small_model(**KINDS[kind]), bos=0)
    model = as_exported(decoder).train()
    labels = tokens.clone()
    labels[0, :3] = -100
    targets = labels[:, 1:].masked_fill(labels[:, 1:] == -100, -1)
    wanted = decoder.losses(tokens[:, :-1].contiguous(), targets).sum() / 12
    out = model(tokens, labels=labels)
    torch.testing.assert_close(out.loss, wanted, **CLOSE)
    torch.testing.assert_close(model(tokens, labels=labels, num_items_in_batch=24).loss, wanted / 2, **CLOSE)
    assert out.cache is None
    wanted.backward()
    out.loss.backward()
    found = {name.removeprefix("model.").replace("lm_head", "head"): part.grad for name, part in model.named_parameters()}
    for name, part in decoder.named_parameters():
        torch.testing.assert_close(found[name], part.grad, **CLOSE, msg=lambda text, name=name: f"{name}: {text}")


@torch.no_grad()
def test_hidden_states_are_those_after_every_application(small_model, small_decoder, as_exported, tokens):
    decoder = small_decoder(small_model(schedule="1..2 1..2:attn"), bos=0)
    seen = []
    normed = decoder.hidden(tokens, watch=lambda application, x_BTD: seen.append(x_BTD))
    out = as_exported(decoder)(tokens, output_hidden_states=True)
    assert len(out.hidden_states) == len(seen) == 5
    for ours, theirs in zip([*seen[:-1], normed], out.hidden_states, strict=True):
        torch.testing.assert_close(theirs, ours, **CLOSE)


@torch.no_grad()
def test_long_rows_of_the_gated_delta_rule(small_model, small_decoder, as_exported):
    """Several chunks, the last one ragged, and forgetting that underflows in the first head."""
    decoder = small_decoder(small_model(layers="gdn gqa", heads=2), context=200, bos=0)
    decoder.layers["1"].attn.dt_bias[0] = 40.0
    rows = torch.randint(0, 11, (2, 150), generator=torch.Generator().manual_seed(5))
    model, wanted = as_exported(decoder), decoder(rows)
    torch.testing.assert_close(model(rows).logits, wanted, **CLOSE)
    first = model(rows[:, :70], use_cache=True)
    torch.testing.assert_close(model(rows[:, 70:], cache=first.cache).logits, wanted[:, 70:], **CLOSE)


@torch.no_grad()
def test_float32_to_1e_5(small_model, small_decoder, as_exported):
    for kind in ("loop2", "hybrid, super-blocks", "alibi in windows"):
        decoder = small_decoder(small_model(**KINDS[kind]), context=96, dtype=torch.float32, scale=0.15, bos=0).eval()
        rows = torch.randint(0, 11, (2, 96), generator=torch.Generator().manual_seed(6))
        torch.testing.assert_close(as_exported(decoder)(rows).logits, decoder(rows), rtol=1e-5, atol=1e-5)


def test_what_it_does_not_do_is_said(small_model, small_decoder, as_exported, tokens):
    model = as_exported(small_decoder(small_model(positions="learned"), bos=0))
    with pytest.raises(ValueError, match="has learned 8"):
        model(torch.zeros(1, 9, dtype=torch.long))
    with pytest.raises(ValueError, match="input_ids"):
        model(inputs_embeds=torch.zeros(1, 2, 32))
    with pytest.raises(ValueError, match="attention"):
        model(tokens, output_attentions=True)
    with pytest.raises(ValueError, match=r"attention_mask \[2, 5\]"):
        model(tokens, attention_mask=torch.ones(2, 5))
