"""The Llama family against Hugging Face's Llama with the same weights: outputs and gradients to 1e-5 in float32."""

from __future__ import annotations

import pytest
import torch

from ostinato.model.decoder import build

transformers = pytest.importorskip("transformers")
VOCAB, CONTEXT = 61, 24
NAMES = {"embed_tokens": "embedding", "input_layernorm": "attn_norm", "post_attention_layernorm": "mlp_norm", "self_attn": "attn",
         "norm": "final_norm", "lm_head": "head", "q_proj": "q", "k_proj": "k", "v_proj": "v", "o_proj": "o", "gate_proj": "gate",
         "up_proj": "up", "down_proj": "down"}  # fmt: skip


def our_name(name):
    """model.layers.0.self_attn.q_proj.weight -> layers.1.attn.q.weight"""
    parts = [NAMES.get(part, part) for part in name.removeprefix("model.").split(".")]
    if parts[0] == "layers":
        parts[1] = str(int(parts[1]) + 1)
    return ".".join(parts)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_a_tiny_llama(small_model, kv_heads, tied):
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=kv_heads,
        rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 500.0}, tie_word_embeddings=tied, initializer_range=0.2,
        max_position_embeddings=CONTEXT, use_cache=False)  # fmt: skip
    theirs = transformers.LlamaForCausalLM(config)
    model = small_model(layers=3, heads=4, kv_heads=kv_heads, mlp={"hidden": 40}, norm={"eps": 1e-5}, rope_base=500, tie_embeddings=tied)
    ours = build(model, VOCAB, CONTEXT, seed=0)
    own = dict(ours.named_parameters())
    pairs = {our_name(name): parameter for name, parameter in theirs.named_parameters()}
    assert pairs.keys() == own.keys()
    with torch.no_grad():
        for name, parameter in pairs.items():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
            own[name].copy_(parameter)

    rows = torch.randint(0, VOCAB, (2, CONTEXT + 1))
    tokens, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
    their_logits = theirs(tokens).logits
    torch.nn.functional.cross_entropy(their_logits.flatten(0, 1), targets.flatten()).backward()
    torch.testing.assert_close(ours(tokens), their_logits, rtol=1e-5, atol=1e-5)
    (ours.losses(tokens, targets).sum() / targets.numel()).backward()
    for name, parameter in pairs.items():
        torch.testing.assert_close(own[name].grad, parameter.grad, rtol=1e-5, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
