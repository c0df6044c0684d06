"""Floating-point operations of one token, by two conventions that are in print. A multiply and an add are two operations.

published (the default; 217,089,024 a token for the base of karpathy/autoresearch at depth 8): 6 × (matrices of every application
  + unembedding) + 12 × heads × head dimension × mean allowed keys, for forward and backward; the forward pass is a third of it, and all
  that a pass without gradient costs (2 and 4).
  The mean is taken over the causal context: a query at position i sees min(i, window) keys, itself included.
trainer (the upstream trainer's own estimate; 239,078,400 for the same model): gates and convolutions are counted too, and every query
  is given the keys before it that a full window holds: window - 1, or the whole context where there is no window.

Of the switches: a gate of attention is counted in both conventions when it has a number a channel (a matrix as large as q), as value gates
are, by the trainer's alone, when it has one a head; the product W [e; h] of a linear injection is a matrix of the application that
begins the pass, 2 · D · 2D operations forward at every pass, and that for each of N residual streams. Hyper-connections are counted like
gates, by the trainer's convention alone, and of them the product norm(x) Wᵀ, 2 · N · D · (N + 2) operations a sublayer; how streams are
mixed works by element, 2 · N · D · (N + 2) more. What a gate multiplies, a norm at the end of a pass and noise work by element.

Both leave out look-ups (embeddings, positions, value and bigram tables), norms, scalars, softmax and all else that works by element,
and know nothing of document masks. A head costs the same tied or untied. Activation checkpointing computes again but is not counted.

The gated delta rule's state is counted in its recurrent form, whatever form runs it: three products a token and head with the
E × E state (what the state holds for this key, the rank-one write, the read), 6·E² forward and 18·E² in training; its convolutions and
the decay work by element and are left out of `published`. In chunks of C tokens (model/delta.py) another 24·C·E are done in training and
not counted, as attention's masked half is not (tested against torch's counter).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from ostinato.ledger.inventory import ParameterRow
from ostinato.schedule import Application
from ostinato.study.derive import head_dim, layer_window
from ostinato.study.records import Model

TRAINING = 3
"""The backward pass does twice the products of the forward pass; there is none in a pass without gradient (study/truncation.py)."""

DELTA_PRODUCTS = 3


def mean_keys(window: int, context: int) -> Fraction:
    """Keys that a query sees on average over a causal context, itself included; window counts the query itself."""
    window = min(window, context)
    return Fraction(window * (window + 1) // 2 + (context - window) * window, context)


def trainer_keys(window: int, context: int) -> Fraction:
    """Keys of every query in the upstream trainer's estimate."""
    return Fraction(context if window >= context else window - 1)


PUBLISHED = (frozenset({"matrix"}), mean_keys)
TRAINER = (frozenset({"matrix", "gate", "convolution", "connection"}), trainer_keys)
Convention = tuple[frozenset[str], Callable[[int, int], Fraction]]
CONVENTIONS = {
    "published": "6 x (matrices of every application + unembedding) + 12 x heads x head_dim x mean causal keys",
    "trainer": "the same with gates and convolutions, and for every query window - 1 keys, or the whole context",
}


def application_flops(model: Model, used: list[ParameterRow], application: Application, context: int, convention: Convention) -> Fraction:
    """Forward operations a token of one application.  used: the tensors it uses."""
    roles, keys = convention
    total = Fraction(sum(2 * row.size * uses(model, row) for row in used if row.role in roles))
    if not application.attn:
        return total
    if model.layers[application.layer - 1] == "gdn":
        return total + 2 * DELTA_PRODUCTS * model.heads * head_dim(model) ** 2
    return total + 4 * model.heads * head_dim(model) * keys(layer_window(model, application.layer, context), context)


def uses(model: Model, row: ParameterRow) -> int:
    """How many vectors a token and application a weight is multiplied with: the streams, of what meets each of them."""
    if row.name.endswith((".inject.weight", "_streams.dynamic.weight")):
        return model.streams
    return 0 if row.role == "connection" else 1


def head_flops(model: Model, vocab: int) -> int:
    """Forward operations a token of the unembedding, tied or not."""
    return 2 * vocab * model.d_model
