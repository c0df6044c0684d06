"""Every parameter of a model by name, shape and role, from its record alone. The module has exactly these (tested).

D = d_model, V = vocabulary, H = heads, K = key-value heads, E = head dimension, F = MLP width, A = applications. Matrices are
[out, in], without biases; layers are numbered from 1.

    embedding V,D · positions context,D (learned) · bigram rows,D
    value_tables.i V,K*E · layers.i.value_gate K,32       where a layer has a value embedding
    layers.i.inject D,2D                                  where a pass of a repeated group begins with layer i: inject linear
    layers.i.attn_norm, mlp_norm D                        where norms have weights
    layers.i.attn   gqa: q k v o, q_norm and k_norm E, gate H,D (attn_gate head) or H*E,D (channel)
                    gdn: q k v g o, a and b H,D, A_log and dt_bias H, convolutions of width 4, o_norm E
    layers.i.mlp    swiglu: gate up down; relu2: up down
    layers.i.attn_streams, mlp_streams                    hyper-connections of N > 1 streams: norm D (where norms have weights),
                                                          dynamic N+2,D, static N,N+2, scale 2
    layers.i.pass_norm D                                  the norm at the end of a pass that begins with layer i
    final_norm D · residual_scale A, x0_scale A · head V,D (untied)

A tied sublayer has no parameters: those of the layer it is taken from are the only ones. Norm, gate, value table and hyper-connections
(role `connection`, optimised by AdamW) stay the layer's own, and are the same in every pass.
A gate of attention belongs to the attention and is tied with it. One number a head is a `gate`, as value gates are; one a channel is as
large as q and does the same work, and so is a `matrix`, counted and optimised as one. Injection is a `matrix`, too.
The gated delta rule's layer is that of Yang et al. (arXiv 2412.06464), values as wide as keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ostinato.schedule import Application, RepeatedGroup
from ostinato.study.derive import (
    GATE_CHANNELS,
    arm_applications,
    has_value_table,
    head_dim,
    kv_heads,
    model_hidden,
    pass_groups,
    tied_to,
)
from ostinato.study.records import Model, Role

CONVOLUTION_WIDTH = 4
OUTSIDE = frozenset({"embedding", "head", "positions", "value_table", "bigram_table"})
"""Roles that `params_nonembedding` leaves out: look-up tables and the head."""


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One tensor.  layer, sublayer: whose it is, None for what belongs to the model or to no sublayer."""

    name: str
    shape: tuple[int, ...]
    role: Role
    layer: int | None = None
    sublayer: str | None = None

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


def inventory(model: Model, vocab: int, context: int) -> list[ParameterRow]:
    """Every tensor of the model once, in the order of the forward pass.

    vocab: entries of the tokenizer.  context: positions that learned positions have a vector for.
    """
    width, applications = model.d_model, len(arm_applications(model))
    rows = [ParameterRow("embedding.weight", (vocab, width), "embedding")]
    if model.positions == "learned":
        rows.append(ParameterRow("positions.weight", (context, width), "positions"))
    if model.bigram_table:
        rows.append(ParameterRow("bigram.weight", (model.bigram_table, width), "bigram_table"))
    ties, groups = tied_to(model), pass_groups(model)
    for layer in range(1, len(model.layers) + 1):
        rows.extend(_layer(model, layer, vocab, ties, groups))
    if model.norm.weight:
        rows.append(ParameterRow("final_norm.weight", (width,), "norm"))
    if model.application_scalars:
        rows.append(ParameterRow("residual_scale", (applications,), "residual_scalar"))
        rows.append(ParameterRow("x0_scale", (applications,), "x0_scalar"))
    if not model.tie_embeddings:
        rows.append(ParameterRow("head.weight", (vocab, width), "head"))
    return rows


def used_by(model: Model, rows: list[ParameterRow], applications: tuple[Application, ...]) -> list[list[ParameterRow]]:
    """For each application the tensors it uses: those of a tied sublayer's source, and the norm, gate and value table of its own layer;
    where a pass begins also its injection, where it ends also its norm.

    Per-application scalars are not among them: they belong to the model, one number of each to every application.
    """
    inside: dict[tuple[int | None, str | None], list[ParameterRow]] = {}
    around: dict[tuple[int | None, str | None], list[ParameterRow]] = {}
    for row in rows:
        place = inside if row.name.startswith(f"layers.{row.layer}.{row.sublayer}.") else around
        place.setdefault((row.layer, row.sublayer), []).append(row)
    ties = tied_to(model)

    def of(layer: int, sublayer: str) -> list[ParameterRow]:
        source = ties.get((layer, sublayer), layer)
        return around.get((layer, sublayer), []) + inside.get((source, sublayer), [])

    used = [[row for sublayer in application.sublayers for row in of(application.layer, sublayer)] for application in applications]
    for group in pass_groups(model):
        for name, places in (("inject", group.begins), ("pass_norm", group.ends)):
            own = [row for row in rows if row.name == f"layers.{group.layer}.{name}.weight"]
            for place in places:
                used[place] = own + used[place] if name == "inject" else used[place] + own
    return used


