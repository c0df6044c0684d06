"""The naive twin of the decoder: one token, one head, one pair of channels at a time, straight from the equations.

It shares no code with the fast path: no batching, no masks, no kernels, no cache. Every switch of the decoder must agree with it in
logits and in gradients, in float64. It is for rows of a few tokens: time grows with T² · H · applications.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from ostinato.model.naive_delta import delta_rule
from ostinato.schedule import Application
from ostinato.study.derive import arm_applications, tied_to
from ostinato.study.records import Model


def logits(model: Model, weights: Mapping[str, Tensor], tokens: Sequence[int], context: int,
           documents: Sequence[int] | None = None, key: tuple[int, int] | None = None,
           groups: Sequence[tuple[int, int, int]] | None = None) -> Tensor:  # fmt: skip
    """Logits [T, V] of one row, differentiable in `weights` (the decoder's parameters by name).  key: of the row's noise in training.

    groups: first application, length and passes of each (default: what repeats), as where a draw gives a group one pass.
    """
    documents = [0] * len(tokens) if documents is None else documents
    start = [_embed(model, weights, tokens, documents, t) for t in range(len(tokens))]
    stream = list(start)  # of several streams one after the other: those of the first token, of the second, …
    several = range(model.streams)
    stream = [x for x in stream for _ in several]
    start = list(stream)
    tied, groups = tied_to(model), _groups(arm_applications(model)) if groups is None else groups
    entered: list[Tensor] = []
    for application in arm_applications(model):
        group = next((n for n, (first, length, passes) in enumerate(groups) if first <= application.index < first + length * passes), None)
        at, length, head = (None, 0, 0) if group is None else (application.index - groups[group][0], groups[group][1], groups[group][0])
        if model.inject == "linear" and at == 0:
            entered = stream
            if model.h0 == "noise":
                stream = [_noise(model, x, key or _sha("h0|fixed"), group, i // model.streams) for i, x in enumerate(stream)]
        if model.backprop is not None and at is not None and at % length == 0:
            passes = groups[group][2]
            through = (passes + 1) // 2 if model.backprop == "half" else model.backprop
            if at == length * (passes - through):  # what earlier passes have made is a constant from here on
                stream = [x.detach() for x in stream] if at else stream
        if model.inject == "linear" and at is not None and at % length == 0:
            weight = weights[f"layers.{application.layer}.inject.weight"]
            stream = [weight @ torch.cat([e, x]) for e, x in zip(entered, stream, strict=True)]
        own, place = f"layers.{application.layer}", application.index
        if model.inject == "add" and application.enters_pass:
            stream = [x + e for x, e in zip(stream, start, strict=True)]
        if model.application_scalars:
            a, b = weights["residual_scale"][place], weights["x0_scale"][place]
            stream = [a * x + b * e for x, e in zip(stream, start, strict=True)]
        if application.part in ("both", "attn"):
            source = f"layers.{tied.get((application.layer, 'attn'), application.layer)}.attn"
            read, write = _connected(model, weights, application.layer, "attn", stream)
            normed = [_rms(model, x, weights.get(f"{own}.attn_norm.weight")) for x in read]
            if model.layers[application.layer - 1] == "gdn":
                mixed = _delta(model, weights, source, normed, documents)
            else:
                mixed = _attention(model, weights, application.layer, own, source, normed, tokens, context, documents)
            stream = write(mixed)
        if application.part in ("both", "mlp"):
            source = f"layers.{tied.get((application.layer, 'mlp'), application.layer)}.mlp"
            read, write = _connected(model, weights, application.layer, "mlp", stream)
            stream = write([_mlp(model, weights, source, _rms(model, x, weights.get(f"{own}.mlp_norm.weight"))) for x in read])
        if model.pass_norm and at is not None and at % length == length - 1:
            first = arm_applications(model)[head].layer
            stream = [_rms(model, x, weights.get(f"layers.{first}.pass_norm.weight")) for x in stream]
    stream = [sum(stream[t * model.streams + n] for n in several) / model.streams for t in range(len(tokens))]
    head = weights["embedding.weight"] if model.tie_embeddings else weights["head.weight"]
    rows = [head @ _rms(model, x, weights.get("final_norm.weight")) for x in stream]
    if model.softcap:
        rows = [model.softcap * torch.tanh(row / model.softcap) for row in rows]
    return torch.stack(rows)


def _rms(model: Model, x: Tensor, weight: Tensor | None) -> Tensor:
    mean = sum(value * value for value in x) / len(x)
    y = torch.stack([value / torch.sqrt(mean + model.norm.eps) for value in x])
    return y if weight is None else torch.stack([value * w for value, w in zip(y, weight, strict=True)])


def _connected(model: Model, weights: Mapping[str, Tensor], layer: int, part: str,
               stream: list[Tensor]) -> tuple[list[Tensor], Callable[[list[Tensor]], list[Tensor]]]:  # fmt: skip
    """What a sublayer reads, one vector a token, and the function that puts what it makes of them into the streams."""
    count, name = model.streams, f"layers.{layer}.{part}_streams"
    if count == 1:
        return stream, lambda made: [x + y for x, y in zip(stream, made, strict=True)]
    tables = []
    for x in stream:
        normed, row = _rms(model, x, weights.get(f"{name}.norm.weight")), weights[f"{name}.static"][len(tables) % count]
        scales = [weights[f"{name}.scale"][0]] * (count + 1) + [weights[f"{name}.scale"][1]]
        table = [row[c] + scales[c] * torch.tanh(weights[f"{name}.dynamic.weight"][c] @ normed) for c in range(count + 2)]
        tables.append(table)
    groups = range(0, len(stream), count)
    read = [sum(tables[g + n][0] * stream[g + n] for n in range(count)) for g in groups]

    def write(made: list[Tensor]) -> list[Tensor]:
        return [sum(tables[g + n][1 + m] * stream[g + n] for n in range(count)) + tables[g + m][count + 1] * made[g // count]
                for g in groups for m in range(count)]  # fmt: skip

    return read, write


def _embed(model: Model, weights: Mapping[str, Tensor], tokens: Sequence[int], documents: Sequence[int], t: int) -> Tensor:
    x = weights["embedding.weight"][tokens[t]]
    if model.bigram_table:
        before = tokens[t - 1] if t > 0 and documents[t - 1] == documents[t] else len(weights["embedding.weight"])
        row = pow(1_640_531_527 * before + 839_872_933 * tokens[t] + 374_761_393, 5, 2**31 - 1) % model.bigram_table
        x = x + weights["bigram.weight"][row]
    if model.positions == "learned":
        x = x + weights["positions.weight"][t]
    return _rms(model, x, None) if model.embedding_norm else x


def _groups(applications: Sequence[Application]) -> list[tuple[int, int, int]]:
    """(first, length, passes) of what runs again right after itself, taken from the left, the shortest first; none is refused here."""
    steps = [(application.layer, set(application.sublayers)) for application in applications]
    groups, first = [], 0
    while first < len(steps):
        for length in range(1, (len(steps) - first) // 2 + 1):
            passes = 1
            while all(i + length < len(steps) and steps[i][0] == steps[i + length][0] and steps[i][1] & steps[i + length][1]
                      for i in range(first + (passes - 1) * length, first + passes * length)):  # fmt: skip
                passes += 1
            if passes > 1:
                groups.append((first, length, passes))
                first += length * passes - 1
                break
        first += 1
    return groups


def _noise(model: Model, like: Tensor, key: tuple[int, int], group: int, t: int) -> Tensor:
    """h0 at position t, channel by channel, in whole numbers of Python."""
    scale = model.init.std if model.init.rule == "normal" and not model.embedding_norm else 1.0
    drawn = []
    for channel in range(len(like)):
        salt = _mixed((channel // 2 * 0x9E3779B1 + (group + 1) * 0x85EBCA6B) % 2**32)
        a, b = (_mixed(_mixed(word ^ _mixed(t)) ^ salt) for word in key)
        turn = math.cos if channel % 2 == 0 else math.sin
        drawn.append(scale * math.sqrt(-2 * math.log((a + 0.5) / 2**32)) * turn(2 * math.pi * b / 2**32))
    return torch.tensor(drawn, dtype=like.dtype)


def _mixed(word: int) -> int:
    word = (word ^ word >> 16) * 0x21F0AAAD % 2**32
    word = (word ^ word >> 15) * 0x735A2D97 % 2**32
    return word ^ word >> 15


def _sha(text: str) -> tuple[int, int]:
    digest = hashlib.sha256(text.encode()).hexdigest()
    first, second = bytes.fromhex(digest[:8]), bytes.fromhex(digest[8:16])
    return int.from_bytes(first, "little"), int.from_bytes(second, "little")


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
        if model.attn_gate == "head":
            opened = [1 / (1 + torch.exp(-(row @ x[t]))) for row in weights[f"{source}.gate.weight"]]
            outputs = [gate * output for gate, output in zip(opened, outputs, strict=True)]
        if model.attn_gate == "channel":
            rows = _heads(weights[f"{source}.gate.weight"], heads, size)
            outputs = [output / (1 + torch.exp(-(rows[h] @ x[t]))) for h, output in enumerate(outputs)]
        mixed.append(weights[f"{source}.o.weight"] @ torch.cat(outputs))
    return mixed


def _delta(model: Model, weights: Mapping[str, Tensor], source: str, x: list[Tensor], documents: Sequence[int]) -> list[Tensor]:
    heads, size = model.heads, model.head_dim or model.d_model // model.heads
    q, k, v = (_convolved(weights[f"{source}.{name}_conv.weight"], weights[f"{source}.{name}.weight"], x, documents) for name in "qkv")
    outputs = []
    for h in range(heads):
        head = slice(h * size, (h + 1) * size)
        raw = [weights[f"{source}.a.weight"][h] @ row + weights[f"{source}.dt_bias"][h] for row in x]
        g = torch.stack([-torch.exp(weights[f"{source}.A_log"][h]) * torch.log(1 + torch.exp(value)) for value in raw])
        beta = torch.stack([1 / (1 + torch.exp(-(weights[f"{source}.b.weight"][h] @ row))) for row in x])
        outputs.append(delta_rule(q[:, head], k[:, head], v[:, head], g, beta, documents)[0])
    mixed = []
    for t, row in enumerate(x):
        gate = weights[f"{source}.g.weight"] @ row
        normed = torch.cat([_rms(model, output[t], weights[f"{source}.o_norm.weight"]) for output in outputs])
        mixed.append(weights[f"{source}.o.weight"] @ (normed * gate / (1 + torch.exp(-gate))))
    return mixed


def _convolved(taps: Tensor, weight: Tensor, x: list[Tensor], documents: Sequence[int]) -> Tensor:
    rows = []
    for t in range(len(x)):
        total = sum(taps[:, 0, 3 - back] * (weight @ x[t - back]) for back in range(min(t + 1, 4)) if documents[t - back] == documents[t])
        rows.append(total / (1 + torch.exp(-total)))
    return torch.stack(rows)


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
