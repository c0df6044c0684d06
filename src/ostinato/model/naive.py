"""The naive twin of the decoder: one token, one head, one pair of channels at a time, straight from the equations.

It shares no code with the fast path: no batching, no masks, no kernels, no cache. Every switch of the decoder must agree with it in
logits and in gradients, in float64. It is for rows of a few tokens: time grows with T² · H · applications.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ostinato.study.derive import arm_applications, tied_to
from ostinato.study.records import Model


def logits(model: Model, weights: Mapping[str, Tensor], tokens: Sequence[int], context: int,
           documents: Sequence[int] | None = None) -> Tensor:  # fmt: skip
    """Logits [T, V] of one row, differentiable in `weights` (the decoder's parameters by name)."""
    documents = [0] * len(tokens) if documents is None else documents
    start = [_embed(model, weights, tokens, documents, t) for t in range(len(tokens))]
    stream = list(start)
    tied = tied_to(model)
    for application in arm_applications(model):
        own, place = f"layers.{application.layer}", application.index
        if model.inject == "add" and application.enters_pass:
            stream = [x + e for x, e in zip(stream, start, strict=True)]
        if model.application_scalars:
            a, b = weights["residual_scale"][place], weights["x0_scale"][place]
            stream = [a * x + b * e for x, e in zip(stream, start, strict=True)]
        if application.part in ("both", "attn"):
            source = f"layers.{tied.get((application.layer, 'attn'), application.layer)}.attn"
            normed = [_rms(model, x, weights.get(f"{own}.attn_norm.weight")) for x in stream]
            mixed = _attention(model, weights, application.layer, own, source, normed, tokens, context, documents)
            stream = [x + y for x, y in zip(stream, mixed, strict=True)]
        if application.part in ("both", "mlp"):
            source = f"layers.{tied.get((application.layer, 'mlp'), application.layer)}.mlp"
            stream = [x + _mlp(model, weights, source, _rms(model, x, weights.get(f"{own}.mlp_norm.weight"))) for x in stream]
    head = weights["embedding.weight"] if model.tie_embeddings else weights["head.weight"]
    rows = [head @ _rms(model, x, weights.get("final_norm.weight")) for x in stream]
    if model.softcap:
        rows = [model.softcap * torch.tanh(row / model.softcap) for row in rows]
    return torch.stack(rows)


def _rms(model: Model, x: Tensor, weight: Tensor | None) -> Tensor:
    mean = sum(value * value for value in x) / len(x)
    y = torch.stack([value / torch.sqrt(mean + model.norm.eps) for value in x])
    return y if weight is None else torch.stack([value * w for value, w in zip(y, weight, strict=True)])


def _embed(model: Model, weights: Mapping[str, Tensor], tokens: Sequence[int], documents: Sequence[int], t: int) -> Tensor:
    x = weights["embedding.weight"][tokens[t]]
    if model.bigram_table:
        before = tokens[t - 1] if t > 0 and documents[t - 1] == documents[t] else len(weights["embedding.weight"])
        row = pow(1_640_531_527 * before + 839_872_933 * tokens[t] + 374_761_393, 5, 2**31 - 1) % model.bigram_table
        x = x + weights["bigram.weight"][row]
    if model.positions == "learned":
        x = x + weights["positions.weight"][t]
    return _rms(model, x, None) if model.embedding_norm else x


def _window(model: Model, layer: int, context: int) -> int:
    letters = [model.windows.pattern[i % len(model.windows.pattern)] for i in range(len(model.layers))]
    letters[-1] = "L"
    return model.windows.short if letters[layer - 1] == "S" else max(context, 10**9)


def _has_table(model: Model, layer: int) -> bool:
    count = len(model.layers)
    return model.value_embeddings == "all" or (model.value_embeddings == "alternate" and (layer - 1) % 2 == (count - 1) % 2)


def _slopes(heads: int) -> list[float]:
    if heads & (heads - 1):
        below = 2 ** int(math.log2(heads))
        return _slopes(below) + _slopes(2 * below)[0::2][: heads - below]
    ratio = 2 ** (-8 / heads)
    return [ratio ** (h + 1) for h in range(heads)]


def _attention(model: Model, weights: Mapping[str, Tensor], layer: int, own: str, source: str, x: list[Tensor], tokens: Sequence[int],
               context: int, documents: Sequence[int]) -> list[Tensor]:  # fmt: skip
    heads, groups = model.heads, model.kv_heads or model.heads
    size = model.head_dim or model.d_model // heads
    q = [_heads(weights[f"{source}.q.weight"] @ row, heads, size) for row in x]
    k = [_heads(weights[f"{source}.k.weight"] @ row, groups, size) for row in x]
    v = [_heads(weights[f"{source}.v.weight"] @ row, groups, size) for row in x]
    for t, token in enumerate(tokens):
        q[t] = [_turn(model, head, t, weights.get(f"{source}.q_norm.weight")) for head in q[t]]
        k[t] = [_turn(model, head, t, weights.get(f"{source}.k_norm.weight")) for head in k[t]]
        if _has_table(model, layer):
            looked_up = _heads(weights[f"value_tables.{layer}.weight"][token], groups, size)
            gates = [2 / (1 + torch.exp(-(row @ x[t][:32]))) for row in weights[f"{own}.value_gate.weight"]]
            v[t] = [head + gate * value for head, gate, value in zip(v[t], gates, looked_up, strict=True)]
    mixed = []
    for t in range(len(tokens)):
        outputs = []
        for h in range(heads):
            group = h // (heads // groups)
            seen = [s for s in range(t + 1) if t - s < _window(model, layer, context) and documents[s] == documents[t]]
            scores = [q[t][h] @ k[s][group] / math.sqrt(size) for s in seen]
            if model.positions == "alibi":
                scores = [score - _slopes(heads)[h] * (t - s) for score, s in zip(scores, seen, strict=True)]
            highest = max(score.item() for score in scores)
            shares = [torch.exp(score - highest) for score in scores]
            outputs.append(sum(share * v[s][group] for share, s in zip(shares, seen, strict=True)) / sum(shares))
        mixed.append(weights[f"{source}.o.weight"] @ torch.cat(outputs))
    return mixed


def _heads(x: Tensor, heads: int, size: int) -> list[Tensor]:
    return [x[h * size : (h + 1) * size] for h in range(heads)]


def _turn(model: Model, head: Tensor, t: int, weight: Tensor | None) -> Tensor:
    if model.qk_norm == "weight":
        head = _rms(model, head, weight)
    if model.positions == "rope":
        half = len(head) // 2
        first, second = [], []
        for i in range(half):
            angle = t * model.rope_base ** (-i / half)
            first.append(head[i] * math.cos(angle) - head[i + half] * math.sin(angle))
            second.append(head[i + half] * math.cos(angle) + head[i] * math.sin(angle))
        head = torch.stack(first + second)
    return _rms(model, head, None) if model.qk_norm == "plain" else head


def _mlp(model: Model, weights: Mapping[str, Tensor], source: str, x: Tensor) -> Tensor:
    up = weights[f"{source}.up.weight"] @ x
    if model.mlp.kind == "relu2":
        return weights[f"{source}.down.weight"] @ torch.stack([value * value if value > 0 else value * 0 for value in up])
    gate = weights[f"{source}.gate.weight"] @ x
    return weights[f"{source}.down.weight"] @ torch.stack([g / (1 + torch.exp(-g)) * u for g, u in zip(gate, up, strict=True)])
