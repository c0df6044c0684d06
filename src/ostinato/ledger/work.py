"""What a training step or a measurement does, as counts that take time: the features of the seconds that a machine needs (`seconds.py`).

Products are counted by kind, because a machine's pace differs between them: those of layers, of the head, of attention, of the gated
delta rule, of Muon. Beside them numbers that are read and written by element, the states of optimizers, and calls: what an operation
costs however small it is, which is most of a desk study. Forward and backward together are three times the forward pass, and four where
activations are computed again (checkpointing); a pass without gradient is a forward pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

from ostinato.ledger.every_number import at_every_number
from ostinato.ledger.flops import uses
from ostinato.ledger.inventory import ParameterRow, inventory, used_by
from ostinato.ledger.memory import DELTA_CHUNK, micro_batch_tokens
from ostinato.schedule import Application
from ostinato.study.derive import (
    arm_applications,
    has_value_table,
    head_dim,
    kv_heads,
    layer_window,
    model_hidden,
    optimizer_groups,
    recipe_steps,
)
from ostinato.study.draws import always, shares
from ostinato.study.records import Arm, Model, Passes
from ostinato.study.truncation import without_gradient

FORWARD = ("calls", "products", "elements", "attention", "blocks", "masked", "scores", "delta", "chunks", "head", "logits")
STEP = (*FORWARD, "steps", "weights", "adamw", "tensors", "muon", "muon_products")
"""calls: operations.  products, head, delta, muon_products, and attention in its three ways (fused, in blocks of queries, with a mask):
multiplications and additions.  elements, logits, scores: numbers that are passed over.  chunks: turns of the gated delta rule's loop.
weights: numbers of weights and gradients passed over.  adamw, muon: numbers that each updates.  tensors: how many.  steps: 1."""

_CALLS = {"gqa": 22, "gdn": 60, "mlp": 8, "ends": 20}
"""Operations of a forward pass, about."""

PASSES = ("calls", "chunks")
"""Counted once a forward pass, whatever it reads; the other counts of FORWARD are once a token."""

BLOCK = 64
BLOCKS_LEAST_KEYS, BLOCKS_MOST_KEYS_CAUSAL = 256, 768
BLOCKS_LEAST_HEAD_DIM, BLOCKS_LEAST_HEAD_DIM_CAUSAL = 32, 64
"""Where attention on a CPU goes in blocks of so many queries (model/masks.py); CAUSAL: where nothing else is asked. Decision 0134."""

Work = dict[str, float]


def step_work(arm: Arm, vocab: int, rows_at_once: int | None = None) -> Work:
    """Of one training step of `arm`, by the names of STEP.  rows_at_once: rows of a micro-batch (None: the recipe's)."""
    model, recipe = arm.model, arm.recipe
    steps = recipe_steps(recipe)
    at_once = min(rows_at_once or micro_batch_tokens(recipe) // recipe.context, steps.rows)
    rows = inventory(model, vocab, recipe.context)
    walks = _walks(arm, rows)
    ends = _ends(model, vocab, 1.0)
    again = 4 / 3 if recipe.activation_checkpointing else 1.0
    parts = -(-steps.rows // at_once)
    found = dict.fromkeys(STEP, 0.0)
    for name in FORWARD:
        times = parts if name in PASSES else steps.tokens_per_step
        applied = sum(share * (forward[name] + 3 * again * walk[name]) for share, walk, forward in walks)
        found[name] = times * (applied + 3 * ends[name])
    used = sum(row.size for tensors in used_by(model, rows, arm_applications(model)) for row in tensors)
    found |= {"steps": 1.0, "weights": float(parts * (used + 2 * vocab * model.d_model))}
    groups = optimizer_groups(recipe, model)
    for row in rows:
        kind = groups[row.role].kind
        found[kind] += row.size
        found["tensors"] += 1
        if kind == "muon":
            found["muon_products"] += recipe.muon.steps * _polar(row.shape)
    return found


def _walks(arm: Arm, rows: list[ParameterRow]) -> list[tuple[float, Work, Work]]:
    """The share of the arm's steps that run so, and `_learnt` of them."""

    def of(model: Model) -> tuple[Work, Work]:
        return _learnt(model, rows, arm.recipe.context, arm.data.document_mask)

    draw = arm.model.passes
    if not isinstance(draw, Passes):
        return [(1.0, *of(arm.model))]
    steps = shares(draw, arm.seeds, recipe_steps(arm.recipe).steps)
    found = at_every_number(arm.model, steps, lambda passes: tuple(
        Fraction(walk[name]) for walk in of(always(arm.model, passes)) for name in FORWARD))  # fmt: skip
    each = {passes: list(map(float, values)) for passes, values in found.items()}
    return [(share, *(dict(zip(FORWARD, each[passes][start:], strict=False)) for start in (0, len(FORWARD))))
            for passes, share in steps.items()]  # fmt: skip


def _learnt(model: Model, rows: list[ParameterRow], context: int, documents: bool) -> tuple[Work, Work]:
    """Of the applications with gradient, and of those without, forward."""
    cut = without_gradient(model)
    learnt = {application.index for application in arm_applications(model)} - cut
    return _walk(model, rows, context, documents, learnt), _walk(model, rows, context, documents, cut)


def measuring_work(arm: Arm, vocab: int, context: int, counted: float, inputs: float, batch: int) -> Work:
    """Of measuring: reading `inputs` tokens in forward passes of `batch` tokens, by the names of FORWARD.

    context: tokens of a window.  counted: targets a token that is read (1: rows; 1/2: documents with a stride of half the context).
    """
    walk = _walk(arm.model, inventory(arm.model, vocab, arm.recipe.context), context, arm.data.document_mask)
    ends = _ends(arm.model, vocab, counted)
    passes = max(1.0, inputs / max(context, batch // context * context))
    return {name: (walk[name] + ends[name]) * (passes if name in PASSES else inputs) for name in FORWARD}


def _polar(shape: Sequence[int]) -> float:
    """Of one iteration: x xᵀ, its square, and their product with x, on the shorter side."""
    short, long = min(shape), max(shape)
    return 4.0 * short * short * long + 2.0 * short**3


def _walk(model: Model, rows: list[ParameterRow], context: int, documents: bool, within: Collection[int] | None = None) -> Work:
    """Of the applications with these indices (None: of all) forward: a token's, but for calls and chunks, which are a forward pass's."""
    found = dict.fromkeys(FORWARD, 0.0)
    applications = arm_applications(model)
    for application, used in zip(applications, used_by(model, rows, applications), strict=True):
        if within is not None and application.index not in within:
            continue
        matrices = [row for row in used if row.role in ("matrix", "gate", "connection")]
        found["products"] += sum(2 * row.size * uses(model, row) for row in matrices)
        found["elements"] += sum(sum(row.shape) for row in matrices) + (3 * model.d_model if model.application_scalars else 0)
        found["calls"] += 3 * model.application_scalars + (application.enters_pass and model.inject != "none")
        if model.streams > 1:
            found["calls"] += len(application.sublayers) * (12 + 3 * model.streams)
            found["elements"] += len(application.sublayers) * model.streams * (2 * model.streams + 5) * model.d_model
        if application.mlp:
            found["calls"] += _CALLS["mlp"]
            found["elements"] += 4 * model.d_model + (3 if model.mlp.kind == "swiglu" else 2) * model_hidden(model)
        if application.attn:
            _mixer(found, model, application, context, documents)
    return found


def _mixer(found: Work, model: Model, application: Application, context: int, documents: bool) -> None:
    kind, heads, size = model.layers[application.layer - 1], model.heads, head_dim(model)
    found["calls"] += _CALLS[kind]
    if kind == "gdn":
        chunk = min(DELTA_CHUNK, context)
        found["elements"] += 4 * model.d_model + 24 * heads * size
        found["delta"] += heads * (6 * size * size + 8 * chunk * size)
        found["chunks"] += -(-context // chunk)
        return
    value, normed, gated = has_value_table(model, application.layer), model.qk_norm != "none", model.attn_gate != "none"
    found["calls"] += 6 * value + 4 * normed + 3 * gated - 4 * (model.positions != "rope")
    found["elements"] += 4 * model.d_model + (9 if normed else 6) * (heads + kv_heads(model)) * size + 3 * value * kv_heads(model) * size
    window = layer_window(model, application.layer, context)
    plain = window >= context and model.positions != "alibi" and not documents
    least = BLOCKS_LEAST_HEAD_DIM_CAUSAL if plain else BLOCKS_LEAST_HEAD_DIM
    if documents or size < least or context < BLOCKS_LEAST_KEYS or (plain and context > BLOCKS_MOST_KEYS_CAUSAL):
        way, keys = ("attention", (context + 1) / 2) if plain else ("masked", float(context))
    else:
        way, keys = "blocks", min((context + BLOCK) / 2, float(window + BLOCK))
    found[way] += 4 * heads * size * keys
    found["scores"] += heads * keys


def _ends(model: Model, vocab: int, counted: float) -> Work:
    found = dict.fromkeys(FORWARD, 0.0)
    found |= {"calls": float(_CALLS["ends"]), "elements": 6.0 * model.d_model, "head": counted * 2 * vocab * model.d_model,
              "logits": counted * vocab * (2 if model.softcap else 1)}  # fmt: skip
    return found
