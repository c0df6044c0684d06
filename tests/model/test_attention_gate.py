"""The gate on the output of attention, `channel`, against Hugging Face's Qwen3-Next attention with the same weights: to 1e-5 in float32.

Theirs has the gate's rows beside each head's query in one projection, and norms of q and k whose stored weight counts from 1.
"""

from __future__ import annotations

import pytest
import torch

from ostinato.model.attention import Attention
from ostinato.model.masks import Masks
from ostinato.model.positions import rotation

WIDTH, HEADS, GROUPS, SIZE, LENGTH = 24, 4, 2, 8, 11


@pytest.fixture
def pair():
    """(theirs, ours, rotary) with the same random weights."""
    pytest.importorskip("transformers")
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen

    torch.manual_seed(5)
    config = qwen.Qwen3NextConfig(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=GROUPS, head_dim=SIZE, rms_norm_eps=1e-6, vocab_size=8,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 1.0}, num_hidden_layers=1)  # fmt: skip
    config._attn_implementation = "sdpa"
    theirs, ours = qwen.Qwen3NextAttention(config, 0), Attention(WIDTH, HEADS, GROUPS, SIZE, "weight", 1e-6, "channel")
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(0, 0.3)
        q, gate = theirs.q_proj.weight.view(HEADS, 2, SIZE, WIDTH).unbind(1)
        ours.q.weight.copy_(q.flatten(0, 1))
        ours.gate.weight.copy_(gate.flatten(0, 1))
        for name in "kvo":
            getattr(ours, name).weight.copy_(getattr(theirs, f"{name}_proj").weight)
        ours.q_norm.weight.copy_(1 + theirs.q_norm.weight)
        ours.k_norm.weight.copy_(1 + theirs.k_norm.weight)
    return theirs, ours, qwen.Qwen3NextRotaryEmbedding(config)


def test_outputs_and_gradients_are_those_of_qwen3_next(pair):
    theirs, ours, rotary = pair
    x, pull = torch.randn(2, LENGTH, WIDTH), torch.randn(2, LENGTH, WIDTH)
    positions = torch.arange(LENGTH)
    wanted, _ = theirs(x, rotary(x, positions[None]), None)
    masks = Masks("auto", queries=LENGTH, device=x.device, dtype=x.dtype, head_dim=SIZE)
    found = ours(x, masks, None, rotation(positions, HEADS, SIZE, 100.0, x.dtype))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    (wanted * pull).sum().backward()
    (found * pull).sum().backward()
    q, gate = theirs.q_proj.weight.grad.view(HEADS, 2, SIZE, WIDTH).unbind(1)
    pairs = [(ours.q, q.flatten(0, 1)), (ours.gate, gate.flatten(0, 1))]
    pairs += [(getattr(ours, name), getattr(theirs, f"{name}_proj").weight.grad) for name in "kvo"]
    pairs += [(ours.q_norm, theirs.q_norm.weight.grad), (ours.k_norm, theirs.k_norm.weight.grad)]
    for module, expected in pairs:
        torch.testing.assert_close(module.weight.grad, expected, rtol=1e-5, atol=1e-5)
    assert ours.gate.weight.grad.abs().max() > 0.01


@pytest.mark.parametrize(("gate", "rows"), [("head", HEADS), ("channel", HEADS * SIZE)])
def test_an_open_gate_is_no_gate_and_a_closed_one_gives_nothing(gate, rows):
    torch.manual_seed(1)
    plain, gated = Attention(WIDTH, HEADS, GROUPS, SIZE, "none", 1e-6), Attention(WIDTH, HEADS, GROUPS, SIZE, "none", 1e-6, gate)
    assert gated.gate.weight.shape == (rows, WIDTH)
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.normal_(0, 0.3)
            gated.get_parameter(name).copy_(parameter)
        x = torch.randn(2, LENGTH, WIDTH)
        x[..., 0] = 1  # what the gate can hold on to
        masks = Masks("auto", queries=LENGTH, device=x.device, dtype=x.dtype, head_dim=SIZE)
        gated.gate.weight.zero_()
        torch.testing.assert_close(gated(x, masks, None, None), plain(x, masks, None, None) / 2)
        for logit, share in ((200.0, 1), (-200.0, 0)):
            gated.gate.weight[:, 0] = logit
            torch.testing.assert_close(gated(x, masks, None, None), share * plain(x, masks, None, None))
