"""The ledger against the module that is really built: names, shapes, counts, FLOPs, saved activations, cache bytes."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from ostinato.ledger import account, cache_bytes, inventory
from ostinato.ledger.inventory import used_by
from ostinato.ledger.memory import DELTA_CHUNK, application_bytes, cast_bytes, head_bytes
from ostinato.model.decoder import build
from ostinato.model.noise import row_keys
from ostinato.study.derive import arm_applications, tied_to

VOCAB, CONTEXT, ROWS = 96, 40, 2
MODELS = {
    "llama": dict(layers=3),
    "grouped": dict(layers=3, heads=4, kv_heads=2, head_dim=24),
    "qk norm weight": dict(layers=2, qk_norm="weight", positions="none"),
    "learned": dict(layers=2, positions="learned", tie_embeddings=False),
    "alibi": dict(layers=2, positions="alibi", mlp={"kind": "relu2", "hidden": 100}),
    "partial and unused": dict(layers=4, schedule="1..2 2:attn 3:mlp"),
    "injected": dict(layers=2, schedule="(1..2)x{r}", passes=3, inject="add"),
    "tied": dict(layers=4, tie={"3..4:attn": "1..2:attn", "4:mlp": "1:mlp"}),
    "gate a head": dict(layers=2, attn_gate="head", heads=4, kv_heads=2, schedule="1..2 1:attn"),
    "gate a channel": dict(layers=3, attn_gate="channel", head_dim=24, tie={"3:attn": "1:attn"}),
    "linear injection": dict(layers=4, inject="linear", schedule="1 (2..3)x3 4", pass_norm=True),
    "noise, two groups": dict(layers=2, inject="linear", h0="noise", schedule="1x2 2 2:attn"),
    "norm of a pass": dict(layers=2, pass_norm=True, schedule="(1..2)x2"),
    "norm of a pass without weight": dict(layers=2, pass_norm=True, inject="linear", schedule="(1..2)x2", norm={"weight": False}),
    "loop2 recurrent": dict(family="loop2", layers=4, windows={"pattern": "SSSL", "short": 9}, schedule="1 (2..3)x2 4", inject="linear",
                            h0="noise", pass_norm=True, attn_gate="channel"),
    "two streams": dict(layers=2, streams=2),
    "three streams": dict(layers=4, streams=3, inject="linear", schedule="1 (2..3)x3 4", pass_norm=True, norm={"weight": False}),
    "loop2": dict(family="loop2", layers=4, windows={"pattern": "SSSL", "short": 9}),
    "loop2 again": dict(family="loop2", layers=4, windows={"pattern": "SSSL", "short": 9}, schedule="1..4 1..4:attn 2:mlp"),
    "loop2 all": dict(family="loop2", layers=3, windows={"pattern": "L"}, value_embeddings="all", bigram_table=512, kv_heads=1),
    "gated delta rule": dict(layers="2 x gdn", heads=4),
    "hybrid": dict(layers="2 x (gdn gdn gqa)", heads=4, kv_heads=2, qk_norm="weight", schedule="(1..3)x2 (4..6)x2"),
    "hybrid tied": dict(layers="gdn gqa gdn gqa", tie={"3..4:attn": "1..2:attn"}, schedule="1..4 1:attn 3:mlp"),
    "loop2 tied": dict(family="loop2", layers=4, windows={"pattern": "SL", "short": 9}, tie={"3..4:attn": "1..2:attn"}),
}


@pytest.fixture(params=MODELS)
def arm(request, make_arm):
    return make_arm(recipe={"batch": ROWS * CONTEXT, "context": CONTEXT}, **MODELS[request.param])


def tokens(device="cpu"):
    return torch.arange(ROWS * CONTEXT, device=device).view(ROWS, CONTEXT) * 7 % VOCAB


def test_names_and_shapes(arm):
    module = build(arm.model, VOCAB, CONTEXT, 0, device="meta")
    rows = inventory(arm.model, VOCAB, CONTEXT)
    assert {row.name: row.shape for row in rows} == {name: tuple(tensor.shape) for name, tensor in module.named_parameters()}
    assert len({row.name for row in rows}) == len(rows)
    assert account(arm, VOCAB).params_total == sum(tensor.numel() for tensor in module.parameters())


def test_the_published_arms_at_full_size(any_loop2_arm):
    module = build(any_loop2_arm.model, 8192, 2048, 0, device="meta")
    assert account(any_loop2_arm, 8192).params_total == sum(tensor.numel() for tensor in module.parameters())
    assert {row.name for row in inventory(any_loop2_arm.model, 8192, 2048)} == dict(module.named_parameters()).keys()


def test_unused_parameters_are_those_without_gradient(arm):
    module = build(arm.model, VOCAB, CONTEXT, 0)
    torch.nn.init.normal_(module.embedding.weight)
    for parameter in module.parameters():  # nothing at zero, so that a gradient is missing only where nothing was used
        torch.nn.init.normal_(parameter, std=0.5)
    module.losses(tokens(), tokens().roll(-1, 1)).sum().backward()
    assert set(account(arm, VOCAB).unused) == {name for name, tensor in module.named_parameters() if tensor.grad is None}


def in_place(to, one, other, out_shape=None, **_):
    """Of addmm_ and baddbmm_, which torch's counter does not know. Arguments are shapes."""
    return 2 * math.prod(one) * other[-1]


