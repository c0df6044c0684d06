"""Initial values: a function of (seed, name, shape) and a scale, and of nothing else."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import torch

from ostinato.errors import OstinatoError
from ostinato.model.decoder import build
from ostinato.model.init import unit_noise

VOCAB, CONTEXT = 40, 16
PINNED_NORMAL = [-0.110099, -0.499602, 0.730255, -0.428415]
PINNED_UNIFORM = [-0.739239, -0.357728, 0.545416, 0.958388]


def weights(model, seed=1, **options):
    return {name: tensor.detach() for name, tensor in build(model, VOCAB, CONTEXT, seed, **options).named_parameters()}


def same(a, b):
    return {name for name in a.keys() & b.keys() if torch.equal(a[name], b[name])}


FAMILIES = ["llama", "loop2"]
LOOP2 = {"windows": {"pattern": "SSSL", "short": 4}}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("changed", [
    {"schedule": "1..4 1..4"}, {"schedule": "1..4 2:attn", "inject": "add"}, {"value_embeddings": "all"}, {"bigram_table": 50},
    {"softcap": 3}, {"qk_norm": "weight"}, {"positions": "learned"}, {"tie": {"3..4:attn": "1..2:attn"}}, {"layers": 6},
    {"attn_gate": "head"}, {"attn_gate": "channel"}, {"inject": "linear", "h0": "noise", "pass_norm": True, "schedule": "1..4 1..4"},
    {"mlp": {"hidden": 24}}, {"kv_heads": 1}, {"tie_embeddings": False}, {"windows": {"pattern": "SL", "short": 2}}])  # fmt: skip
def test_a_twin_starts_from_bit_identical_weights(small_model, family, changed):
    """Whatever one arm has more, less or in another size: every tensor of the same name and shape is the same."""
    base = {"family": family, "layers": 4, **LOOP2}
    plain, twin = weights(small_model(**base)), weights(small_model(**{**base, **changed}))
    alike = {name for name in plain.keys() & twin.keys() if plain[name].shape == twin[name].shape}
    assert same(plain, twin) == alike
    assert len(alike) >= len(plain) - 13  # at most four layers of an MLP's three tensors, or of the scalars, differ in shape


def test_adding_a_value_table_changes_no_other_tensor(small_model):
    plain = weights(small_model(family="loop2", value_embeddings="none", **LOOP2))
    more = weights(small_model(family="loop2", value_embeddings="all", **LOOP2))
    assert same(plain, more) == plain.keys()
    assert more.keys() - plain.keys() == {f"{name}.weight" for i in (1, 2) for name in (f"value_tables.{i}", f"layers.{i}.value_gate")}


@pytest.mark.parametrize("family", FAMILIES)
def test_another_seed_moves_every_random_tensor(small_model, family):
    a, b = (weights(small_model(family=family, qk_norm="weight", **LOOP2), seed) for seed in (1, 2))
    constant = {name for name, tensor in a.items() if tensor.unique().numel() == 1}
    assert same(a, b) == constant
    zeros = {"attn.o.weight", "mlp.down.weight", "value_gate.weight"} if family == "loop2" else set()
    assert all("norm" in name or "scale" in name or name.split(".", 2)[-1] in zeros for name in constant)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_arm_with_a_bigram_table_starts_as_its_twin(small_model, family):
    tokens = torch.randint(0, VOCAB, (2, 9))
    plain, table = (build(small_model(family=family, bigram_table=rows, **LOOP2), VOCAB, CONTEXT, 1) for rows in (0, 64))
    assert torch.equal(plain(tokens), table(tokens))


def test_llama_with_scalars_starts_as_its_twin(small_model):
    tokens = torch.randint(0, VOCAB, (2, 9))
    plain, scaled = (build(small_model(application_scalars=switch), VOCAB, CONTEXT, 1) for switch in (False, True))
    assert torch.equal(plain(tokens), scaled(tokens))


def test_the_published_rule(small_model):
    """The published recipe of loop2: embedding N(0, 1), head N(0, .001), U(±√3/√d), zeros at both outputs, gates 0, scalars 1 and 0.1."""
    found = weights(small_model(family="loop2", d_model=64, layers=4, mlp={"hidden": None, "ratio": 4}, **LOOP2, schedule="1..4 1:mlp"))
    bound = math.sqrt(3 / 64)
    assert found["embedding.weight"].std().item() == pytest.approx(1, rel=0.1)
    assert found["head.weight"].std().item() == pytest.approx(0.001, rel=0.1)
    for name in ("layers.1.attn.q", "layers.2.attn.k", "layers.3.attn.v", "layers.4.mlp.up", "value_tables.2", "value_tables.4"):
        tensor = found[name + ".weight"]
        assert bound * 0.98 < tensor.abs().max() <= bound, name
        assert tensor.std().item() == pytest.approx(1 / 8, rel=0.05), name
    for name in ("layers.1.attn.o", "layers.4.mlp.down", "layers.2.value_gate"):
        assert not found[name + ".weight"].any(), name
    assert found["residual_scale"].tolist() == [1] * 5
    assert found["x0_scale"].tolist() == [pytest.approx(0.1)] * 5


@pytest.mark.parametrize("family", FAMILIES)
def test_a_linear_injection_begins_as_the_identity_on_e(small_model, family):
    found = weights(small_model(family=family, inject="linear", pass_norm=True, schedule="1 2x3", norm={"weight": True}, **LOOP2))
    assert torch.equal(found["layers.2.inject.weight"], torch.cat((torch.eye(32), torch.zeros(32, 32)), 1))
    assert torch.equal(found["layers.2.pass_norm.weight"], torch.ones(32))
    assert not {"layers.1.inject.weight", "layers.1.pass_norm.weight"} & found.keys()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_gated_delta_layer(small_model, family):
    """Decays of A in (1, 16), steps from 0.001 to 0.1 spread over both decades, convolutions within ±1/2, matrices as all others."""
    found = weights(small_model(family=family, layers=("gdn",), heads=256, head_dim=2, d_model=256, mlp={"kind": "swiglu", "hidden": 8}))
    part = {name.removeprefix("layers.1.attn."): tensor for name, tensor in found.items()}
    rate, step = part["A_log"].exp(), torch.nn.functional.softplus(part["dt_bias"].double())
    assert 1 <= rate.min() < 2 and 15 < rate.max() <= 16 and rate.mean().item() == pytest.approx(8.5, abs=1)
    assert 0.000999 <= step.min() < 0.0015 and 0.07 < step.max() <= 0.1001 and step.log10().mean().item() == pytest.approx(-2, abs=0.15)
    for name in "qkv":
        taps = part[f"{name}_conv.weight"]
        assert taps.shape == (512, 1, 4) and 0.48 < taps.abs().max() <= 0.5
    std = 0.02 if family == "llama" else 1 / 16
    for name in "qkvgab":
        assert part[f"{name}.weight"].std().item() == pytest.approx(std, rel=0.05)
    assert torch.equal(part["o_norm.weight"], torch.ones(2))
    assert bool(part["o.weight"].any()) == (family == "llama")


@pytest.mark.parametrize("gate, rows", [("head", 2), ("channel", 32)])
def test_a_gate_of_attention_starts_as_the_matrices_do(small_model, gate, rows):
    normal, published = (weights(small_model(family=family, attn_gate=gate, d_model=256, **LOOP2)) for family in FAMILIES)
    name = "layers.1.attn.gate.weight"
    assert normal[name].shape == (rows if gate == "head" else 256, 256)
    assert normal[name].std().item() == pytest.approx(0.02, rel=0.1)
    assert published[name].abs().max() <= math.sqrt(3 / 256) and published[name].std().item() == pytest.approx(1 / 16, rel=0.1)


@pytest.mark.parametrize("scaling, factor", [("none", 1), ("unique", 1 / math.sqrt(2 * 3)), ("effective", 1 / math.sqrt(2 * 6.5))])
@pytest.mark.parametrize("tie", [{}, {"2:attn": "1:attn"}])
def test_residual_scaling_apart_from_tying(small_model, scaling, factor, tie):
    """Only output projections move, by the stated factor, whether or not sublayers are tied (layer 4 does not run)."""
    keys = {"layers": 4, "schedule": "(1..3)x2 1:mlp", "tie": tie}
    plain, scaled = weights(small_model(**keys)), weights(small_model(**keys, residual_scaling=scaling))
    for name, tensor in plain.items():
        output = name.endswith(("attn.o.weight", "mlp.down.weight"))
        torch.testing.assert_close(scaled[name], tensor * (factor if output else 1), rtol=1e-6, atol=0)


def test_scaling_what_starts_at_zero_is_refused(small_model):
    with pytest.raises(OstinatoError, match="still 0"):
        build(small_model(family="loop2", residual_scaling="unique", **LOOP2), VOCAB, CONTEXT, 1)


def test_std_scales_the_same_draw(small_model):
    a, b = weights(small_model()), weights(small_model(init={"std": 0.04}))
    for name in a:
        torch.testing.assert_close(b[name], a[name] * (1 if "norm" in name else 2), rtol=1e-6, atol=0)


def test_the_dtype_of_the_model_does_not_change_the_draw(small_model):
    single, double = weights(small_model()), weights(small_model(), dtype=torch.float64)
    for name in single:
        torch.testing.assert_close(double[name].float(), single[name], rtol=1e-6, atol=0)


def test_the_stream_of_numbers_is_pinned():
    """A change of these numbers, by us or by numpy, would make old and new runs incomparable."""
    assert unit_noise(1, "embedding.weight", (2, 2)).flatten().tolist() == pytest.approx(PINNED_NORMAL, abs=1e-6)
    assert unit_noise(1, "embedding.weight", (2, 2), "uniform").flatten().tolist() == pytest.approx(PINNED_UNIFORM, abs=1e-6)


def test_noise_is_unit_and_depends_on_seed_name_and_shape():
    base = unit_noise(1, "a", (200, 50))
    assert abs(base.mean()) < 0.03 and abs(base.std() - 1) < 0.03
    for other in (unit_noise(2, "a", (200, 50)), unit_noise(1, "b", (200, 50)), unit_noise(1, "a", (50, 200)).reshape(200, 50)):
        assert abs(np.corrcoef(base.ravel(), other.ravel())[0, 1]) < 0.05


def test_a_large_table_is_drawn_in_a_moment():
    start = time.perf_counter()
    unit_noise(1, "embedding.weight", (4000, 1000))
    assert time.perf_counter() - start < 5


def test_residual_scaling_without_tying(small_model):
    """A plain arm with the scaling of its recursive arm starts from the same weights as that arm, and not from its unscaled twin's."""

    def starting(**keys):
        return dict(build(small_model(layers=3, **keys), VOCAB, CONTEXT, 1).named_parameters())

    plain, given, looped = starting(), starting(residual_scaling=9), starting(schedule="(1..3)x3", residual_scaling="effective")
    for name, value in given.items():
        assert torch.equal(value, looped[name])
        factor = 1 / math.sqrt(18) if name.endswith(("o.weight", "down.weight")) else 1
        torch.testing.assert_close(value, plain[name] * factor)
