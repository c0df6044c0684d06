"""The walk over a schedule: what must be identical, what is refused, what a loss counts."""

from __future__ import annotations

import logging

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ostinato.errors import OstinatoError, ScheduleError
from ostinato.ledger import inventory
from ostinato.model.decoder import build

VOCAB, CONTEXT = 23, 12
ROWS = torch.arange(2 * (CONTEXT + 1)).view(2, -1) * 7 % VOCAB
TOKENS, TARGETS = ROWS[:, :-1].contiguous(), ROWS[:, 1:].contiguous()
LOOP2 = {"family": "loop2", "layers": 4, "windows": {"pattern": "SSSL", "short": 5}}


def outcome(decoder, documents=None):
    """Logits, loss and all gradients."""
    decoder.zero_grad()
    loss = decoder.losses(TOKENS, TARGETS, documents).sum()
    loss.backward()
    with torch.no_grad():
        logits = decoder(TOKENS, documents_BT=documents)
    return [logits, loss.detach(), *(parameter.grad for parameter in decoder.parameters())]


@pytest.mark.parametrize("keys", [{"layers": 3}, LOOP2, {"layers": 3, "inject": "add", "residual_scaling": "effective"},
                                  {"layers": 3, "inject": "linear", "pass_norm": True}], ids=str)  # fmt: skip
def test_each_layer_once_is_bit_identical_to_no_schedule(small_model, keys):
    plain = outcome(build(small_model(**keys), VOCAB, CONTEXT, 1))
    written = outcome(build(small_model(**keys, schedule=f"1..{keys['layers']}"), VOCAB, CONTEXT, 1))
    assert all(torch.equal(a, b) for a, b in zip(plain, written, strict=True))


@pytest.mark.parametrize("keys", [{}, {"inject": "linear", "h0": "noise", "pass_norm": True}], ids=str)
def test_two_ways_to_write_a_schedule_are_bit_identical(small_model, keys):
    one, other = (outcome(build(small_model(layers=3, schedule=text, **keys), VOCAB, CONTEXT, 1)) for text in ("(1 2)x2 3", "1 2 1..2 3"))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_an_order_matters(small_model):
    one, other = (build(small_model(layers=3, schedule=text), VOCAB, CONTEXT, 1)(TOKENS) for text in ("1 2 3", "2 1 3"))
    assert not torch.allclose(one, other)


def test_a_tied_stack_is_the_looped_stack(small_model):
    """Layers 3 and 4 tied whole to 1 and 2 compute what `1..2 1..2` computes when the norms, their own, have no weight."""
    keys = {"norm": {"weight": False}}
    tied = build(small_model(layers=4, tie={"3..4": "1..2"}, **keys), VOCAB, CONTEXT, 1)
    looped = build(small_model(layers=2, schedule="1..2 1..2", **keys), VOCAB, CONTEXT, 1)
    assert [name for name, _ in tied.named_parameters()] == [name for name, _ in looped.named_parameters()]
    assert all(torch.equal(a, b) for a, b in zip(outcome(tied), outcome(looped), strict=True))


