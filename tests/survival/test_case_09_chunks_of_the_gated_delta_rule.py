"""Case 9. The gated delta rule in chunks equals its token-by-token twin: outputs, last state and every gradient, at any length, with
documents that begin anywhere, from any state, with decays from nothing to everything."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.model.delta import chunked
from ostinato.model.delta_rule import gated_delta_rule
from ostinato.model.naive_delta import delta_rule
from ostinato.model.spans import Spans

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
LENGTHS = [1, 63, 64, 65, 127]
STARTS = [0, 57, 59, 64]
HEADS, SIZE = 2, 4


def inputs(batch, length, dtype, draw, size=SIZE):
    """q, k, v, g, beta and a state, all of them leaves."""
    qkv = [torch.randn(batch, length, HEADS, size, generator=draw, dtype=dtype) for _ in range(3)]
    g = -2 * torch.rand(batch, length, HEADS, generator=draw, dtype=dtype)
    beta = torch.rand(batch, length, HEADS, generator=draw, dtype=dtype)
    state = torch.randn(batch, HEADS, size, size, generator=draw, dtype=dtype)
    return [*qkv, g, beta, state]


def twin(q, k, v, g, beta, state, documents_BT):
    """The twin, row by row and head by head."""
    rows, states = [], []
    for b, documents in enumerate(documents_BT.tolist()):
        heads = [delta_rule(q[b, :, h], k[b, :, h], v[b, :, h], g[b, :, h], beta[b, :, h], documents,
                            None if state is None else state[b, h]) for h in range(HEADS)]  # fmt: skip
        rows.append(torch.stack([out for out, _ in heads], 1))
        states.append(torch.stack([last for _, last in heads]))
    return torch.stack(rows), torch.stack(states)


def documents_of(length, *starts):
    """One row of document numbers for each list of starts."""
    places = torch.arange(length)
    return torch.stack([sum((places >= start).long() for start in row) if row else torch.zeros(length, dtype=torch.long) for row in starts])


def differences(given, documents_BT, backend="torch", chunk=None):
    """The largest difference of the outputs, the state and every gradient from the twin's, each relative to the scale of its values."""
    dtype, with_state = given[0].dtype, given[5] is not None
    ours = [part.detach().clone().requires_grad_() for part in given[: 6 if with_state else 5]]
    theirs = [part.detach().clone().requires_grad_() for part in ours]
    spans = Spans.of(documents_BT, 4, dtype)
    state = ours[5] if with_state else None
    if chunk is None:
        out, last = gated_delta_rule(*ours[:5], spans=spans, initial_state=state, final=True, backend=backend)
    else:
        out, last = chunked(*ours[:5], starts_BT=spans.starts_BT, state_BHEE=state, chunk=chunk)
    true_out, true_last = twin(*theirs[:5], theirs[5] if with_state else None, documents_BT)
    draw = torch.Generator().manual_seed(5)
    pulls = [torch.randn(part.shape, generator=draw, dtype=dtype) for part in (out, last)]
    found = [out, last, *torch.autograd.grad([out, last], ours, pulls)]
    true = [true_out, true_last, *torch.autograd.grad([true_out, true_last], theirs, pulls, allow_unused=True)]
    names = ["outputs", "state", "q", "k", "v", "g", "beta", "initial state"]
    result = {}
    for name, one, other in zip(names, found, true, strict=False):
        other = torch.zeros_like(one) if other is None else other
        result[name] = ((one - other).abs().max() / max(1, other.abs().max())).item()
    return result


def agree(given, documents_BT, **how):
    found = differences(given, documents_BT, **how)
    assert max(found.values()) < TOLERANCE[given[0].dtype], found  # a NaN fails, too


