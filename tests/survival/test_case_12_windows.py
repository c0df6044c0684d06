"""Case 12. A window counts the query itself: row i sees min(i + 1, window) keys, on every backend, with and without a cache."""

from __future__ import annotations

import pytest
import torch

from ostinato.errors import OstinatoError
from ostinato.model.decoder import build
from ostinato.model.masks import Masks
from ostinato.study.records import Mlp, Model, Windows

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
LENGTH = 8


@pytest.mark.parametrize("window", [1, 2, 4, 7, 8, 9, None])
@pytest.mark.parametrize("backend", ["masked", "flex", "auto"])
def test_how_many_keys_a_query_sees(backend, window):
    """With q = 0 every key seen has the same share, and values that are unit vectors show the shares."""
    q, k, v = torch.zeros(1, 1, LENGTH, 16), torch.randn(1, 1, LENGTH, 16), torch.eye(LENGTH, 16)[None, None]
    shares = Masks(backend, queries=LENGTH, device=q.device, dtype=q.dtype, head_dim=16).of(window, LENGTH).attend(q, k, v)[0, 0]
    for i in range(LENGTH):
        keys = min(i + 1, window or LENGTH)
        expected = torch.zeros(16)
        expected[i + 1 - keys : i + 1] = 1 / keys
        torch.testing.assert_close(shares[i], expected)


def reach(made, cached):
    """[query, key]: does the logit of the query change when the token of the key does?"""
    tokens_BT = torch.arange(LENGTH)[None].repeat(LENGTH + 1, 1)
    tokens_BT[range(1, LENGTH + 1), range(LENGTH)] = 9
    with torch.no_grad():
        if cached:
            cache = made.cache()
            pieces = [tokens_BT[:, :3], *tokens_BT[:, 3:].split(1, dim=1)]
            logits = torch.cat([made(piece, cache=cache) for piece in pieces], dim=1)
        else:
            logits = made(tokens_BT)
    return (logits[1:] != logits[:1]).any(-1).T


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("backend", ["masked", "flex", "auto"])
@pytest.mark.parametrize("window", [1, 4, 20])
def test_in_the_decoder(backend, cached, window):
    model = Model(layers=("gqa", "gqa"), d_model=32, heads=2, mlp=Mlp(hidden=8), windows=Windows(pattern="SL", short=window), schedule="1")
    seen = reach(build(model, 10, LENGTH, seed=1, backend=backend), cached)
    assert seen.sum(1).tolist() == [min(i + 1, window) for i in range(LENGTH)]
    assert all(seen[i, i] for i in range(LENGTH))


def test_a_slot_keeps_the_window_and_no_more():
    model = Model(layers=("gqa", "gqa"), d_model=32, heads=2, mlp=Mlp(hidden=8), windows=Windows(pattern="SL", short=4))
    made = build(model, 10, LENGTH, seed=1)
    cache = made.cache()
    with torch.no_grad():
        for length, kept in ((3, 3), (3, 4), (1, 4)):
            made(torch.zeros(1, length, dtype=torch.int64), cache=cache)
            assert cache.slots[0].k.shape[2] == kept
            assert cache.slots[0].k.untyped_storage().nbytes() == kept * 32 * 4, "no hidden storage behind a view"
    assert cache.slots[1].k.shape[2] == 7


@pytest.mark.parametrize("keys, name", [({"window": 4}, "a window of 4 keys"), ({"alibi": 2}, "ALiBi"), ({"documents": True}, "document")])
def test_a_backend_that_cannot_refuses(keys, name):
    documents = torch.zeros(1, LENGTH, dtype=torch.int64) if keys.get("documents") else None
    masks = Masks("causal", queries=LENGTH, device=torch.device("cpu"), dtype=torch.float32, head_dim=16, documents_BT=documents,
                  alibi=keys.get("alibi", 0))  # fmt: skip
    with pytest.raises(OstinatoError, match=name):
        masks.of(keys.get("window"), LENGTH)


def test_the_decoder_refuses_too_and_a_window_of_the_whole_row_is_none():
    shape = {"layers": ("gqa", "gqa"), "d_model": 32, "heads": 2, "mlp": Mlp(hidden=8)}
    short, whole = (Model(**shape, windows=Windows(pattern="SL", short=n)) for n in (4, 8))
    tokens = torch.zeros(1, LENGTH, dtype=torch.int64)
    with pytest.raises(OstinatoError, match="use the backend blocks, masked or flex"):
        build(short, 10, LENGTH, seed=1, backend="causal")(tokens)
    assert build(whole, 10, LENGTH, seed=1, backend="causal")(tokens).shape == (1, LENGTH, 10)
