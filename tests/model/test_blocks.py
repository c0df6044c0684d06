"""Attention in blocks of queries against the softmax of all scores: outputs, gradients, windows, slopes, grouped heads."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ostinato.errors import OstinatoError
from ostinato.model import blocks
from ostinato.model.masks import Masks
from ostinato.model.positions import alibi_slopes

ROWS, HEADS, SIZE = 3, 4, 8
SHAPES = pytest.mark.parametrize(("length", "window", "groups", "alibi"),
                                 [(150, None, 4, 0), (64, None, 4, 0), (37, None, 2, 0), (150, 20, 1, 4), (200, 65, 4, 0), (129, 1, 2, 0),
                                  (130, None, 2, 4), (1, None, 4, 0)])  # fmt: skip


def naive(q: Tensor, k: Tensor, v: Tensor, window: int | None, alibi: int) -> Tensor:
    """Every score, one softmax."""
    k, v = (part.repeat_interleave(q.shape[1] // k.shape[1], 1) for part in (k, v))
    distance = torch.arange(q.shape[2])[:, None] - torch.arange(q.shape[2])
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if alibi:
        scores = scores - torch.tensor(alibi_slopes(alibi), dtype=q.dtype)[:, None, None] * distance
    seen = (distance >= 0) & (distance < (window or len(distance)))
    return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v


def drawn(length: int, groups: int, dtype: torch.dtype) -> list[Tensor]:
    """q, k, v as products leave them, heads beside one another, and a gradient."""
    torch.manual_seed(1)
    sizes = (HEADS, groups, groups, HEADS)
    return [torch.randn(ROWS, length, heads, SIZE, dtype=dtype).transpose(1, 2).requires_grad_() for heads in sizes]


def masks(length: int, dtype: torch.dtype, backend: str, alibi: int = 0, **others) -> Masks:
    return Masks(backend, queries=length, device=torch.device("cpu"), dtype=dtype, head_dim=SIZE, alibi=alibi, **others)


@SHAPES
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_like_the_naive_twin(length, window, groups, alibi, dtype, near):
    q, k, v, dy = drawn(length, groups, dtype)
    expected = naive(q, k, v, window, alibi)
    found = masks(length, dtype, "blocks", alibi).of(window, length).attend(q, k, v)
    torch.testing.assert_close(found, expected, rtol=near, atol=near)
    assert found.transpose(1, 2).is_contiguous()  # the output projection reads it without a copy
    for one, other in zip(torch.autograd.grad(found, (q, k, v), dy), torch.autograd.grad(expected, (q, k, v), dy), strict=True):
        torch.testing.assert_close(one, other, rtol=near, atol=near)


def test_gradients_by_differences(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 4)
    q, k, v, _ = drawn(11, 2, torch.float64)
    mask = masks(11, torch.float64, "blocks").of(6, 11)
    assert torch.autograd.gradcheck(mask.attend, (q[:1, :, :, :3], k[:1, :, :, :3], v[:1, :, :, :3]))


def test_rows_do_not_depend_on_their_neighbours(monkeypatch):
    """Bit for bit, whatever is computed together."""
    q, k, v, dy = drawn(150, 2, torch.float32)
    mask = masks(150, torch.float32, "blocks").of(None, 150)
    whole = mask.attend(q, k, v)
    gradients = torch.autograd.grad(whole, (q, k, v), dy)
    monkeypatch.setattr(blocks, "SCORES_AT_ONCE", 1)
    alone = mask.attend(q, k, v)
    assert torch.equal(whole, alone)
    for one, other in zip(gradients, torch.autograd.grad(alone, (q, k, v), dy), strict=True):
        assert torch.equal(one, other)


def test_keys_outside_a_window_are_not_read(monkeypatch):
    """Poison before the first key that any query of the last block sees changes nothing in that block."""
    q, k, v, _ = (part.detach().clone() for part in drawn(200, 4, torch.float32))
    mask = masks(200, torch.float32, "blocks").of(20, 200)
    expected = mask.attend(q, k, v)[:, :, 192:]
    k[:, :, :170], v[:, :, :170] = float("nan"), float("nan")
    assert torch.equal(mask.attend(q, k, v)[:, :, 192:], expected)


def test_compiled_like_eager():
    """Traced as one operation, forward and backward."""
    q, k, v, dy = drawn(70, 2, torch.float32)
    mask = masks(70, torch.float32, "blocks").of(30, 70)
    compiled = torch.compile(mask.attend, backend="aot_eager", fullgraph=True)
    for one, other in zip(_all(compiled, q, k, v, dy), _all(mask.attend, q, k, v, dy), strict=True):
        assert torch.equal(one, other)


def _all(attend, q: Tensor, k: Tensor, v: Tensor, dy: Tensor) -> tuple[Tensor, ...]:
    y = attend(q, k, v)
    return y, *torch.autograd.grad(y, (q, k, v), dy)


def test_chosen_where_it_is_faster():
    """On a CPU from contexts of 256 on: windows from heads of 32 on, plain attention from 64 on and up to 768; never with documents."""

    def chosen(length: int, window: int | None, head_dim: int, **others) -> str:
        made = {"device": torch.device("cpu"), "dtype": torch.float32} | others
        return Masks("auto", queries=length, head_dim=head_dim, **made).choose(window, length)

    assert [chosen(length, None, 64) for length in (128, 256, 768, 1024)] == ["causal", "blocks", "blocks", "causal"]
    assert [chosen(length, 100, 32) for length in (128, 256, 1024)] == ["masked", "blocks", "blocks"]
    assert chosen(256, None, 32) == "causal" and chosen(256, 100, 16) == "masked"
    assert chosen(256, None, 64, dtype=torch.bfloat16) == "causal" and chosen(256, None, 32, alibi=4) == "blocks"
    assert chosen(256, None, 64, documents_BT=torch.zeros(1, 256, dtype=torch.int64)) == "masked"
    assert chosen(256, 100, 64, device=torch.device("cuda")) == "flex"


def test_documents_are_refused():
    documents = torch.zeros(1, 300, dtype=torch.int64)
    with pytest.raises(OstinatoError, match="document masking"):
        masks(300, torch.float32, "blocks", documents_BT=documents).of(None, 300)
