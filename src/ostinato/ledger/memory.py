"""An estimate of what training holds in memory, in bytes, and what generation keeps for every application.

Weights, gradients and optimizer states are exact: float32, with two moments a number for AdamW; for Muon the momentum, and one
number for each line of the longer dimension where the second moment is kept. Activations are an estimate of what the backward
pass needs: the tensors that the operations of the forward pass save, attention by a fused kernel that saves no T x T matrix.
Not in it: the allocator's slack, workspaces, and the peak within one operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ostinato.ledger.inventory import CONVOLUTION_WIDTH, ParameterRow
from ostinato.schedule import Application, RepeatedGroup
from ostinato.study.derive import (
    draws_h0,
    has_value_table,
    head_dim,
    kv_heads,
    layer_window,
    model_hidden,
    optimizer_groups,
    pass_groups,
)
from ostinato.study.records import Model, Recipe
from ostinato.study.truncation import without_gradient

FLOAT32 = 4
TOKEN = 8
DELTA_CHUNK = 32
"""Tokens of a chunk of the gated delta rule, in model/delta.py."""
HEAD_LOGITS, HEAD_LEAST = 2**21, 512
"""Logits that a thread has at once (8 MB), and of how many tokens at least on a CPU; decision 0130."""
BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True, slots=True)
class CacheRow:
    """per_token: bytes for each token kept.  tokens: at most so many are kept (None: all).  fixed: bytes of recurrent state."""

    per_token: int
    tokens: int | None
    fixed: int


def cache_row(model: Model, application: Application, context: int, dtype: str) -> CacheRow:
    """What generation keeps for one application: keys and values, or the state and the last inputs of the convolutions."""
    if not application.attn:
        return CacheRow(0, 0, 0)
    size, width = head_dim(model), BYTES[dtype]
    if model.layers[application.layer - 1] == "gdn":
        inner = model.heads * size
        return CacheRow(0, 0, model.heads * size * size * FLOAT32 + 3 * inner * (CONVOLUTION_WIDTH - 1) * width)
    window = layer_window(model, application.layer, context)
    return CacheRow(2 * kv_heads(model) * size * width, window if window < context else None, 0)


def optimizer_bytes(rows: list[ParameterRow], recipe: Recipe, model: Model) -> int:
    """Bytes of the optimizer's states."""
    groups = optimizer_groups(recipe, model)
    total = 0
    for row in rows:
        if groups[row.role].kind == "adamw":
            total += 2 * row.size
        else:
            total += row.size + (max(row.shape) if recipe.muon.second_moment is not None else 0)
    return FLOAT32 * total


def application_bytes(model: Model, application: Application, context: int, dtype: str,
                      groups: Sequence[RepeatedGroup] | None = None) -> int:  # fmt: skip
    """Bytes a token that the backward pass needs of one application, when nothing is computed again.

    groups: those of the model, where they are known.
    dtype: of products and what goes into them; the stream, its norms and rotations stay in float32.
    """
    streams = model.streams
    products, exact = 0, streams * model.d_model if model.application_scalars else 0
    for sublayer in application.sublayers:
        if streams > 1:  # x, its norm, what is written, tanh and M
            exact += (2 * streams + 1) * model.d_model + streams * (3 * (streams + 2) + 1)
        products += model.d_model
        exact += model.d_model + 1
        if sublayer == "mlp":
            products += model_hidden(model) * (4 if model.mlp.kind == "swiglu" else 2)
        else:
            kept = _gdn_kept(model, context) if model.layers[application.layer - 1] == "gdn" else _gqa_kept(model, application.layer)
            products, exact = products + kept[0], exact + kept[1]
    for group in pass_groups(model) if groups is None else groups:
        place = application.index - group.first
        inside = 0 <= place < group.length * group.passes
        if model.inject == "linear" and inside and place % group.length == 0:
            products += streams * 2 * model.d_model  # [e; h]
        if model.pass_norm and inside and (place + 1) % group.length == 0:
            exact += streams * (model.d_model + 1)
    return BYTES[dtype] * products + FLOAT32 * exact


def _gqa_kept(model: Model, layer: int) -> tuple[int, int]:
    """q, k, v, the output, its gate and the gated output, a gated value embedding in the dtype of products; QK norm and the log-sum-exp of
    every query in float32."""
    queries, keys = model.heads * head_dim(model), kv_heads(model) * head_dim(model)
    normed = 0 if model.qk_norm == "none" else queries + keys
    value = keys + 2 * kv_heads(model) if has_value_table(model, layer) else 0
    gated = {"none": 0, "head": model.heads + queries, "channel": 2 * queries}[model.attn_gate]
    return 2 * (queries + keys) + value + gated, normed + model.heads


