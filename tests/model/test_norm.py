"""RMS norm: its own backward pass against autograd through the formula, and against differences."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

from ostinato.model.norm import rms_norm

EPS = 1e-3


def naive(x: Tensor, weight: Tensor | None) -> Tensor:
    """The formula."""
    x = x if weight is None else x.to(weight.dtype)
    y = x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()
    return y if weight is None else y * weight


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-13), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("shape", [(3, 5, 24), (2, 7, 3, 8), (0, 4), (1, 1)])
def test_like_the_formula(weighted, dtype, near, shape):
    torch.manual_seed(1)
    x = torch.randn(*shape, dtype=dtype).transpose(0, -2).requires_grad_()  # not contiguous
    weight = torch.randn(shape[-1], dtype=torch.promote_types(dtype, torch.float32)).requires_grad_() if weighted else None
    found, expected = rms_norm(x, EPS, weight), naive(x, weight)
    torch.testing.assert_close(found, expected, rtol=near, atol=near)
    given = (x, weight) if weighted else (x,)
    dy = torch.randn(found.shape, dtype=found.dtype)
    for one, other in zip(torch.autograd.grad(found, given, dy), torch.autograd.grad(expected, given, dy), strict=True):
        torch.testing.assert_close(one, other, rtol=near, atol=near)


@pytest.mark.parametrize("weighted", [True, False])
def test_gradients_by_differences(weighted):
    torch.manual_seed(1)
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, dtype=torch.float64, requires_grad=True) if weighted else None
    assert torch.autograd.gradcheck(lambda *given: rms_norm(given[0], EPS, *given[1:]), (x, weight) if weighted else (x,))


def test_compiled_like_eager():
    torch.manual_seed(1)
    x, weight = torch.randn(4, 6, requires_grad=True), torch.randn(6, requires_grad=True)
    compiled = torch.compile(rms_norm, backend="aot_eager", fullgraph=True)
    for norm in (rms_norm, compiled):
        y = norm(x, EPS, weight)
        y.backward(torch.ones_like(y))
        torch.testing.assert_close(y, naive(x, weight))
    whole = x.grad.clone(), weight.grad.clone()
    x.grad, weight.grad = None, None
    naive(x, weight).sum().backward()
    for one, other in zip(whole, (x.grad, weight.grad), strict=True):
        torch.testing.assert_close(one, 2 * other)


def test_one_tensor_is_kept_beside_the_input():
    """x itself and a number a position."""
    kept: list[Tensor] = []
    x, weight = torch.randn(8, 32, requires_grad=True), torch.ones(32, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        rms_norm(x, EPS, weight)
    others = [tensor for tensor in kept if tensor.data_ptr() not in (x.data_ptr(), weight.data_ptr())]
    assert [tensor.numel() for tensor in others] == [8]


@pytest.mark.parametrize("weighted", [True, False])
def test_a_gradient_that_lies_otherwise_than_the_input(weighted):
    torch.manual_seed(1)
    x = torch.randn(2, 3, 4, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, dtype=torch.float64, requires_grad=True) if weighted else None
    dy = torch.randn(2, 4, 3, 6, dtype=torch.float64).transpose(1, 2)
    given = (x, weight) if weighted else (x,)
    found, expected = (torch.autograd.grad(y, given, dy) for y in (rms_norm(x, EPS, weight), naive(x, weight)))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert torch.equal(found[0], torch.autograd.grad(rms_norm(x, EPS, weight), x, dy.contiguous())[0])


def test_the_same_bits_while_another_thread_compiles():
    """torch.compiler.is_compiling() is true in every thread then."""
    torch.manual_seed(1)
    x, found = torch.randn(4, 6, requires_grad=True), []

    def backend(graph, _):
        thread = threading.Thread(target=lambda: found.append(rms_norm(x, EPS)))
        thread.start()
        thread.join()
        return graph.forward

    torch.compile(lambda y: y + 1, backend=backend)(torch.zeros(2))
    assert [type(y.grad_fn) for y in found] == [type(rms_norm(x, EPS).grad_fn)]
