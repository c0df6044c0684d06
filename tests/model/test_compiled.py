"""Compiled models: the same losses and gradients as eager ones, one graph a kind of application."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend

from ostinato.errors import TrainingError
from ostinato.model.compiled import Compiled, code_folder
from ostinato.model.head import softmax
from ostinato.model.noise import row_keys

ROWS = torch.arange(24).view(2, 12) % 11
DOCUMENTS = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2], [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2]])
LOOP2 = {"family": "loop2", "layers": 3, "windows": {"pattern": "SSL", "short": 5}, "bigram_table": 9, "schedule": "1..3 1..3:attn"}
TWICE = {"schedule": "(1..2)x3"}
MODELS = {  # keys, documents, activation checkpointing, kinds of application (of each those with and without gradient, of stream and pass)
    "llama": ({"layers": 4}, None, False, 1),
    "documents": ({"layers": 3, "kv_heads": 1, "qk_norm": "weight"}, DOCUMENTS, True, 1),
    "alibi, gates, ties": ({"layers": 3, "positions": "alibi", "attn_gate": "channel", "tie": {"2": "1"}}, None, False, 1),
    "loop2": (LOOP2, None, True, 6),
    "add": ({**TWICE, "inject": "add", "attn_gate": "head"}, DOCUMENTS, False, 2),
    "linear, noise": ({**TWICE, "inject": "linear", "h0": "noise", "pass_norm": True}, None, True, 3),
    "streams": ({**TWICE, "streams": 2, "inject": "add"}, None, True, 2),
    "streams, linear, noise": ({**TWICE, "streams": 3, "inject": "linear", "h0": "noise", "pass_norm": True}, None, False, 3),
    "truncated": ({"schedule": "(1)x4", "inject": "linear", "backprop": 2, "layers": 1}, None, True, 3),
    "gated delta, documents": ({"layers": ("gdn", "gdn", "gqa"), "schedule": "1..3 1..3"}, DOCUMENTS, False, 2),
}


def outcome(decoder, documents, rows=ROWS):
    """Loss and gradients of one training pass."""
    decoder.zero_grad()
    keys = row_keys(1, 5, 2)[: len(rows)] if decoder.draws else None
    loss = decoder.losses(rows, rows.roll(-1, 1), documents, keys).sum()
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in decoder.parameters())]


@pytest.fixture
def compiled(small_model, small_decoder):
    """compiled(keys, checkpointing=False) -> the compiled decoder, and its counter, whose `graphs()` are those traced so far."""

    def make(keys, checkpointing=False):
        decoder = small_decoder(small_model(**keys), context=12, compiled=True)
        decoder.activation_checkpointing = checkpointing
        decoder.compiled.backend = counter = CompileCounterWithBackend("aot_eager")
        counter.traced = lambda: sum(len(graph.graph.nodes) > 0 for graph in counter.graphs)  # torch may make an empty one first
        return decoder, counter

    return make


@pytest.mark.parametrize("name", MODELS)
def test_the_same_function_in_one_graph_a_kind(small_model, small_decoder, compiled, name):
    """Traced and differentiated by torch's compiler without a break, but not made into machine code, which takes seconds a graph."""
    keys, documents, checkpointing, kinds = MODELS[name]
    plain, (decoder, counter) = small_decoder(small_model(**keys), context=12), compiled(keys, checkpointing)
    expected = outcome(plain, documents)
    for _ in range(2):
        torch.testing.assert_close(outcome(decoder, documents), expected, rtol=1e-9, atol=1e-9)
    outcome(decoder, None if documents is None else documents.roll(3, 1))
    assert len({parts.kind for parts in decoder.parts}) <= kinds
    assert counter.traced() == kinds
    assert [name for name, _ in decoder.named_parameters()] == [name for name, _ in plain.named_parameters()]


def test_every_shape_once_and_measuring_never(compiled, small_model, small_decoder):
    keys = {"schedule": "1..2 1..2"}
    decoder, counter = compiled(keys)
    plain = small_decoder(small_model(**keys), context=12)
    with torch.no_grad():
        assert torch.equal(decoder.losses(ROWS, ROWS), plain.losses(ROWS, ROWS))
    assert counter.traced() == 0
    for rows, graphs in ((ROWS, 1), (ROWS[:1], 2), (ROWS, 2), (ROWS[:1], 2), (ROWS[:, :9], 3)):
        torch.testing.assert_close(outcome(decoder, None, rows), outcome(plain, None, rows), rtol=1e-9, atol=1e-9)
        assert counter.traced() == graphs


@pytest.mark.parametrize("softcap", [None, 3.0])
def test_the_head_as_on_a_gpu_in_one_graph(softcap):
    """Between its products, where it is compiled; on a CPU it is not."""
    scores, places = torch.randn(5, 7, dtype=torch.float64), torch.arange(5)[:, None]
    between = Compiled(counter := CompileCounterWithBackend("aot_eager")).of(softmax, "head")
    torch.testing.assert_close(between(scores.clone(), places, softcap, True), softmax(scores.clone(), places, softcap, True))
    assert counter.frame_count == 1


def test_more_shapes_than_torch_tries_in_turn(compiled):
    decoder, _ = compiled({"layers": 1})
    decoder.compiled.backend = counter = CompileCounter()
    for length in range(3, 13):
        outcome(decoder, None, ROWS[:1, :length])
    assert counter.frame_count == 10


def test_a_model_that_cannot_be_compiled(compiled):
    """An error that says what to do; but want of memory is one for the caller, who then takes fewer rows."""
    decoder, _ = compiled({"layers": 1})

    def broken(graph, inputs):
        raise said

    decoder.compiled.backend, said = broken, ValueError("no such instruction")
    with pytest.raises(TrainingError, match=r"could not be compiled: .*no such instruction[\s\S]*--no-compile"):
        outcome(decoder, None)
    said = RuntimeError("CUDA out of memory")
    with pytest.raises(RuntimeError, match="out of memory") as caught:
        outcome(decoder, None)
    assert not isinstance(caught.value, TrainingError)


def test_code_of_another_torch_or_processor_is_another_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("OSTINATO_CACHE", str(tmp_path))
    here = code_folder()
    assert here == code_folder() and here.parent == tmp_path / "compiled" and torch.__version__ in here.name
    monkeypatch.setattr("ostinato.model.compiled.cpu_model", lambda: "another one")
    other = code_folder()
    monkeypatch.setattr(torch, "__version__", "9.9")
    newer = code_folder()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "fewer instructions")
    assert len({here, other, newer, code_folder()}) == 4


@pytest.mark.skipif(not torch.backends.cpu.get_cpu_capability().startswith("AVX"), reason="the processor has no AVX")
def test_narrower_instructions_than_torchs_are_refused(monkeypatch, tmp_path):
    """As Inductor takes them where its probes in the cache folder are damaged: the code would be another one, with other bits."""
    from torch._inductor import cpu_vec_isa

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "code"))
    monkeypatch.setattr(cpu_vec_isa, "pick_vec_isa", lambda: cpu_vec_isa.invalid_vec_isa)
    with pytest.raises(TrainingError, match=rf"instructions of AVX[\s\S]*delete {tmp_path / 'code'}"):
        Compiled().of(torch.sin, "one")(torch.ones(3))
