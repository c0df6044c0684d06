"""Loss and gradient through the head in chunks, against all logits at once and cross-entropy."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ostinato.errors import OstinatoError
from ostinato.model import head
from ostinato.model.head import choose_head, nats

CASES = st.fixed_dictionaries({
    "tokens": st.integers(0, 40), "width": st.integers(1, 9), "vocab": st.integers(1, 30), "chunk": st.integers(1, 45),
    "softcap": st.sampled_from([None, 0.5, 15.0]), "skipped": st.sampled_from([0.0, 0.4, 1.0]), "seed": st.integers(0, 10**6),
    "uniform": st.booleans(), "scale": st.sampled_from([0.1, 1.0, 30.0]),
})  # fmt: skip


def made(tokens, width, vocab, skipped, seed, scale=1.0, dtype=torch.float64):
    """x, weight, targets."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, width, generator=generator, dtype=dtype).requires_grad_()
    weight = (scale * torch.randn(vocab, width, generator=generator, dtype=dtype)).requires_grad_()
    targets = torch.randint(0, vocab, (tokens,), generator=generator)
    return x, weight, targets.masked_fill(torch.rand(tokens, generator=generator) < skipped, -1)


def outcome(x, weight, targets, name, softcap=None, product_dtype=None, upstream=None):
    """Losses and the gradients of x and weight."""
    found = nats(x, weight, targets, softcap=softcap, product_dtype=product_dtype or x.dtype, head=name)
    total = found.sum() * 0.25 if upstream is None else (found * upstream).sum()
    return [found.detach(), *torch.autograd.grad(total, (x, weight))]


def close(found, expected, tolerance):
    """Within `tolerance` of the largest entry."""
    for one, other in zip(found, expected, strict=True):
        largest = max(1.0, other.abs().max().item()) if other.numel() else 1.0
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance * largest)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(head, "HEAD_LOGITS", 0)
    monkeypatch.setitem(head.LEAST, "cpu", 7)