def _layer(model: Model, layer: int, vocab: int, ties: dict[tuple[int, str], int],
           groups: tuple[RepeatedGroup, ...]) -> Iterator[ParameterRow]:  # fmt: skip
    begins = any(group.layer == layer for group in groups)
    if begins and model.inject == "linear":
        yield ParameterRow(f"layers.{layer}.inject.weight", (model.d_model, 2 * model.d_model), "matrix", layer)
    if has_value_table(model, layer):
        heads = kv_heads(model)
        yield ParameterRow(f"value_tables.{layer}.weight", (vocab, heads * head_dim(model)), "value_table", layer, "attn")
        yield ParameterRow(f"layers.{layer}.value_gate.weight", (heads, GATE_CHANNELS), "gate", layer, "attn")
    mixer = _gqa(model) if model.layers[layer - 1] == "gqa" else _gdn(model)
    for sublayer, tensors in (("attn", mixer), ("mlp", _mlp(model))):
        if model.norm.weight:
            yield ParameterRow(f"layers.{layer}.{sublayer}_norm.weight", (model.d_model,), "norm", layer, sublayer)
        if model.streams > 1:
            yield from _connections(model, layer, sublayer)
        if (layer, sublayer) not in ties:
            for name, shape, role in tensors:
                yield ParameterRow(f"layers.{layer}.{sublayer}.{name}", shape, role, layer, sublayer)
    if begins and model.pass_norm and model.norm.weight:
        yield ParameterRow(f"layers.{layer}.pass_norm.weight", (model.d_model,), "norm", layer)


def _connections(model: Model, layer: int, sublayer: str) -> Iterator[ParameterRow]:
    name, streams = f"layers.{layer}.{sublayer}_streams", model.streams
    if model.norm.weight:
        yield ParameterRow(f"{name}.norm.weight", (model.d_model,), "norm", layer, sublayer)
    yield ParameterRow(f"{name}.dynamic.weight", (streams + 2, model.d_model), "connection", layer, sublayer)
    yield ParameterRow(f"{name}.static", (streams, streams + 2), "connection", layer, sublayer)
    yield ParameterRow(f"{name}.scale", (2,), "connection", layer, sublayer)


Tensor = tuple[str, tuple[int, ...], Role]


def _gqa(model: Model) -> list[Tensor]:
    width, size = model.d_model, head_dim(model)
    queries, keys = model.heads * size, kv_heads(model) * size
    found: list[Tensor] = [("q.weight", (queries, width), "matrix"), ("k.weight", (keys, width), "matrix"),
                           ("v.weight", (keys, width), "matrix"), ("o.weight", (width, queries), "matrix")]  # fmt: skip
    if model.qk_norm == "weight":
        found += [("q_norm.weight", (size,), "norm"), ("k_norm.weight", (size,), "norm")]
    if model.attn_gate != "none":
        found.append(("gate.weight", (queries, width), "matrix") if model.attn_gate == "channel" else
                     ("gate.weight", (model.heads, width), "gate"))  # fmt: skip
    return found


def _gdn(model: Model) -> list[Tensor]:
    width, size, heads = model.d_model, head_dim(model), model.heads
    inner = heads * size
    found: list[Tensor] = [(f"{name}.weight", (inner, width), "matrix") for name in "qkvg"]
    found.append(("o.weight", (width, inner), "matrix"))
    found += [(f"{name}.weight", (heads, width), "gate") for name in "ab"]
    found += [(name, (heads,), "decay") for name in ("A_log", "dt_bias")]
    found += [(f"{name}_conv.weight", (inner, 1, CONVOLUTION_WIDTH), "convolution") for name in "qkv"]
    found.append(("o_norm.weight", (size,), "norm"))
    return found


def _mlp(model: Model) -> list[Tensor]:
    width, hidden = model.d_model, model_hidden(model)
    names = ("gate", "up", "down") if model.mlp.kind == "swiglu" else ("up", "down")
    return [(f"{name}.weight", (width, hidden) if name == "down" else (hidden, width), "matrix") for name in names]
