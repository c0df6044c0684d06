"""Where every weight starts: one table, by name. Nothing else in the project sets an initial value.

    value = scale × unit noise, and the noise depends on (seed, name, shape) alone

so that twins start from the same weights, another scale keeps the same draw, and a tensor more in one arm moves no other.
The noise comes from numpy's Philox generator (Salmon et al., SC 2011) keyed by sha256 of "seed|name|rowsxcolumns": the same numbers
on every device and for every torch version. It is drawn in float32, whatever the dtype of the model.

    name                        rule normal                     rule loop2 (as published for karpathy/autoresearch)
    embedding                   N(0, std)                       N(0, 1)
    head                        N(0, std)                       N(0, 0.001)
    positions                   N(0, std)                       N(0, std)                     ours
    value_tables                N(0, std)                       U(±√3/√D)
    attn q k v, mlp gate up     N(0, std)                       U(±√3/√D)
    attn gate                   N(0, std)                       U(±√3/√D)                     ours under loop2
    inject                      [I | 0]                         [I | 0]                       every pass begins with e
    attn o, mlp down            N(0, std · s)                   0
    value_gate                  0 (a gate of 1)                 0
    bigram                      0                               0                             ours: the arm starts as its twin
    gdn g a b                   N(0, std)                       U(±√3/√D)                     ours
    gdn convolutions            U(±1/2)                         U(±1/2)                       torch's own of width 4
    gdn A_log                   log A, A of U(1, 16)            the same                      decays of U(1, 16) · softplus
    gdn dt_bias                 softplus⁻¹ of 0.001 … 0.1       the same                      uniform in the logarithm
    norms, pass_norm            1                               1
    streams static              [e_k | I | 1]                   the same                      Zhu et al. (streams.py): the plain residual
    streams dynamic, scale      0, 0.01                         the same
    residual_scale              1                               1
    x0_scale                    0 (ours: starts as its twin)    0.1

s = 1/√(2·depth) when residual_scaling is `unique` (layers that run), `effective` (length of the schedule in layers) or a depth, else 1.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch

from ostinato.errors import OstinatoError
from ostinato.model.streams import START, start
from ostinato.schedule import Application, effective_depth, unique_layers
from ostinato.study.records import Model

if TYPE_CHECKING:
    from ostinato.model.decoder import Decoder


def _softplus_inverse(step: np.ndarray) -> np.ndarray:
    return step + np.log(-np.expm1(-step))


DELTA = {"decay": lambda share: np.log(1 + 15 * share), "step": lambda share: _softplus_inverse(0.001 * 100**share)}
"""Of a gated delta layer, from numbers between 0 and 1: A_log, and dt_bias (as in Mamba2, Dao and Gu, arXiv 2405.21060)."""


class Rule(NamedTuple):
    """scale × unit noise of this kind, or the constant `scale`, or ones on the diagonal times it; decay and step: see DELTA; streams: the
    start of hyper-connections, `scale` the number of the sublayer."""

    noise: Literal["normal", "uniform", "constant", "identity", "decay", "step", "streams"]
    scale: float


def rule(name: str, model: Model, applications: Sequence[Application]) -> Rule:
    """The row of the table for a parameter's name. Raises KeyError for a name that is not in it."""
    first, last = name.split(".")[0], name.removesuffix(".weight").split(".")[-1]
    std, published = model.init.std, model.init.rule == "loop2"
    fan = Rule("uniform", math.sqrt(3 / model.d_model)) if published else Rule("normal", std)
    if first in ("embedding", "head", "positions", "value_tables", "bigram", "residual_scale", "x0_scale", "final_norm"):
        return {
            "embedding": Rule("normal", 1.0 if published else std),
            "head": Rule("normal", 0.001 if published else std),
            "positions": Rule("normal", std),
            "value_tables": fan,
            "bigram": Rule("constant", 0.0),
            "residual_scale": Rule("constant", 1.0),
            "x0_scale": Rule("constant", 0.1 if published else 0.0),
            "final_norm": Rule("constant", 1.0),
        }[first]
    out = Rule("constant", 0.0) if published else Rule("normal", std * residual_factor(model, applications))
    return {
        "static": Rule("streams", 2 * int(name.split(".")[1]) - 2 + ("mlp_streams" in name)) if last == "static" else None,
        "dynamic": Rule("constant", 0.0),
        "scale": Rule("constant", START),
        "norm": Rule("constant", 1.0),
        "attn_norm": Rule("constant", 1.0),
        "mlp_norm": Rule("constant", 1.0),
        "pass_norm": Rule("constant", 1.0),
        "inject": Rule("identity", 1.0),
        "q_norm": Rule("constant", 1.0),
        "k_norm": Rule("constant", 1.0),
        "value_gate": Rule("constant", 0.0),
        "q": fan,
        "k": fan,
        "v": fan,
        "g": fan,
        "a": fan,
        "b": fan,
        "q_conv": Rule("uniform", 0.5),
        "k_conv": Rule("uniform", 0.5),
        "v_conv": Rule("uniform", 0.5),
        "A_log": Rule("decay", 1.0),
        "dt_bias": Rule("step", 1.0),
        "o_norm": Rule("constant", 1.0),
        "gate": fan,
        "up": fan,
        "o": out,
        "down": out,
    }[last]


def residual_factor(model: Model, applications: Sequence[Application]) -> float:
    """s of the table: what the output projections are multiplied by."""
    if model.residual_scaling == "none":
        return 1.0
    named = {"unique": unique_layers, "effective": effective_depth}
    depth = named[model.residual_scaling](applications) if isinstance(model.residual_scaling, str) else model.residual_scaling
    return 1 / math.sqrt(2 * depth)


def unit_noise(seed: int, name: str, shape: Sequence[int], kind: Literal["normal", "uniform"] = "normal") -> np.ndarray:
    """float32 noise of this shape: N(0, 1), or uniform between -1 and 1. A pure function of its arguments."""
    digest = hashlib.sha256(f"{seed}|{name}|{'x'.join(map(str, shape))}".encode()).digest()
    generator = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
    if kind == "normal":
        return generator.standard_normal(shape, dtype=np.float32)
    return 2 * generator.random(shape, dtype=np.float32) - 1


@torch.no_grad()
def initialise(decoder: Decoder, seed: int) -> None:
    """Set every parameter to its initial value. Raises OstinatoError for a setting that would have no effect."""
    model, applications = decoder.model, decoder.applications
    if model.init.rule == "loop2" and model.residual_scaling != "none":
        raise OstinatoError(f"residual_scaling {model.residual_scaling} with the initialisation loop2",
                            "loop2 starts output projections at 0, and a scaled 0 is still 0",
                            "leave residual_scaling out, or set init: {rule: normal}")  # fmt: skip
    for name, parameter in decoder.named_parameters():
        noise, scale = rule(name, model, applications)
        if noise == "constant":
            parameter.fill_(scale)
        elif noise == "identity":
            torch.nn.init.eye_(parameter).mul_(scale)
        elif noise == "streams":
            parameter.copy_(start(model.streams, int(scale)))
        elif noise in ("decay", "step"):
            uniform = (1 + unit_noise(seed, name, parameter.shape, "uniform").astype(np.float64)) / 2
            parameter.copy_(torch.from_numpy(DELTA[noise](uniform))).mul_(scale)
        else:
            parameter.copy_(torch.from_numpy(unit_noise(seed, name, parameter.shape, noise))).mul_(scale)