@settings(max_examples=150, deadline=None)
@given(case=CASES)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_chunks_are_the_logits_at_once(dtype, tolerance, case):
    chunk, softcap, uniform = (case.pop(name) for name in ("chunk", "softcap", "uniform"))
    x, weight, targets = made(**case, dtype=dtype)
    upstream = None if uniform else torch.linspace(-1, 2, len(x), dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(head.LEAST, "cpu", chunk)
        found = outcome(x, weight, targets, "chunked", softcap, upstream=upstream)
    expected = outcome(x, weight, targets, "full", softcap, upstream=upstream)
    close(found, expected, tolerance * max(1.0, case["scale"]))
    assert found[0].dtype == torch.float64 and (found[0][targets < 0] == 0).all()


@pytest.mark.parametrize("softcap", [None, 3.0])
def test_what_a_gpu_does_with_targets_that_are_not_counted(softcap):
    """There they are not left out, which would be a wait, but weighted with nothing."""
    x, weight, targets = made(33, 6, 20, 0.4, 5)
    found = head._Nats.apply(x, weight, targets, softcap, x.dtype, head.softmax)
    close([found.detach(), *torch.autograd.grad(found.sum(), (x, weight))], outcome(x, weight, targets, "chunked", softcap)[:1]
          + [4 * part for part in outcome(x, weight, targets, "full", softcap)[1:]], 1e-12)  # fmt: skip


def test_losses_do_not_depend_on_the_cut():
    x, weight, targets = made(40, 6, 20, 0.2, 5, dtype=torch.float32)
    whole = outcome(x, weight, targets, "chunked")
    parts = [outcome(x[rows], weight, targets[rows], "chunked")[0] for rows in (slice(0, 11), slice(11, 12), slice(12, 40))]
    close([torch.cat(parts)], whole[:1], 1e-6)
    assert all(torch.equal(a, b) for a, b in zip(whole, outcome(x, weight, targets, "chunked"), strict=True))


def test_large_logits_stay_finite():
    x, weight, targets = made(20, 6, 30, 0, 1, scale=300.0, dtype=torch.float32)
    found = outcome(x, weight, targets, "chunked")
    assert found[0].max() > 1000 and all(part.isfinite().all() for part in found)
    close(found, outcome(x, weight, targets, "full"), 1e-5)


@pytest.mark.parametrize("softcap", [None, 15.0])
def test_products_in_bfloat16(softcap):
    """Losses are those of bfloat16 logits; gradients, of one chunk's products each, are as near to float64's as those of the naive twin."""
    x, weight, targets = made(200, 16, 50, 0.1, 3, dtype=torch.float32)
    found, twin = (outcome(x, weight, targets, name, softcap, torch.bfloat16) for name in ("chunked", "full"))
    exact = outcome(x.detach().double().requires_grad_(), weight.detach().double().requires_grad_(), targets, "full", softcap)
    assert [part.dtype for part in found] == [torch.float64, torch.float32, torch.float32]
    torch.testing.assert_close(found[0], twin[0], rtol=1e-6, atol=1e-6)
    for ours, theirs, right in zip(found[1:], twin[1:], exact[1:], strict=True):
        assert (ours - right).norm() <= 1.2 * (theirs - right).norm() < 0.05 * right.norm()


@pytest.mark.parametrize("frozen", ["x", "weight"])
def test_only_one_of_both(frozen):
    x, weight, targets = made(20, 6, 30, 0.3, 1)
    (x if frozen == "x" else weight).requires_grad_(False)
    found, expected = (torch.autograd.grad(nats(x, weight, targets, softcap=2.0, product_dtype=x.dtype, head=name).sum(),
                                           weight if frozen == "x" else x) for name in ("chunked", "full"))  # fmt: skip
    close(found, expected, 1e-12)


def test_nothing_is_kept_without_gradient(monkeypatch):
    x, weight, targets = made(20, 6, 30, 0.3, 1)
    expected = nats(x, weight, targets, softcap=None, product_dtype=x.dtype).detach()
    monkeypatch.setattr(head._Nats, "apply", None)
    with torch.no_grad():
        assert torch.equal(nats(x, weight, targets, softcap=None, product_dtype=x.dtype), expected)
    assert not nats(x.detach(), weight.detach(), targets, softcap=None, product_dtype=x.dtype).requires_grad


def test_what_is_not_counted_is_not_computed(monkeypatch):
    x, weight, targets = made(20, 6, 30, 0.3, 1)
    rows, whole = [], head._chunks
    monkeypatch.setattr(head, "_chunks", lambda x_ND, *rest: rows.append(len(x_ND)) or whole(x_ND, *rest))
    nats(x, weight, targets, softcap=None, product_dtype=x.dtype).sum().backward()
    with torch.no_grad():
        nats(x, weight, targets, softcap=None, product_dtype=x.dtype)
    assert rows == [int((targets >= 0).sum())] * 2 and rows[0] < 20


def test_a_second_backward_pass_is_the_first(monkeypatch):
    """What was ready is given away: the second pass computes it again. A sum computes it once."""
    x, weight, targets = made(20, 6, 30, 0.3, 1)
    taken, whole = [], head._chunks
    monkeypatch.setattr(head, "_chunks", lambda *given: taken.append(1) or whole(*given))
    total = nats(x, weight, targets, softcap=None, product_dtype=x.dtype).sum(dtype=torch.float64) / 3
    first = torch.autograd.grad(total, (x, weight), retain_graph=True)
    assert len(taken) == 1
    close(torch.autograd.grad(total, (x, weight)), first, 1e-13)
    assert len(taken) == 2


def test_a_second_derivative_is_refused():
    x, weight, targets = made(20, 6, 30, 0.3, 1)
    with pytest.raises(OstinatoError, match="second derivative"):
        torch.autograd.grad(nats(x, weight, targets, softcap=None, product_dtype=x.dtype).sum(), x, create_graph=True)


def test_no_more_than_a_chunk_of_logits():
    """No tensor that is made has more entries than the weight or a chunk's logits, whichever is more."""
    x, weight, targets = made(70, 6, 30, 0, 1)
    largest = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found = func(*args, **(kwargs or {}))
            largest.extend(part.numel() for part in tree_leaves(found) if isinstance(part, torch.Tensor))
            return found

    with Watch():
        nats(x, weight, targets, softcap=4.0, product_dtype=x.dtype).sum().backward()
    assert max(largest) <= max(7 * 30, 70 * 6)


def test_the_choice_says_why():
    assert choose_head("auto", torch.device("cpu"), torch.float32) == ("chunked", "never all logits")
    assert choose_head("full", torch.device("cuda"), torch.float32) == ("full", "asked for")
