"""Case 10. Prefill, then token by token, with a cache: equals the full forward; a slot an attention application; bytes as planned."""

from __future__ import annotations

import pytest
import torch

from ostinato.ledger import account, cache_bytes
from ostinato.model.decoder import build
from ostinato.model.init import unit_noise
from ostinato.study.families import with_family
from ostinato.study.layers import layer_kinds
from ostinato.study.records import Arm, Data, Model, Recipe

VOCAB, CONTEXT = 17, 12
SCHEDULES = {"1 2 2 3": (3, 4), "1 (2 3)x3 4": (4, 8), "1 2 1:attn 2:mlp 3": (3, 4)}
MODELS = {
    "rope": {},
    "alibi": {"positions": "alibi", "heads": 4},
    "learned": {"positions": "learned"},
    "no positions": {"positions": "none", "inject": "add"},
    "grouped queries": {"heads": 6, "kv_heads": 2, "head_dim": 6, "qk_norm": "weight"},
    "windows": {"windows": {"pattern": "SSL", "short": 3}},
    "alibi in windows": {"positions": "alibi", "windows": {"pattern": "SL", "short": 4}},
    "windows of the query alone": {"windows": {"pattern": "S", "short": 1}},
    "gate a head": {"attn_gate": "head"},
    "gate a channel": {"attn_gate": "channel", "kv_heads": 1},
    "loop2": {"family": "loop2", "windows": {"pattern": "SSSL", "short": 4}, "bigram_table": 11},
    "gated delta rule": {"kinds": ["gdn"]},
    "hybrid": {"kinds": ["gdn", "gqa"], "qk_norm": "weight"},
    "hybrid the other way round, windows": {"kinds": ["gqa", "gdn", "gdn"], "windows": {"pattern": "S", "short": 3}, "heads": 4},
}


def arm(schedule, kinds=("gqa",), **keys):
    layers = (list(kinds) * 4)[: SCHEDULES[schedule][0]]
    given = with_family({"layers": layers, "d_model": 32, "heads": 2, "mlp": {"hidden": 12}, "schedule": schedule, **keys})
    given["layers"] = layer_kinds(given["layers"])
    recipe = Recipe(context=CONTEXT, batch=CONTEXT, tokens=CONTEXT)
    return Arm(name="arm", model=Model.model_validate(given), recipe=recipe, data=Data(), seeds=(1,))


def decoder(model, dtype, **options):
    made = build(model, VOCAB, CONTEXT, seed=1, dtype=dtype, **options)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(torch.from_numpy(unit_noise(1, "test " + name, parameter.shape)) * 0.3)
    return made


@pytest.mark.parametrize("pieces", [[5, *[1] * 7], [1] * 12, [5, 3, 1, 3], [12]], ids=str)
@pytest.mark.parametrize("keys", MODELS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_cache_changes_nothing(schedule, keys, pieces):
    planned = arm(schedule, **MODELS[keys])
    made = decoder(planned.model, torch.float64)
    tokens_BT = torch.randint(0, VOCAB, (2, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        full = made(tokens_BT)
        cache = made.cache()
        assert len(cache.slots) == SCHEDULES[schedule][1]
        parts, seen = [], 0
        for length in pieces:
            parts.append(made(tokens_BT[:, seen : seen + length], cache=cache))
            seen += length
            assert cache.tokens == seen
            assert cache.bytes == 2 * 2 * cache_bytes(account(planned, VOCAB), seen), "two rows, and float64 where the plan says float32"
        torch.testing.assert_close(torch.cat(parts, 1), full, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("h0", ["input", "noise"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_cache_changes_nothing_where_a_pass_begins_or_ends(schedule, h0):
    """Injection and norms are of one position, and noise follows from the position: no slot more than without them."""
    keys = {"inject": "linear", "h0": h0, "pass_norm": True, "attn_gate": "channel", "init": {"std": 0.6}}
    planned = arm(schedule, **keys)
    made = decoder(planned.model, torch.float64)
    assert made.begins and made.ends
    tokens_BT = torch.randint(0, VOCAB, (2, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        cache, parts, seen = made.cache(), [], 0
        for length in (5, *[1] * 7):
            parts.append(made(tokens_BT[:, seen : seen + length], cache=cache))
            seen += length
        torch.testing.assert_close(torch.cat(parts, 1), made(tokens_BT), rtol=1e-10, atol=1e-10)
    assert len(cache.slots) == SCHEDULES[schedule][1] and cache.bytes == 2 * 2 * cache_bytes(account(planned, VOCAB), 12)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_in_float32_too(schedule):
    planned = arm(schedule, **MODELS["loop2"])
    made = decoder(planned.model, torch.float32)
    tokens_BT = torch.arange(12)[None] * 5 % VOCAB
    with torch.no_grad():
        cache = made.cache()
        parts = [made(tokens_BT[:, :5], cache=cache)] + [made(tokens_BT[:, t : t + 1], cache=cache) for t in range(5, 12)]
        torch.testing.assert_close(torch.cat(parts, 1), made(tokens_BT), rtol=1e-4, atol=1e-5)
    assert cache.bytes == cache_bytes(account(planned, VOCAB), 12)


def test_a_cache_in_bfloat16_takes_half_the_memory():
    planned = arm("1 2 2 3", **MODELS["grouped queries"])
    made = decoder(planned.model, torch.float32, compute_dtype=torch.bfloat16)
    cache = made.cache()
    made(torch.arange(12)[None] % VOCAB, cache=cache)
    assert 2 * cache.bytes == cache_bytes(account(planned, VOCAB), 12)
