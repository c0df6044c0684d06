"""The looped model of arXiv 2604.21106 (RECIPES 4) written down once more in a few lines of plain torch: losses, gradients and FLOPs.

Prelude, core and coda; W [e; h] before every pass with W = [I | 0] at the start, h0 = e; a norm at the end of every pass.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from ostinato.ledger import account
from ostinato.model.decoder import build
from ostinato.study.records import Arm, Data, Recipe

GOLDEN = Path(__file__).parents[3] / "shared" / "golden" / "phi.json"
ROWS = torch.arange(24).view(2, 12) * 7 % 11


def rms(x, weight):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


def block(p, x, heads):
    """A Llama block without positions."""
    rows, length, width = x.shape
    normed = rms(x, p["attn_norm.weight"])
    q, k, v = ((normed @ p[f"attn.{name}.weight"].T).view(rows, length, heads, -1).transpose(1, 2) for name in "qkv")
    scores = q @ k.mT / q.shape[-1] ** 0.5 + torch.full((length, length), -torch.inf, dtype=x.dtype).triu(1)
    x = x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, length, width) @ p["attn.o.weight"].T
    normed = rms(x, p["mlp_norm.weight"])
    return x + (F.silu(normed @ p["mlp.gate.weight"].T) * (normed @ p["mlp.up.weight"].T)) @ p["mlp.down.weight"].T


def looped(weights, tokens, heads, prelude, core, coda, r, through):
    """Logits; gradients go through the last `through` of r passes."""
    layers = [{name.removeprefix(f"layers.{i}."): w for name, w in weights.items() if name.startswith(f"layers.{i}.")}
              for i in range(1, prelude + core + coda + 1)]  # fmt: skip
    x = weights["embedding.weight"][tokens]
    for p in layers[:prelude]:
        x = block(p, x, heads)
    e = h = x
    first = layers[prelude]
    for t in range(r):
        if t == r - through:
            h = h.detach() if t else h
        h = torch.cat((e, h), -1) @ first["inject.weight"].T
        for p in layers[prelude : prelude + core]:
            h = block(p, h, heads)
        h = rms(h, first["pass_norm.weight"])
    for p in layers[prelude + core :]:
        h = block(p, h, heads)
    return rms(h, weights["final_norm.weight"]) @ weights["head.weight"].T


def keys(r, backprop=None):
    return {"layers": 4, "schedule": f"1 (2..3)x{r} 4", "inject": "linear", "pass_norm": True, "positions": "none", "tie_embeddings": False,
            "backprop": backprop}  # fmt: skip


@pytest.mark.parametrize(("r", "backprop", "through"), [(2, None, 2), (4, None, 4), (4, "half", 2), (3, "half", 2), (3, 1, 1)])
def test_losses_and_gradients(small_model, small_decoder, r, backprop, through):
    decoder = small_decoder(small_model(**keys(r, backprop)), context=12)
    weights = {name: tensor.detach().clone().requires_grad_() for name, tensor in decoder.named_parameters()}
    targets = ROWS.roll(-1, 1)
    expected = F.cross_entropy(looped(weights, ROWS, 2, 1, 2, 1, r, through).flatten(0, 1), targets.flatten())
    expected.backward()
    for checkpointing in (False, True):
        decoder.activation_checkpointing = checkpointing
        decoder.zero_grad()
        loss = decoder.losses(ROWS, targets).mean()
        loss.backward()
        assert abs(loss - expected) < 1e-10
        for name, parameter in decoder.named_parameters():
            torch.testing.assert_close(parameter.grad, weights[name].grad, rtol=1e-10, atol=1e-10, msg=name)


def test_the_first_pass_begins_as_the_prelude_ends(small_model):
    """W = [I | 0] and h0 = e: at the start the injection hands on e, whatever the state is."""
    decoder = build(small_model(**keys(2)), 11, 12, 1)
    weight = decoder.layers["2"].inject.weight
    assert torch.equal(weight, torch.cat((torch.eye(32), torch.zeros(32, 32)), 1)) and "inject" not in decoder.layers["3"]._modules


@pytest.mark.skipif(not GOLDEN.exists(), reason="../shared is not there")
@pytest.mark.parametrize("backprop", [None, "half"])
@pytest.mark.parametrize("r", [1, 2, 4, 8])
def test_flops_and_parameters_of_the_published_grid(small_model, r, backprop):
    """`flops_per_token` of golden/phi.json; attention is not halved for causality, as in the trainer's convention."""
    grid = json.loads(GOLDEN.read_text())["iso_depth_grid"]
    s, width, context = 10, 640, grid["context"]
    unique = 16 // r
    model = small_model(layers=4 + unique, d_model=width, heads=5, mlp={"kind": "relu2", "ratio": 4}, norm={"weight": False},
                        schedule=f"1..2 (3..{2 + unique})x{{r}} {3 + unique}..{4 + unique}", passes=r, inject="linear", pass_norm=True,
                        tie_embeddings=False, backprop=backprop)  # fmt: skip
    arm = Arm(name="one", model=model, recipe=Recipe(tokens=10 * grid["tokens_per_step"], batch=grid["tokens_per_step"], context=context),
              data=Data(), seeds=(1,))  # fmt: skip
    ledger = account(arm, 32_064)
    injection = 2 * width**2 if r > 1 else 0
    core, once = unique * 12 * width**2 + injection, 4 * 12 * width**2
    through = r if backprop is None else -(-r // 2)
    attention = 5 * 128 * context
    assert s * 64 == width and ledger.params_nonembedding == once + core
    matrices = 6 * (once + 32_064 * width) + (6 * through + 2 * (r - through)) * core
    scores = 12 * attention * (4 + unique * through) + 4 * attention * unique * (r - through)
    assert ledger.flops_per_token_trainer == matrices + scores
