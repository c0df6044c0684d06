"""An estimate of what training holds in memory, in bytes, and what generation keeps for every application.

Weights, gradients and optimizer states are exact: float32, with two moments a number for AdamW; for Muon the momentum, and one
number for each line of the longer dimension where the second moment is kept. Activations are an estimate of what the backward
pass needs: the tensors that the operations of the forward pass save, attention by a fused kernel that saves no T x T matrix.
Not in it: the allocator's slack, workspaces, and the peak within one operation.
"""

from __future__ import annotations

from dataclasses import dataclass

from ostinato.ledger.inventory import CONVOLUTION_WIDTH, ParameterRow
from ostinato.schedule import Application
from ostinato.study.derive import has_value_table, head_dim, kv_heads, layer_window, model_hidden, optimizer_groups
from ostinato.study.records import Model, Recipe

FLOAT32 = 4
TOKEN = 8
DELTA_CHUNK = 64
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


def application_bytes(model: Model, application: Application, dtype: str) -> int:
    """Bytes a token that the backward pass needs of one application, when nothing is computed again."""
    norm = model.d_model * (3 if model.norm.weight else 2)  # its input, its output, and the output before the weight
    saved = model.d_model if model.application_scalars else 0
    exact = 0  # numbers kept in float32 whatever the dtype
    if application.attn:
        mixer = _gdn_saved(model) if model.layers[application.layer - 1] == "gdn" else _gqa_saved(model, application.layer)
        saved += norm + mixer[0]
        exact += 1 + mixer[1]
    if application.mlp:
        saved += norm + model_hidden(model) * (4 if model.mlp.kind == "swiglu" else 2)
        exact += 1
    return BYTES[dtype] * saved + FLOAT32 * exact


def _gqa_saved(model: Model, layer: int) -> tuple[int, int]:
    """q, k, v and the output, with what QK norm and value embeddings keep beside them; the log-sum-exp of every query in float32."""
    queries, keys = model.heads * head_dim(model), kv_heads(model) * head_dim(model)
    normed = {"none": 0, "plain": 1, "weight": 2}[model.qk_norm] * (queries + keys)
    value = keys + 2 * kv_heads(model) if has_value_table(model, layer) else 0
    return 2 * (queries + keys) + normed + value, model.heads


def _gdn_saved(model: Model) -> tuple[int, int]:
    """Projections, convolutions before and after SiLU, normed q and k, output, gate; in float32 one state for every 64 tokens."""
    inner = model.heads * head_dim(model)
    return 4 * inner + 6 * inner + 2 * inner + 3 * inner, 4 * model.heads + inner * head_dim(model) // DELTA_CHUNK


def memory(rows: list[ParameterRow], applications: tuple[Application, ...], model: Model, recipe: Recipe, vocab: int) -> dict[str, int]:
    """Bytes of training by what they are for: weights, gradients, optimizer, activations, activations_checkpointed.

    Activations are those of one micro-batch; checkpointed, the input of every application and all of the largest one.
    """
    size = FLOAT32 * sum(row.size for row in rows)
    tokens = micro_batch_tokens(recipe)
    per_token = [application_bytes(model, application, recipe.dtype) for application in applications]
    stream = model.d_model * BYTES[recipe.dtype]
    ends = ends_bytes(model, vocab, recipe.dtype)
    return {
        "weights": size,
        "gradients": size,
        "optimizer": optimizer_bytes(rows, recipe, model),
        "activations": tokens * (ends + sum(per_token)),
        "activations_checkpointed": tokens * (ends + stream * len(applications) + max(per_token)),
    }


def ends_bytes(model: Model, vocab: int, dtype: str) -> int:
    """Bytes a token outside the applications: embedding and final norm; the logits, their log-softmax and, with a softcap, their tanh."""
    streams = (3 if model.norm.weight else 2) + (1 if model.embedding_norm else 0)
    return BYTES[dtype] * streams * model.d_model + FLOAT32 * vocab * (3 if model.softcap else 2) + 2 * TOKEN


def micro_batch_tokens(recipe: Recipe) -> int:
    """Tokens of one forward pass: whole rows."""
    wanted = min(recipe.micro_batch or recipe.batch, recipe.batch)
    return max(wanted // recipe.context, 1) * recipe.context