def _gdn_kept(model: Model, context: int) -> tuple[int, int]:
    """In the dtype of products six projections, the convolved q, k, v before SiLU, SiLU of the gate, the input of the output projection.

    In float32, over whole chunks of C: normed q and k, the corrections, three C x C matrices a chunk and one state, in the chunked form
    (model/delta.py); over tokens what the decay and β are made of, and the output before and after its norm.
    """
    heads, size = model.heads, head_dim(model)
    inner, chunk = heads * size, min(DELTA_CHUNK, context)
    chunks = -(-context // chunk)
    in_chunks = 3 * inner + 3 * chunk * heads + 5 * heads
    exact = (chunks * chunk * in_chunks + (chunks + 1) * inner * size) // context + 2 * inner + 4 * heads
    return 4 * inner + 2 * heads + 3 * inner + inner + inner, exact


def ends_bytes(model: Model) -> int:
    """Bytes a token outside the applications that the backward pass needs: embedding and final norm, tokens and targets."""
    streams = 2 + model.embedding_norm
    return FLOAT32 * streams * model.d_model + 2 * TOKEN


def head_chunk(tokens: int, vocab: int, least: int = HEAD_LEAST, logits: int = HEAD_LOGITS) -> int:
    """Tokens of a chunk in which the head's loss and gradient are formed: all but the last chunk have as many."""
    most = max(least, logits // vocab)
    return -(-tokens // max(1, -(-tokens // most)))


def head_bytes(model: Model, vocab: int, tokens: int, dtype: str) -> int:
    """Bytes beside that while loss and gradient are formed: the stream's gradient, and a chunk's logits, which become their gradient.

    The gradient of the head's weight is among the gradients. A GPU's chunks have more tokens (model/head.py): this is what a CPU needs.
    """
    room, weight = FLOAT32 * (2 if model.softcap else 1), 0
    if dtype != "float32":
        room, weight = room + 2 * BYTES[dtype], 2 * BYTES[dtype]  # of z and dz; of the weight and what a chunk adds to its gradient
    return FLOAT32 * model.d_model * tokens + vocab * (room * head_chunk(tokens, vocab) + weight * model.d_model)


def cast_bytes(used: Iterable[ParameterRow], dtype: str) -> int:
    """Bytes of the copies of weights that are kept: those that products in another dtype than float32 need, and those of a gated delta
    layer's projections, which are laid one below the other in any dtype."""
    used = list(used)
    together = any(row.role == "decay" for row in used)
    copied = [row for row in used if row.role in ("matrix", "gate")]
    if dtype == "float32":
        copied = [row for row in copied if together and row.sublayer == "attn" and not row.name.endswith(".o.weight")]
    return BYTES[dtype] * sum(row.size for row in copied) + FLOAT32 * sum(row.size for row in used if row.role == "convolution")


def memory(
    rows: list[ParameterRow],
    applications: tuple[Application, ...],
    used: list[list[ParameterRow]],
    model: Model,
    recipe: Recipe,
    vocab: int,
) -> dict[str, int]:
    """Bytes of training by what they are for: weights, gradients, optimizer, activations, activations_checkpointed.

    used: the tensors of every application.  Activations are those of one micro-batch, of applications with gradient; checkpointed, the
    input of all but one of these and all of the largest one.
    """
    size = FLOAT32 * sum(row.size for row in rows)
    tokens, dtype = micro_batch_tokens(recipe), recipe.dtype
    cut, groups = without_gradient(model), pass_groups(model)
    kept = [
        tokens * application_bytes(model, application, recipe.context, dtype, groups) + cast_bytes(tensors, dtype)
        for application, tensors in zip(applications, used, strict=True)
        if application.index not in cut
    ]
    beside = len(groups) if draws_h0(model) else 0  # e beside the noise that the first pass begins with
    ends = tokens * ends_bytes(model) + head_bytes(model, vocab, tokens, dtype)
    return {
        "weights": size,
        "gradients": size,
        "optimizer": optimizer_bytes(rows, recipe, model),
        "activations": ends + sum(kept),
        "activations_checkpointed": ends + tokens * FLOAT32 * model.streams * model.d_model * (len(kept) - 1 + beside) + max(kept),
    }


def micro_batch_tokens(recipe: Recipe) -> int:
    """Tokens of one forward pass: whole rows."""
    wanted = min(recipe.micro_batch or recipe.batch, recipe.batch)
    return max(wanted // recipe.context, 1) * recipe.context