def counted(module, backward):
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: in_place, torch.ops.aten.baddbmm_: in_place}) as counter:
        if backward:
            module.losses(tokens("meta"), tokens("meta")).sum().backward()
        else:
            module(tokens("meta"))
    counts = {str(operation): count for operation, count in counter.get_flop_counts()["Global"].items()}
    assert set(counts) <= {"aten.mm", "aten.addmm_", "aten.bmm", "aten.baddbmm", "aten.baddbmm_"}
    batched = sum(count for operation, count in counts.items() if "bmm" in operation)
    return sum(counts.values()) - batched, batched


def chunked_flops(heads, size, backward):
    """What the gated delta rule in chunks of C costs a row as torch counts it: products, and running sums as a product with ones.

    Of the products 6·E² a token and head (18·E² in training) are those with the state, as in the recurrent form, which is what the ledger
    counts; 8·C·E (24·C·E) are those within a chunk. The triangular system is not counted.
    """
    chunk = min(DELTA_CHUNK, CONTEXT)
    tokens = -(-CONTEXT // chunk) * chunk
    products = 24 * chunk * size + 18 * size**2 if backward else 8 * chunk * size + 6 * size**2
    return tokens * heads * products, tokens * heads * 2 * chunk if backward else 0


@pytest.mark.parametrize("backward", [False, True])
def test_flops_against_torch(arm, backward):
    """Products with matrices exactly (torch counts the gates, too); attention as torch counts it on meta: the whole T x T square; the
    gated delta rule in chunks."""
    products, attention = counted(build(arm.model, VOCAB, CONTEXT, 0, device="meta"), backward)
    ledger = account(arm, VOCAB)
    ours, gates, square, chunked, sums = 2 * VOCAB * arm.model.d_model, 0, 0, 0, 0
    size = arm.model.head_dim or arm.model.d_model // arm.model.heads
    roles = {row.name: row for row in inventory(arm.model, VOCAB, CONTEXT)}
    for application in ledger.applications:
        mixing = 0
        if application.part != "mlp" and arm.model.layers[application.layer - 1] == "gdn":
            mixing = 6 * arm.model.heads * size**2
            gates += 2 * 2 * arm.model.heads * arm.model.d_model
            found = chunked_flops(arm.model.heads, size, backward)
            chunked, sums = chunked + found[0], sums + found[1]
        elif application.part != "mlp":
            square += 4 * arm.model.heads * size * CONTEXT
            keys = [min(i + 1, application.window) for i in range(CONTEXT)]
            mixing = 4 * arm.model.heads * size * sum(keys) / CONTEXT
            owner = tied_to(arm.model).get((application.layer, "attn"), application.layer)
            for name in (f"layers.{application.layer}.value_gate.weight", f"layers.{owner}.attn.gate.weight"):
                gates += 2 * roles[name].size if name in roles and roles[name].role == "gate" else 0
        for sublayer in ("attn", "mlp") if arm.model.streams > 1 else ():
            if application.part in ("both", sublayer):
                gates += arm.model.streams * 2 * roles[f"layers.{application.layer}.{sublayer}_streams.dynamic.weight"].size
        ours += application.flops_forward - mixing
    passes = 3 if backward else 1
    assert products == passes * ROWS * CONTEXT * (ours + gates) + ROWS * sums
    assert attention == passes * ROWS * CONTEXT * square + ROWS * chunked


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_activations_are_what_autograd_keeps(arm, checkpointing, dtype):
    """The estimate, less what it adds for the peak (what the head needs, one recomputed application), is within 3% of the saved tensors."""
    arm = arm.model_copy(update={"recipe": arm.recipe.model_copy(update={"dtype": dtype})})
    module = build(arm.model, VOCAB, CONTEXT, 0, compute_dtype=None if dtype == "float32" else torch.bfloat16)
    module.activation_checkpointing = checkpointing
    own = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)  # holding the tensor keeps its address from being used again
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module.losses(tokens(), tokens(), None, row_keys(1, 0, ROWS)).sum()  # as a step of training, each row with noise of its own
    fixed = (tensor.shape[-2:] == (CONTEXT, CONTEXT) or (tensor.dim() == 3 and len(tensor) == CONTEXT) for _, tensor in kept.values())
    measured = sum(size for (size, _), same in zip(kept.values(), fixed, strict=True) if not same)  # masks and angles are no activations
    applications = arm_applications(arm.model)
    used = used_by(arm.model, inventory(arm.model, VOCAB, CONTEXT), applications)
    sizes = [
        ROWS * CONTEXT * application_bytes(arm.model, application, CONTEXT, dtype) + cast_bytes(tensors, dtype)
        for application, tensors in zip(applications, used, strict=True)
    ]
    memory = account(arm, VOCAB).memory
    peak = head_bytes(arm.model, VOCAB, ROWS * CONTEXT, dtype) + (max(sizes) - sizes[-1] if checkpointing else 0)
    if checkpointing and module.draws:  # e beside the noise is held by what computes again, where autograd's hooks do not look
        peak += len(module.enters) * ROWS * CONTEXT * 4 * arm.model.d_model
    assert memory["activations_checkpointed" if checkpointing else "activations"] - peak == pytest.approx(measured, rel=0.03)
    assert memory["activations"] > sum(sizes)


@pytest.mark.parametrize("length", [1, 5, 20])
def test_cache_bytes(arm, length):
    module = build(arm.model, VOCAB, CONTEXT, 0)
    cache = module.cache()
    with torch.no_grad():
        module(tokens()[:1, :length], cache=cache)
    ledger = account(arm, VOCAB)
    assert cache.bytes == cache_bytes(ledger, length)
    assert len(cache.slots) == sum(row.part != "mlp" for row in ledger.applications)
    if length == 1:
        assert cache.bytes == ledger.cache_bytes_per_token + ledger.cache_bytes_fixed
