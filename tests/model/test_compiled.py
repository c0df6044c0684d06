"""Compiled models: the same losses and gradients as eager ones, one graph a kind of application and one for the head."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from ostinato.model.noise import row_keys

pytestmark = pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning", "ignore:The .grad attribute",
                                        "ignore:.*should not be instantiated")  # fmt: skip

ROWS = torch.arange(24).view(2, 12) % 11
DOCUMENTS = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2], [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2]])
LOOP2 = {"family": "loop2", "layers": 3, "windows": {"pattern": "SSL", "short": 5}, "bigram_table": 9, "schedule": "1..3 1..3:attn"}
TWICE = {"schedule": "(1..2)x3"}
MODELS = {  # keys, documents, kinds of application
    "llama": ({"layers": 4}, None, 1),
    "documents": ({"layers": 3, "kv_heads": 1, "qk_norm": "weight"}, DOCUMENTS, 1),
    "alibi, gates, ties": ({"layers": 3, "positions": "alibi", "attn_gate": "channel", "tie": {"2": "1"}}, None, 1),
    "loop2": (LOOP2, None, 6),
    "add": ({**TWICE, "inject": "add", "attn_gate": "head"}, DOCUMENTS, 2),
    "linear, noise": ({**TWICE, "inject": "linear", "h0": "noise", "pass_norm": True}, None, 3),
    "gated delta": ({"layers": ("gdn", "gdn", "gqa", "gdn")}, None, 2),
    "gated delta, documents": ({"layers": ("gdn", "gdn", "gqa"), "schedule": "1..3 1..3"}, DOCUMENTS, 2),
}


def outcome(decoder, documents, rows=ROWS):
    """Loss and gradients of one training pass."""
    decoder.zero_grad()
    keys = row_keys(1, 5, 2)[: len(rows)] if decoder.draws else None
    loss = decoder.losses(rows, rows.roll(-1, 1), documents, keys).sum()
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in decoder.parameters())]


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_function_in_one_graph_a_kind(small_model, small_decoder, name, checkpointing):
    """Traced and differentiated by torch's compiler without a break, but not made into machine code, which takes seconds a graph."""
    keys, documents, kinds = MODELS[name]
    plain, compiled = (small_decoder(small_model(**keys), context=12, compiled=compiled) for compiled in (False, True))
    compiled.compiled.backend = counter = CompileCounterWithBackend("aot_eager")
    compiled.activation_checkpointing = checkpointing
    expected = outcome(plain, documents)
    for _ in range(2):
        torch.testing.assert_close(outcome(compiled, documents), expected, rtol=1e-9, atol=1e-9)
    outcome(compiled, None if documents is None else documents.roll(3, 1))
    assert len({parts.kind for parts in compiled.parts}) == kinds
    assert sum(len(graph.graph.nodes) > 0 for graph in counter.graphs) == kinds + 1  # torch may make an empty one first
    assert [name for name, _ in compiled.named_parameters()] == [name for name, _ in plain.named_parameters()]
