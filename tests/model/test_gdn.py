"""The Gated DeltaNet layer: Qwen3-Next's with the same weights, its convolution, number formats, compilation, what the log says."""

from __future__ import annotations

import functools
import logging

import pytest
import torch
import torch.nn.functional as F

from ostinato.model import delta_rule
from ostinato.model.convolution import convolve
from ostinato.model.decoder import build
from ostinato.model.gdn import GatedDeltaNet
from ostinato.model.spans import Spans

VOCAB, CONTEXT = 13, 70
HYBRID = {"layers": "gdn gqa", "schedule": "1 1 2 1:attn"}
TOKENS = torch.arange(2 * CONTEXT).view(2, CONTEXT) * 5 % VOCAB
DOCUMENTS = torch.stack(((torch.arange(CONTEXT) > 30).long() + (torch.arange(CONTEXT) > 50), torch.zeros(CONTEXT, dtype=torch.long)))


@pytest.mark.parametrize("length", [1, 3, 64, 70])
def test_qwen3_next_with_the_same_weights(length):
    """Outputs and the gradient of every weight and of the input, 1e-5 in float32."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

    heads, size, width = 3, 8, 20
    config = transformers.Qwen3NextConfig(
        hidden_size=width, linear_num_key_heads=heads, linear_num_value_heads=heads, linear_key_head_dim=size, linear_value_head_dim=size,
        linear_conv_kernel_dim=4, rms_norm_eps=1e-5, num_hidden_layers=1, layer_types=["linear_attention"])  # fmt: skip
    torch.manual_seed(2)
    theirs, ours = Qwen3NextGatedDeltaNet(config, 0), GatedDeltaNet(width, heads, size, 4, 1e-5)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4)
        for (name, _), values in zip(ours.named_parameters(), from_theirs(dict(theirs.named_parameters()), heads, size), strict=True):
            ours.get_parameter(name).copy_(values)
    x = torch.randn(2, length, width)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [layer(values) for layer, values in zip((theirs, ours), inputs, strict=True)]
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-5, atol=1e-5)
    pull = torch.randn_like(x)
    for output in outputs:
        (output * pull).sum().backward()
    close = functools.partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)
    scale = inputs[0].grad.abs().max()
    close(inputs[1].grad / scale, inputs[0].grad / scale)
    gradients = from_theirs({name: parameter.grad for name, parameter in theirs.named_parameters()}, heads, size)
    for (name, parameter), expected in zip(ours.named_parameters(), gradients, strict=True):
        scale = max(1, expected.abs().max())
        close(parameter.grad / scale, expected / scale, msg=lambda text, name=name: f"{name}: {text}")


def from_theirs(tensors, heads, size):
    """Qwen3-Next's tensors as ours, in the order of our parameters: A_log, dt_bias, q k v g o, a b, convolutions, norm.

    One fused projection holds q, k, v and the gate of the first head, then of the second, and so on; another b and a; one convolution
    all channels of q, then of k, then of v.
    """
    q, k, v, gate = tensors["in_proj_qkvz.weight"].unflatten(0, (heads, 4, size)).unbind(1)
    b, a = tensors["in_proj_ba.weight"].unflatten(0, (heads, 2)).unbind(1)
    projections = [part.flatten(0, 1) for part in (q, k, v, gate)]
    return [tensors["A_log"], tensors["dt_bias"], *projections, tensors["out_proj.weight"], a, b, *tensors["conv1d.weight"].chunk(3),
            tensors["norm.weight"]]  # fmt: skip


@pytest.mark.parametrize("length", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("documents", [None, [0, 0, 1, 2, 2, 2, 3, 3, 3]])
def test_the_convolution_is_torchs(length, documents):
    """Also its gradients; with documents each is convolved alone."""
    draw = torch.Generator().manual_seed(length)
    ours = [torch.randn(2, length, 5, generator=draw, dtype=torch.float64), torch.randn(5, 4, generator=draw, dtype=torch.float64)]
    theirs = [part.clone().requires_grad_() for part in ours]
    ours = [part.requires_grad_() for part in ours]
    ids = torch.tensor([(documents or [0] * 9)[:length]] * 2)
    spans = Spans.of(ids, 4, torch.float64)
    mine = convolve(*ours, spans.seen if documents else None)
    pieces = [theirs[0][:, ids[0] == number] for number in ids[0].unique()]
    expected = [F.conv1d(piece.mT, theirs[1][:, None], padding=3, groups=5)[..., : piece.shape[1]].mT for piece in pieces]
    expected = F.silu(torch.cat(expected, 1))
    torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-12)
    pull = torch.randn(mine.shape, generator=draw, dtype=torch.float64)
    for one, other in zip(torch.autograd.grad(mine, ours, pull), torch.autograd.grad(expected, theirs, pull), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_convolution_goes_on_from_what_came_before():
    x_BTC, weight_CW = torch.randn(2, 12, 5), torch.randn(5, 4)
    whole = convolve(x_BTC, weight_CW)
    torch.testing.assert_close(convolve(x_BTC[:, 5:], weight_CW, before_BWC=x_BTC[:, 2:5]), whole[:, 5:])
    torch.testing.assert_close(convolve(x_BTC[:, 11:], weight_CW, before_BWC=x_BTC[:, 8:11]), whole[:, 11:])


def test_spans():
    spans = Spans.of(torch.tensor([[0, 0, 0, 1, 1, 2], [5, 5, 5, 5, 5, 5]]), 3, torch.float32)
    assert spans.starts_BT.int().tolist() == [[0, 0, 0, 1, 0, 1], [0] * 6]
    assert [lag[..., 0].int().tolist() for lag in spans.seen] == [
        [[1] * 6, [1] * 6],
        [[0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 1, 1]],
        [[0, 0, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1]],
    ]
    assert spans.bounds.tolist() == [0, 3, 5, 6, 12]


@pytest.mark.parametrize("documents", [None, DOCUMENTS])
def test_bfloat16_products(small_model, documents):
    """Weights and gradients stay float32; the loss is that of float32 within what bfloat16 holds."""
    losses = {}
    for dtype in (None, torch.bfloat16):
        made = build(small_model(**HYBRID), VOCAB, CONTEXT, 1, compute_dtype=dtype)
        loss = made.losses(TOKENS, TOKENS.roll(-1, 1), documents).sum()
        loss.backward()
        assert all(parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all() for parameter in made.parameters())
        losses[dtype] = loss.item()
    assert losses[torch.bfloat16] == pytest.approx(losses[None], rel=2e-3)


def test_one_line_says_which_backend_and_why(small_model, caplog):
    made = build(small_model(**HYBRID), VOCAB, CONTEXT, 1)
    with caplog.at_level(logging.INFO, logger="ostinato"):
        made(TOKENS)
        made(TOKENS)
    assert caplog.messages == ["attention on cpu: causal for the whole context", "gated delta rule on cpu: torch (not on CUDA)"]
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="ostinato"):
        build(small_model(layers="gdn"), VOCAB, CONTEXT, 1, delta_backend="recurrent")(TOKENS)
    assert caplog.messages == ["gated delta rule on cpu: recurrent (asked for)"]


@pytest.mark.parametrize("documents", [None, DOCUMENTS])
def test_every_backend_gives_the_same_model(small_model, small_decoder, documents):
    model = small_model(**HYBRID)
    chunks, steps = (small_decoder(model, VOCAB, CONTEXT, delta_backend=backend) for backend in ("torch", "recurrent"))
    torch.testing.assert_close(chunks(TOKENS, documents_BT=documents), steps(TOKENS, documents_BT=documents), rtol=1e-10, atol=1e-10)


def test_a_backend_that_is_not_there_is_never_replaced(small_model, monkeypatch):
    monkeypatch.setattr(delta_rule, "fla_installed", lambda: False)
    made = build(small_model(layers="gdn"), VOCAB, CONTEXT, 1, delta_backend="fla")
    with pytest.raises(delta_rule.OstinatoError, match=r"not installed[\s\S]*pip install ostinato\[fla\]"):
        made(TOKENS)
    monkeypatch.setattr(delta_rule, "fla_installed", lambda: True)
    with pytest.raises(delta_rule.OstinatoError, match=r"run on CUDA, and this is cpu"):
        made(TOKENS)


def test_windows_and_positions_do_not_touch_a_recurrent_layer(small_model, small_decoder):
    plain = small_decoder(small_model(layers="2 x gdn"), VOCAB, CONTEXT)
    for keys in ({"windows": {"pattern": "S", "short": 2}}, {"positions": "alibi"}, {"positions": "none"}, {"qk_norm": "plain"}):
        other = small_decoder(small_model(layers="2 x gdn", **keys), VOCAB, CONTEXT)
        assert torch.equal(plain(TOKENS), other(TOKENS))