@pytest.mark.parametrize("documents", [None, torch.arange(CONTEXT)[None].repeat(2, 1) // 5])
@pytest.mark.parametrize("keys", [{"schedule": "1..2 1..2"}, {**LOOP2, "schedule": "1..4 2:attn 3:mlp"},
                                  {"positions": "alibi", "inject": "add", "schedule": "(1..2)x3"},
                                  {"attn_gate": "channel", "inject": "linear", "h0": "noise", "pass_norm": True, "schedule": "(1..2)x3"}],
                         ids=str)  # fmt: skip
def test_activation_checkpointing_changes_no_bit(small_model, keys, documents):
    decoder = build(small_model(**keys, init={"rule": "normal"}), VOCAB, CONTEXT, 1)
    kept = outcome(decoder, documents)
    decoder.activation_checkpointing = True
    assert all(torch.equal(a, b) for a, b in zip(kept, outcome(decoder, documents), strict=True))


def test_activation_checkpointing_runs_every_application_but_the_last_twice_and_keeps_less(small_model):
    decoder = build(small_model(schedule="(1..2)x4 1"), VOCAB, CONTEXT, 1)
    calls, saved = [], []
    decoder.layers["1"].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    for switch, times in ((False, 5), (True, 9)):
        decoder.activation_checkpointing = switch
        calls.clear()
        kept = 0

        def keep(tensor):
            nonlocal kept
            kept += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = decoder.losses(TOKENS, TARGETS).sum()
        loss.backward()
        saved.append(kept)
        assert len(calls) == times
    assert saved[1] < saved[0] / 2


@pytest.mark.parametrize("keys", [{}, {"softcap": 2}, {"tie_embeddings": False}])
def test_losses_are_the_loss_taken_apart(small_model, keys):
    decoder = build(small_model(**keys), VOCAB, CONTEXT, 1, dtype=torch.float64)
    targets = TARGETS.clone()
    targets[0, 3:7] = -1
    losses, logits = decoder.losses(TOKENS, targets), decoder(TOKENS)
    expected = -torch.log_softmax(logits, -1).gather(-1, TARGETS[..., None])[..., 0]
    torch.testing.assert_close(losses, expected.masked_fill(targets == -1, 0))
    assert losses.shape == targets.shape and (losses[0, 3:7] == 0).all()
    assert decoder.losses(TOKENS, torch.full_like(TARGETS, -1)).sum().item() == 0
    if keys.get("softcap"):
        assert logits.abs().max() < 2


def test_uncounted_targets_have_no_gradient(small_model):
    decoder = build(small_model(), VOCAB, CONTEXT, 1, dtype=torch.float64)
    grads = []
    for other in (4, 9):
        targets = TARGETS.clone()
        targets[:, 5:] = -1
        tokens = TOKENS.clone()
        tokens[:, 5:] = other  # later tokens cannot matter either
        decoder.zero_grad()
        decoder.losses(tokens, targets).sum().backward()
        grads.append([parameter.grad.clone() for parameter in decoder.parameters()])
    for one, two in zip(*grads, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("keys", [{"qk_norm": "weight"}, {**LOOP2, "bigram_table": 9}, {"positions": "alibi", "kv_heads": 1}], ids=str)
def test_products_in_bfloat16(small_model, keys):
    """Weights, stream and gradients stay float32, logits are float32, and the loss is that of float32 to bfloat16's digits."""
    single = build(small_model(**keys), VOCAB, CONTEXT, 1)
    half = build(small_model(**keys), VOCAB, CONTEXT, 1, compute_dtype=torch.bfloat16)
    products = set()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.bmm, torch.ops.aten.addmm):
                products.update(tensor.dtype for tensor in args if isinstance(tensor, torch.Tensor))
            return func(*args, **(kwargs or {}))

    with Watch():
        loss = half.losses(TOKENS, TARGETS).sum()
    loss.backward()
    assert products == {torch.bfloat16}
    assert half(TOKENS).dtype == half.hidden(TOKENS).dtype == torch.float32 and loss.dtype == torch.float64
    assert {parameter.grad.dtype for parameter in half.parameters() if parameter.grad is not None} == {torch.float32}
    assert loss.item() == pytest.approx(single.losses(TOKENS, TARGETS).sum().item(), rel=0.01)
    assert not torch.equal(half(TOKENS), single(TOKENS))


@pytest.mark.parametrize("keys", [{}, {"positions": "alibi"}, {**LOOP2, "bigram_table": 9}], ids=str)
def test_what_is_kept_between_calls_does_not_leak(small_model, keys):
    """Other lengths, documents and dtypes in between change nothing; rows do not see each other."""
    decoder = build(small_model(**keys), VOCAB, CONTEXT, 1)
    documents = torch.arange(CONTEXT)[None].repeat(2, 1) // 4
    with torch.no_grad():
        first, masked = decoder(TOKENS), decoder(TOKENS, documents_BT=documents)
        decoder(TOKENS[:, :5])
        decoder(TOKENS, documents_BT=documents // 2)
        decoder(TOKENS[:, :3], cache=decoder.cache())
        assert torch.equal(decoder(TOKENS), first)
        assert torch.equal(decoder(TOKENS, documents_BT=documents), masked)
        torch.testing.assert_close(decoder(TOKENS[1:]), first[1:])
        torch.testing.assert_close(decoder(TOKENS[:, :5]), first[:, :5])
        torch.testing.assert_close(decoder.double()(TOKENS).float(), first, rtol=1e-4, atol=1e-5)


def test_training_after_inference_mode(small_model):
    """Masks and angles made there are of no use to autograd."""
    decoder = build(small_model(), VOCAB, CONTEXT, 1)
    with torch.inference_mode():
        before = decoder.losses(TOKENS, TARGETS)
    losses = decoder.losses(TOKENS, TARGETS)
    losses.sum().backward()
    assert torch.equal(losses, before)


def test_texts_longer_than_the_training_context(small_model):
    tokens = torch.arange(CONTEXT + 3)[None] % VOCAB
    assert build(small_model(), VOCAB, CONTEXT, 1)(tokens).shape == (1, CONTEXT + 3, VOCAB)
    with pytest.raises(OstinatoError, match="15 positions"):
        build(small_model(positions="learned"), VOCAB, CONTEXT, 1)(tokens)


def test_parameters_are_the_inventory_in_any_family(small_model):
    for keys in ({"qk_norm": "weight", "positions": "learned"}, {**LOOP2, "bigram_table": 9, "tie": {"3..4:attn": "1..2:attn"}}):
        model = small_model(**keys)
        made = build(model, VOCAB, CONTEXT, 1, device="meta")
        assert {n: tuple(p.shape) for n, p in made.named_parameters()} == {r.name: r.shape for r in inventory(model, VOCAB, CONTEXT)}
        assert made.state_dict().keys() == dict(made.named_parameters()).keys(), "no buffer travels with the weights"


def test_meta_models_know_shapes(small_model):
    made = build(small_model(**LOOP2), VOCAB, CONTEXT, 1, device="meta")
    loss = made.losses(TOKENS.to("meta"), TARGETS.to("meta")).sum()
    loss.backward()
    assert loss.is_meta and made.layers["4"].attn.o.weight.grad.shape == (32, 32)


def test_a_model_that_was_never_initialised_shows_it(small_model):
    from ostinato.model.decoder import Decoder

    assert Decoder(small_model(), VOCAB, CONTEXT)(TOKENS).isnan().all()


@pytest.mark.parametrize("keys, name", [({"head_dim": 5}, "pairs"), ({**LOOP2, "d_model": 16}, "first 32 channels")])
def test_shapes_that_cannot_be(small_model, keys, name):
    with pytest.raises(OstinatoError, match=name):
        build(small_model(**keys), VOCAB, CONTEXT, 1)


def test_a_schedule_without_its_passes(small_model):
    with pytest.raises(ScheduleError):
        build(small_model(schedule="(1..2)x{r}"), VOCAB, CONTEXT, 1)


def test_a_cache_and_documents_at_once_are_refused(small_model):
    made = build(small_model(), VOCAB, CONTEXT, 1)
    with pytest.raises(OstinatoError, match="cache"):
        made(TOKENS, documents_BT=torch.zeros_like(TOKENS), cache=made.cache())


def test_one_line_names_the_attention_backend(small_model, caplog):
    made = build(small_model(**LOOP2), VOCAB, CONTEXT, 1)
    with caplog.at_level(logging.INFO, logger="ostinato"):
        made(TOKENS)
        made(TOKENS)
    assert caplog.messages == ["attention on cpu: masked for 5, causal for the whole context"]
