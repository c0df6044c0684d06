"""The adapter to flash-linear-attention, against a stand-in with its real signature that computes with the naive twin."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from ostinato.errors import OstinatoError
from ostinato.model import decoder, delta_rule
from ostinato.model.delta_rule import gated_delta_rule
from ostinato.model.naive_delta import delta_rule as naive
from ostinato.model.spans import Spans

DOCUMENTS = [[0, 0, 0, 1, 1, 2, 2, 2], [0, 0, 0, 0, 0, 0, 0, 1], [4, 4, 4, 4, 4, 4, 4, 4]]
CALLS = []


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
                           use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, state_v_first=False, cu_seqlens=None,
                           cu_seqlens_cpu=None, chunk_indices=None, cp_context=None, **kwargs):  # fmt: skip
    """fla.ops.gated_delta_rule.chunk_gated_delta_rule of flash-linear-attention 0.6.0: [B, T, H, K], g in log space, states [N, H, K, V];
    with cu_seqlens one row that holds N sequences."""
    assert not kwargs and not use_beta_sigmoid_in_kernel and not state_v_first and use_qk_l2norm_in_kernel
    assert all(part.is_contiguous() for part in (q, k, v, g, beta))
    CALLS.append({"dtypes": [part.dtype for part in (q, k, v, g, beta)], "bounds": cu_seqlens, "batch": len(q), "state": initial_state})
    assert scale == pytest.approx(q.shape[-1] ** -0.5)
    if cu_seqlens is not None:
        assert q.shape[0] == 1 and cu_seqlens.dtype == torch.int64 and (initial_state is None or len(initial_state) == len(cu_seqlens) - 1)
        pieces = [(0, slice(first, last)) for first, last in zip(cu_seqlens.tolist(), cu_seqlens.tolist()[1:], strict=False)]
    else:
        pieces = [(b, slice(None)) for b in range(len(q))]
    out, states = torch.zeros_like(v), []
    for n, (b, part) in enumerate(pieces):
        for h in range(q.shape[2]):
            state = None if initial_state is None else initial_state[n, h]
            rows = [tensor[b, part, h].float() for tensor in (q, k, v, g, beta)]
            found, last = naive(*rows, [0] * len(rows[0]), state)
            out = out.index_put((torch.tensor(b), torch.arange(q.shape[1])[part], torch.tensor(h)), found.to(v.dtype))
            states.append(last)
    return out, torch.stack(states).unflatten(0, (-1, q.shape[2])) if output_final_state else None


@pytest.fixture
def fla(monkeypatch):
    """flash-linear-attention as if installed, and every device as if it were CUDA."""
    package, ops, rule = (ModuleType(name) for name in ("fla", "fla.ops", "fla.ops.gated_delta_rule"))
    rule.chunk_gated_delta_rule = chunk_gated_delta_rule
    for module in (package, ops, rule):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(delta_rule, "choose", lambda backend, device, head_dim: (backend, "asked for"))
    CALLS.clear()


def inputs(dtype=torch.float32, rows=3):
    draw = torch.Generator().manual_seed(1)
    qkv = [torch.randn(rows, 8, 6, generator=draw).to(dtype).unflatten(-1, (2, 3)).requires_grad_() for _ in range(3)]
    g, beta = -torch.rand(rows, 8, 2, generator=draw), torch.rand(rows, 8, 2, generator=draw)
    return [*qkv, g.requires_grad_(), beta.requires_grad_()], torch.randn(rows, 2, 3, 3, generator=draw).requires_grad_()


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("documents", [None, DOCUMENTS])
def test_equals_the_chunks(fla, documents, with_state):
    spans = None if documents is None else Spans.of(torch.tensor(documents), 4, torch.float32)
    found = []
    for backend in ("torch", "fla"):
        given, state = inputs()
        out, last = gated_delta_rule(*given, spans=spans, initial_state=state if with_state else None, final=True, backend=backend)
        (out.square().sum() + last.square().sum()).backward()
        found.append([out, last, *(part.grad for part in given), *([state.grad] if with_state else [])])
    assert found[0][1].shape == (3, 2, 3, 3)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    bounds = CALLS[-1]["bounds"]
    assert (bounds is None and CALLS[-1]["batch"] == 3) if documents is None else bounds.tolist() == [0, 3, 5, 8, 15, 16, 24]


def test_what_it_is_given(fla):
    """q, k and v as they come, in one piece; float32 for the decay and β; no state where none is asked for."""
    given, _ = inputs(torch.bfloat16)
    wide = torch.zeros(3, 8, 2, 7, dtype=torch.bfloat16)
    out, last = gated_delta_rule(wide[..., :3], *given[1:3], given[3].to(torch.bfloat16), given[4], backend="fla")
    assert CALLS[-1]["dtypes"] == [torch.bfloat16] * 3 + [torch.float32] * 2
    assert out.dtype == torch.bfloat16 and last is None


def test_one_token_without_gradient_is_a_step(fla):
    given, state = inputs()
    with torch.no_grad():
        one = [part[:, :1] for part in given]
        out, last = gated_delta_rule(*one, initial_state=state, final=True, backend="fla")
        expected, expected_last = gated_delta_rule(*one, initial_state=state, final=True, backend="recurrent")
    assert not CALLS and torch.equal(out, expected) and torch.equal(last, expected_last)


def test_auto(monkeypatch):
    monkeypatch.setattr(delta_rule, "fla_installed", lambda: True)
    assert delta_rule.choose("auto", torch.device("cuda"), 64) == ("fla", "flash-linear-attention is installed")
    assert delta_rule.choose("auto", torch.device("cpu"), 64) == ("torch", "not on CUDA")
    monkeypatch.setattr(delta_rule, "fla_installed", lambda: False)
    backend, why = delta_rule.choose("auto", torch.device("cuda"), 64)
    assert backend == "torch" and "pip install ostinato[fla]" in why
    assert delta_rule.choose("torch", torch.device("cuda"), 64) == ("torch", "asked for")


def test_heads_wider_than_the_kernels(monkeypatch):
    monkeypatch.setattr(delta_rule, "fla_installed", lambda: True)
    cuda = torch.device("cuda")
    assert delta_rule.choose("auto", cuda, 256)[0] == "fla"
    backend, why = delta_rule.choose("auto", cuda, 257)
    assert backend == "torch" and "at most 256 channels, and these have 257" in why
    with pytest.raises(OstinatoError, match="at most 256 channels"):
        delta_rule.choose("fla", cuda, 257)


@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning", "ignore:The .grad attribute",
                            "ignore:.*should not be instantiated")  # fmt: skip
def test_a_compiled_model_is_cut_where_it_cannot_be_traced(fla, monkeypatch, small_model, small_decoder):
    from torch._dynamo.testing import CompileCounterWithBackend

    rule = sys.modules["fla.ops.gated_delta_rule"]
    monkeypatch.setattr(rule, "chunk_gated_delta_rule", torch.compiler.disable(chunk_gated_delta_rule))
    monkeypatch.setattr(decoder, "choose_delta", lambda *given: ("fla", "asked for"))
    model, rows, found = small_model(layers=("gdn", "gqa", "gdn"), schedule="1..3 1..3"), torch.arange(16).view(2, 8) % 11, []
    for compiled in (False, True):
        made = small_decoder(model, context=8, compiled=compiled)
        made.delta_backend = "fla"
        for layer in (made.layers["1"], made.layers["3"]):
            layer.attn.backend = "fla"
        if compiled:
            made.compiled.backend = counter = CompileCounterWithBackend("aot_eager")
        CALLS.clear()
        loss = made.losses(rows, rows.roll(-1, 1)).sum()
        loss.backward()
        assert len(CALLS) == 4
        found.append([loss.detach(), *(parameter.grad for parameter in made.parameters())])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
    assert 3 < counter.frame_count < 10, "a graph of attention, one of the head, and of the other kind a few pieces: not one a layer"
