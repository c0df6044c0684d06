"""Every switch of the decoder against the naive twin: logits and the gradient of every tensor, in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostinato.errors import ScheduleError
from ostinato.model import naive
from ostinato.schedule import parse, repeated_groups

VOCAB, CONTEXT = 11, 8
SWITCHES = {
    "llama": {},
    "twice": {"schedule": "1..2 1..2"},
    "reuse map": {"layers": 3, "schedule": "[3,1,2]"},
    "partial passes": {"schedule": "1..2 1..2:attn 2:mlp 1:mlp"},
    "an unused layer": {"layers": 3, "schedule": "1 3 1"},
    "grouped queries": {"heads": 6, "kv_heads": 2, "head_dim": 4},
    "one key-value head": {"heads": 4, "kv_heads": 1},
    "wide heads": {"heads": 2, "head_dim": 20},
    "no positions": {"positions": "none"},
    "learned positions": {"positions": "learned"},
    "alibi": {"positions": "alibi", "heads": 4},
    "alibi, six heads in groups": {"positions": "alibi", "heads": 6, "kv_heads": 3, "head_dim": 4},
    "alibi in windows": {"positions": "alibi", "windows": {"pattern": "SL", "short": 3}},
    "rope of another base": {"rope_base": 100},
    "qk norm plain": {"qk_norm": "plain"},
    "qk norm weight": {"qk_norm": "weight", "kv_heads": 1},
    "qk norm without rope": {"qk_norm": "weight", "positions": "none"},
    "windows": {"layers": 3, "windows": {"pattern": "SSL", "short": 3}},
    "windows of the query alone": {"windows": {"pattern": "S", "short": 1}},
    "windows follow the layer": {"windows": {"pattern": "SL", "short": 2}, "schedule": "1 2 1 2 1"},
    "relu2": {"mlp": {"kind": "relu2", "hidden": 20}},
    "norms without weight": {"norm": {"weight": False, "eps": 0.01}},
    "value embeddings, alternate": {"layers": 3, "value_embeddings": "alternate"},
    "value embeddings, all, grouped": {"value_embeddings": "all", "heads": 4, "kv_heads": 2, "schedule": "1..2 1:attn"},
    "bigram table": {"bigram_table": 7},
    "bigram table, normed": {"bigram_table": 7, "embedding_norm": True, "positions": "learned"},
    "application scalars": {"application_scalars": True, "schedule": "1..2 2:mlp 1"},
    "softcap": {"softcap": 2},
    "untied head": {"tie_embeddings": False},
    "tied attention": {"layers": 4, "tie": {"3..4:attn": "1..2:attn"}, "value_embeddings": "all"},
    "tied mlp, from a later layer": {"layers": 3, "tie": {"1:mlp": "3:mlp"}, "schedule": "1..3 1"},
    "tied layers and windows": {"layers": 3, "tie": {"3": "1"}, "windows": {"pattern": "SSS", "short": 2}},
    "injection": {"inject": "add", "schedule": "(1..2)x3"},
    "injection beside scalars": {"inject": "add", "schedule": "1 (2)x2 1", "application_scalars": True, "embedding_norm": True},
    "passes": {"schedule": "1 (2)x{r}", "passes": 3},
    "gate a head": {"attn_gate": "head", "heads": 4, "kv_heads": 2},
    "gate a channel": {"attn_gate": "channel", "schedule": "1..2 1..2:attn", "qk_norm": "weight"},
    "tied gated attention": {"layers": 3, "attn_gate": "channel", "tie": {"3:attn": "1:attn"}, "head_dim": 6},
    "linear injection": {"inject": "linear", "schedule": "(1..2)x3"},
    "linear injection of a core": {"inject": "linear", "layers": 4, "schedule": "1 (2..3)x3 4", "norm": {"weight": False}},
    "linear injection, partial pass": {"inject": "linear", "schedule": "1..2 1..2:attn"},
    "linear injection, a group by its attention": {"inject": "linear", "pass_norm": True, "schedule": "(1 2)x2:attn 2:mlp"},
    "linear injection, two groups": {"inject": "linear", "h0": "noise", "schedule": "1x3 2x2", "pass_norm": True},
    "linear injection, two groups of one layer": {"inject": "linear", "layers": 3, "schedule": "(1 2)x2 3 (1 2)x2", "pass_norm": True},
    "linear injection beside scalars": {"inject": "linear", "schedule": "1..2 2 2", "application_scalars": True, "h0": "noise"},
    "noise": {"inject": "linear", "h0": "noise", "schedule": "1 (2)x3", "init": {"std": 0.7}},
    "noise of a normed input": {"inject": "linear", "h0": "noise", "schedule": "(1 2)x2", "embedding_norm": True},
    "norm of a pass": {"pass_norm": True, "layers": 4, "schedule": "1 (2..3)x2 4"},
    "norm of a pass without weight": {"pass_norm": True, "schedule": "(1..2)x2", "norm": {"weight": False, "eps": 0.01}},
    "norm of a pass with x = h + e": {"pass_norm": True, "inject": "add", "layers": 3, "schedule": "(1..2)x2 3:mlp 1"},
    "switches without a repeated group": {"pass_norm": True, "inject": "linear", "h0": "noise", "layers": 3, "schedule": "1..3 1"},
    "loop2 recurrent": {"family": "loop2", "layers": 4, "heads": 4, "windows": {"pattern": "SSSL", "short": 3}, "pass_norm": True,
                        "mlp": {"hidden": None, "ratio": 1}, "schedule": "1 (2..3)x2 4", "inject": "linear", "h0": "noise",
                        "attn_gate": "channel"},
    "truncated": {"backprop": 1, "inject": "linear", "layers": 4, "schedule": "1 (2..3)x3 4", "pass_norm": True},
    "truncated to half, two groups": {"backprop": "half", "inject": "linear", "h0": "noise", "schedule": "1x3 2x2"},
    "truncated with x = h + e": {"backprop": 2, "inject": "add", "layers": 3, "schedule": "(1..2)x3 3", "application_scalars": True},
    "two streams": {"streams": 2, "attn_gate": "head"},
    "three streams of everything": {"streams": 3, "layers": "gqa gdn gqa", "schedule": "1 (2..3)x2:attn 3:mlp", "inject": "add",
                                    "application_scalars": True, "embedding_norm": True, "norm": {"weight": False, "eps": 0.01}},
    "streams in a looped core": {"streams": 2, "layers": 4, "schedule": "1 (2..3)x3 4", "inject": "linear", "pass_norm": True,
                                 "h0": "noise", "backprop": "half", "tie": {"4:attn": "1:attn"}},
    "gated delta rule": {"layers": "2 x gdn"},
    "gated delta rule, narrow heads": {"layers": "2 x gdn", "heads": 3, "head_dim": 3, "norm": {"weight": False, "eps": 0.01}},
    "hybrid, super-blocks": {"layers": "gdn gqa gdn", "schedule": "(1..2)x2 3:attn 3", "qk_norm": "weight", "inject": "add"},
    "hybrid, windows and scalars": {"layers": "gqa gdn", "windows": {"pattern": "S", "short": 2}, "application_scalars": True},
    "tied recurrence": {"layers": "gdn gqa gdn", "tie": {"3:attn": "1:attn"}, "schedule": "1..3 3:attn"},
    "loop2": {"family": "loop2", "layers": 4, "heads": 4, "windows": {"pattern": "SSSL", "short": 3}, "mlp": {"hidden": None, "ratio": 1},
              "schedule": "1..4 1..4:attn", "bigram_table": 13},
}  # fmt: skip
DOCUMENTS = [[0, 0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 1, 1, 1]]


def agree(decoder, documents=None):
    """Logits and gradients of the decoder and of its twin, two rows of seven tokens."""
    draw = torch.Generator().manual_seed(0)
    rows = torch.randint(0, decoder.vocab, (2, 7), generator=draw)
    pull = torch.randn(2, 7, decoder.vocab, generator=draw, dtype=torch.float64)
    logits = decoder(rows, documents_BT=None if documents is None else torch.tensor(documents))
    (logits * pull).sum().backward()
    weights = {name: tensor.detach().clone().requires_grad_() for name, tensor in decoder.named_parameters()}
    twins = [naive.logits(decoder.model, weights, row.tolist(), decoder.context, documents and documents[b]) for b, row in enumerate(rows)]
    (torch.stack(twins) * pull).sum().backward()
    torch.testing.assert_close(logits, torch.stack(twins), rtol=1e-9, atol=1e-9)
    for name, parameter in decoder.named_parameters():
        if parameter.grad is None:
            assert weights[name].grad is None, name
        else:
            assert torch.allclose(parameter.grad, weights[name].grad, rtol=1e-8, atol=1e-8), name


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch(small_model, small_decoder, switch):
    agree(small_decoder(small_model(**SWITCHES[switch])))


@pytest.mark.parametrize("switch", ["llama", "alibi in windows", "learned positions", "bigram table, normed", "gated delta rule",
                                    "hybrid, super-blocks", "tied recurrence", "loop2", "gate a channel",
                                    "linear injection of a core", "loop2 recurrent"])
def test_document_masking(small_model, small_decoder, switch):
    agree(small_decoder(small_model(**SWITCHES[switch])), DOCUMENTS)


@pytest.mark.parametrize("switch", ["twice", "partial passes", "loop2", "hybrid, super-blocks", "injection",
                                    "linear injection of a core", "loop2 recurrent",
                                    "linear injection, two groups", "truncated", "streams in a looped core"])
def test_activation_checkpointing(small_model, small_decoder, switch):
    decoder = small_decoder(small_model(**SWITCHES[switch]))
    decoder.activation_checkpointing = True
    agree(decoder, DOCUMENTS)


@st.composite
def models(draw):
    """Any combination of switches, small."""
    kinds = draw(st.lists(st.sampled_from(["gqa", "gqa", "gdn"]), min_size=1, max_size=3))
    layers = len(kinds)
    place = st.tuples(st.integers(1, layers), st.sampled_from(["", ":attn", ":mlp"]))
    heads = draw(st.sampled_from([1, 2, 3, 4]))
    times = draw(st.sampled_from([1, 1, 2, 3]))
    places = draw(st.lists(place, min_size=1, max_size=4 if times == 1 else 2)) * times
    keys = {
        "layers": kinds,
        "d_model": 32,
        "heads": heads,
        "head_dim": draw(st.sampled_from([2, 6])),
        "kv_heads": draw(st.sampled_from([n for n in range(1, heads + 1) if heads % n == 0])),
        "schedule": " ".join(f"{layer}{part}" for layer, part in places),
        "mlp": {"kind": draw(st.sampled_from(["swiglu", "relu2"])), "hidden": draw(st.integers(1, 9))},
        "norm": {"weight": draw(st.booleans()), "eps": 1e-5},
        "positions": draw(st.sampled_from(["none", "rope", "learned", "alibi"])),
        "qk_norm": draw(st.sampled_from(["none", "plain", "weight"])),
        "windows": {"pattern": draw(st.text("SL", min_size=1, max_size=3)), "short": draw(st.integers(1, 9))},
        "value_embeddings": draw(st.sampled_from(["none", "alternate", "all"])),
        "bigram_table": draw(st.sampled_from([0, 1, 5])),
        "embedding_norm": draw(st.booleans()),
        "application_scalars": draw(st.booleans()),
        "softcap": draw(st.sampled_from([None, 3])),
        "tie_embeddings": draw(st.booleans()),
        "attn_gate": draw(st.sampled_from(["none", "head", "channel"])),
        "inject": draw(st.sampled_from(["none", "add", "linear"])),
        "h0": draw(st.sampled_from(["input", "noise"])),
        "pass_norm": draw(st.booleans()),
        "streams": draw(st.sampled_from([1, 1, 2, 3])),
        "backprop": draw(st.sampled_from([None, None, 1, 2, "half"])),
    }
    try:
        repeated_groups(parse(keys["schedule"], layers).applications())
    except ScheduleError:  # then a study is refused that has one of these
        keys |= {"inject": "add", "pass_norm": False, "backprop": None}
    if layers > 1 and draw(st.booleans()):
        part = draw(st.sampled_from(["attn", "mlp"] if kinds[0] == kinds[-1] else ["mlp"]))
        keys["tie"] = {f"{layers}:{part}": f"1:{part}"}
    return keys


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(keys=models(), documents=st.sampled_from([None, DOCUMENTS]))
def test_any_combination(small_model, small_decoder, keys, documents):
    agree(small_decoder(small_model(**keys)), documents)