@pytest.mark.parametrize("backend", ["torch", "recurrent"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("with_state", [False, True])
def test_lengths_and_document_starts(length, with_state, dtype, backend):
    given = inputs(2, length, dtype, torch.Generator().manual_seed(length))
    agree([*given[:5], given[5] if with_state else None], documents_of(length, STARTS[1:], []), backend=backend)


def test_a_start_at_every_place_alone():
    """Also the first of a chunk, the last, and each of two in a row."""
    given = inputs(1, 9, torch.float64, torch.Generator().manual_seed(1))
    for start in range(1, 9):
        for second in range(start, 9):
            agree(given, documents_of(9, [start, second]), chunk=4)


@pytest.mark.parametrize("chunk", [1, 2, 5, 16, 32, 64, 200])
def test_the_size_of_a_chunk_changes_nothing(chunk):
    agree(inputs(2, 70, torch.float64, torch.Generator().manual_seed(2)), documents_of(70, STARTS, [3]), chunk=chunk)


def extreme(given, kind):
    draw = torch.Generator().manual_seed(3)
    q, k, v, g, beta, state = given
    some = torch.rand(g.shape, generator=draw) < 0.3
    if kind == "decays of -1000 among small ones":
        g = torch.where(some, -1e3, g * 0.01)
    elif kind == "decays of -1e30 and infinity":
        g = torch.where(some, torch.where(torch.rand(g.shape, generator=draw) < 0.5, -1e30, float("-inf")), g)
    elif kind == "equal keys, nothing forgotten, all overwritten":
        g, beta, k = g * 0, beta * 0 + 1, k[:, :1].expand_as(k)
    elif kind == "opposite keys":
        g, beta, k = g * 0, beta * 0 + 1, k[:, :1] * (1 - 2 * (torch.arange(k.shape[1]) % 2))[None, :, None, None]
    elif kind == "beta of zero":
        beta = torch.where(some, 0, beta)
    elif kind == "keys and queries of zero":
        k, q = torch.where(some[..., None], 0, k), torch.where(some[..., None], 0, q)
    elif kind == "large and small together":
        g, v, k = torch.where(some, -40, -1e-6).to(g.dtype), v * torch.where(some, 1e3, 1e-3)[..., None], k * 1e4
    return [part.to(given[0].dtype) for part in (q, k, v, g, beta, state)]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("kind", ["decays of -1000 among small ones", "decays of -1e30 and infinity",
                                  "equal keys, nothing forgotten, all overwritten", "opposite keys", "beta of zero",
                                  "keys and queries of zero", "large and small together"])  # fmt: skip
def test_extremes(kind, dtype):
    given = extreme(inputs(2, 65, dtype, torch.Generator().manual_seed(4)), kind)
    if "infinity" in kind:  # the twin's 0 · infinity is not a number; the gradient of a decay to nothing is 0
        given[3] = given[3].clamp(min=-1e4)
        plain, unclamped = chunked(*given[:5]), chunked(*given[:3], extreme(given, kind)[3], given[4])
        torch.testing.assert_close(plain[0].isnan().any(), torch.tensor(False))
        assert not unclamped[0].isnan().any()
    agree(given, documents_of(65, [11], []))


def test_small_decays_keep_their_digits_behind_a_large_one():
    """g = -1000, then -1e-3 a token: in float32 a plain running sum has lost them."""
    given = inputs(1, 32, torch.float32, torch.Generator().manual_seed(6))
    given[3] = torch.full_like(given[3], -1e-3)
    given[3][:, 1] = -1e3
    assert max(differences(given, documents_of(32, [])).values()) < 2e-6


@st.composite
def cases(draw):
    length, batch = draw(st.integers(1, 40)), draw(st.integers(1, 2))
    starts = [draw(st.lists(st.integers(1, 40), max_size=4)) for _ in range(batch)]
    given = inputs(batch, length, torch.float64, torch.Generator().manual_seed(draw(st.integers(0, 9))), draw(st.sampled_from([1, 3])))
    given[3] = given[3] * draw(st.sampled_from([0, 1e-8, 1, 50, 1e6]))
    given[4] = (given[4] * draw(st.sampled_from([0, 1e-12, 1, 3]))).clamp(max=1)
    for part in given[:3]:
        part.mul_(draw(st.sampled_from([0, 1e-6, 1, 1e3])))
    return [*given[:5], given[5] if draw(st.booleans()) else None], documents_of(length, *starts), draw(st.sampled_from([1, 3, 8, 32]))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(cases())
def test_any_case(case):
    given, documents_BT, chunk = case
    agree(given, documents_BT, chunk=chunk)


def test_what_lies_behind_the_end_is_not_read():
    """The row is a part of a longer one that is not a number anywhere else: neither outputs nor gradients see it."""
    given = inputs(2, 45, torch.float64, torch.Generator().manual_seed(7))
    poisoned = []
    for part in given[:5]:
        around = torch.full((2, 99, *part.shape[2:]), float("nan"), dtype=part.dtype)
        around[:, 20:65] = part
        poisoned.append(around.requires_grad_())
    out, last = chunked(*(part[:, 20:65] for part in poisoned), state_BHEE=given[5])
    clean, clean_last = chunked(*given[:5], state_BHEE=given[5])
    assert torch.equal(out, clean) and torch.equal(last, clean_last)
    out.sum().backward()
    assert all(part.grad[:, 20:65].isfinite().all() and not part.grad[:, :20].any() and not part.grad[:, 65:].any() for part in poisoned)


def test_bfloat16_inputs_are_computed_in_float32():
    given = [part.to(torch.bfloat16) for part in inputs(1, 40, torch.float32, torch.Generator().manual_seed(8))[:5]]
    out, last = chunked(*given)
    exact, exact_last = chunked(*(part.float() for part in given))
    assert (out.dtype, last.dtype) == (torch.bfloat16, torch.float32)
    assert torch.equal(out, exact.to(torch.bfloat16)) and torch.equal(last, exact_last)
    leaves = [part.requires_grad_() for part in given]
    chunked(*leaves)[0].float().sum().backward()
    assert all(part.grad.dtype == torch.bfloat16 for part in leaves)


def test_differentiating_twice_is_refused():
    given = [part.requires_grad_() for part in inputs(1, 5, torch.float64, torch.Generator().manual_seed(9))[:5]]
    gradient = torch.autograd.grad(chunked(*given)[0].square().sum(), given[0], create_graph=True)[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
