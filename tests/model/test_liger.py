"""The adapter to Liger Kernel, against a stand-in with its real signature that computes with all logits at once."""

from __future__ import annotations

import importlib.metadata
import sys
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F

from ostinato.errors import OstinatoError
from ostinato.model import build, head, liger
from ostinato.model.head import choose_head, nats

calls = []
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def fused_linear_cross_entropy_forward(
    _input, weight, target, ce_weight=None, bias=None, ignore_index=-100, lse_square_scale=0.0, label_smoothing=0.0, reduction="mean",
    softcap=None, return_z_loss=False, accum_dtype=None, use_token_scaling=False, return_token_accuracy=False,
    return_predicted_tokens=False, ce_impl=None, ce_mode=None, token_grad_output=None, compute_gradients=None,
    weight_requires_grad=None, chunk_mem_const=1,
):  # fmt: skip
    """liger_kernel.ops.fused_linear_cross_entropy of liger-kernel 0.8.5: losses in float32, gradients of their plain sum in the dtypes of
    what it was given, whatever the dtype that they are added in."""
    assert reduction == "none" and ignore_index == -1 and token_grad_output is None and accum_dtype == torch.float32
    assert _input.dtype == weight.dtype and _input.is_contiguous() and weight.is_contiguous() and target.dtype == torch.int64
    assert not _input.requires_grad and not weight.requires_grad
    calls.append({"dtype": _input.dtype, "gradients": compute_gradients, "weight": weight_requires_grad})
    with torch.enable_grad():
        x, w = _input.float().requires_grad_(), weight.float().requires_grad_()
        logits = x @ w.t()
        logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
        losses = F.cross_entropy(logits, target, ignore_index=ignore_index, reduction="none")
        dx, dw = torch.autograd.grad(losses.sum(), (x, w))
    dw = dw.to(weight.dtype) if compute_gradients and weight_requires_grad else None
    return losses.detach().float(), None, None, None, dx.to(_input.dtype), dw, None


@pytest.fixture
def kernel(monkeypatch):
    """Liger Kernel as if installed, and every device as if it were CUDA."""
    package, ops, function = (ModuleType(f"liger_kernel{name}") for name in ("", ".ops", ".ops.fused_linear_cross_entropy"))
    function.fused_linear_cross_entropy_forward = fused_linear_cross_entropy_forward
    for module in (package, ops, function):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(liger, "_FOUND", type("Spec", (), {"origin": "liger_kernel/__init__.py"}))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.8.5")
    liger.lacking.cache_clear()
    calls.clear()
    yield function
    liger.lacking.cache_clear()


@pytest.fixture
def on_gpu(kernel, monkeypatch):
    genuine = choose_head
    monkeypatch.setattr(head, "choose_head", lambda name, device, dtype: genuine(name, CUDA, dtype))


def given(dtype=torch.float32, tokens=11, width=5, vocab=13):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(tokens, width, generator=draw, dtype=dtype).requires_grad_()
    weight = torch.randn(vocab, width, generator=draw, dtype=dtype).requires_grad_()
    targets = torch.randint(0, vocab, (tokens,), generator=draw)
    targets[::4] = -1
    return x, weight, targets


def outcome(name, inputs, softcap, product_dtype, upstream):
    x, weight, targets = inputs
    found = nats(x, weight, targets, softcap=softcap, product_dtype=product_dtype, head=name)
    return [found.detach(), *torch.autograd.grad((found * upstream).sum(), (x, weight))]


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize(("product_dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.02)])
def test_losses_and_gradients_are_those_of_all_logits(on_gpu, softcap, uniform, product_dtype, tolerance):
    inputs = given()
    upstream = torch.tensor(0.25, dtype=torch.float64) if uniform else torch.linspace(-1, 2, 11, dtype=torch.float64)
    found, expected = (outcome(name, inputs, softcap, product_dtype, upstream) for name in ("liger", "full"))
    assert [part.dtype for part in found] == [torch.float64, torch.float32, torch.float32]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    assert found[0][::4].abs().max() == 0
    assert calls == [{"dtype": product_dtype, "gradients": True, "weight": True}]


def test_without_a_gradient_only_losses_are_asked_for(on_gpu):
    x, weight, targets = given()
    with torch.no_grad():
        found = nats(x, weight, targets, softcap=None, product_dtype=torch.float32)
    assert calls == [{"dtype": torch.float32, "gradients": False, "weight": False}]
    torch.testing.assert_close(found, nats(x, weight, targets, softcap=None, product_dtype=torch.float32, head="full").detach())


def test_a_frozen_head_gets_no_gradient(on_gpu):
    x, weight, targets = given()
    found = nats(x, weight.detach(), targets, softcap=None, product_dtype=torch.float32)
    (dx,) = torch.autograd.grad(found.sum(), x)
    (expected,) = torch.autograd.grad(nats(x, weight, targets, softcap=None, product_dtype=torch.float32, head="full").sum(), x)
    torch.testing.assert_close(dx, expected)
    assert calls == [{"dtype": torch.float32, "gradients": True, "weight": False}]


def test_a_model_trains_through_it(on_gpu, small_arm, monkeypatch):
    tokens = torch.arange(34).view(2, 17) % 11
    found = []
    for name in ("liger", "full"):
        decoder = build(small_arm(model={"family": "loop2", "windows": {"short": 4}}).model, 300, 16, 1)
        if name == "full":
            monkeypatch.setattr(head, "choose_head", lambda *given: ("full", ""))
        (decoder.losses(tokens[:, :-1], tokens[:, 1:]).sum() / 32).backward()
        found.append({name: tensor.grad for name, tensor in decoder.named_parameters() if tensor.grad is not None})
    assert len(calls) == 1 and found[0].keys() == found[1].keys()
    for name, gradient in found[0].items():
        torch.testing.assert_close(gradient, found[1][name], rtol=1e-4, atol=1e-7)


def test_the_choice_is_said(kernel):
    assert choose_head("auto", CUDA, torch.bfloat16) == ("liger", "Liger Kernel is installed")
    assert choose_head("auto", CPU, torch.float32)[0] == "chunked"
    name, why = choose_head("auto", CUDA, torch.float64)
    assert name == "chunked" and "float64" in why
    del kernel.fused_linear_cross_entropy_forward
    liger.lacking.cache_clear()
    name, why = choose_head("auto", CUDA, torch.float32)
    assert name == "chunked" and "cannot be imported" in why


def test_an_old_version_is_named(kernel):
    kernel.fused_linear_cross_entropy_forward = lambda _input, weight, target, ignore_index, reduction, softcap, accum_dtype: None
    said = "Liger Kernel 0.8.5 has no compute_gradients, weight_requires_grad: pip install --upgrade ostinato[liger]"
    assert liger.unusable(torch.float32) == said


def test_what_was_asked_for_and_cannot_run_is_an_error(monkeypatch, kernel):
    x, weight, targets = given()
    with pytest.raises(OstinatoError, match="this is cpu"):
        nats(x, weight, targets, softcap=None, product_dtype=torch.float32, head="liger")
    with pytest.raises(OstinatoError, match="float64"):
        choose_head("liger", CUDA, torch.float64)
    monkeypatch.setattr(liger, "_FOUND", None)
    liger.lacking.cache_clear()
    assert choose_head("auto", CUDA, torch.float32)[0] == "chunked"
    with pytest.raises(OstinatoError, match=r"pip install ostinato\[liger\]"):
        choose_head("liger", CUDA, torch.float32)
