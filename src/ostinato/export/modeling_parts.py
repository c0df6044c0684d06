"""The first half of an export's modeling file: configuration, cache and parts, in plain torch and transformers (source.py joins the two).

Shapes, as suffixes of names: B rows  T new tokens  S keys  D hidden_size  H heads  K key-value heads  E head_dim  C channels
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PretrainedConfig

CHUNK = 64
"""Tokens that the gated delta rule takes at a time."""


class OstinatoConfig(PretrainedConfig):
    """What a run was resolved to.

    layers: what each is (kind, window, value table), and which layer its attention and MLP are taken from.  applications: the schedule
    written out; `schedule` is the same as a person wrote it.  num_hidden_layers counts applications, for caches and `hidden_states`.
    max_position_embeddings: tokens of a row in training; only learned positions refuse more.
    """

    model_type = "ostinato"
    keys_to_ignore_at_inference = ("past_key_values", "cache")

    def __init__(self, vocab_size=256, hidden_size=64, num_attention_heads=2, num_key_value_heads=2, head_dim=32, intermediate_size=256,
                 mlp="swiglu", layers=(), applications=(), schedule="", max_position_embeddings=128, norm_eps=1e-5, norm_weight=True,
                 positions="rope", rope_base=10_000.0, qk_norm="none", attn_gate="none", convolution_width=4, gate_channels=32,
                 bigram_table=0, bigram_start=256, embedding_norm=False, application_scalars=False, final_logit_softcapping=None,
                 inject="none", h0_std=None, pass_norm=False, initializer_range=0.02, use_cache=True, tie_word_embeddings=True,
                 **kwargs):  # fmt: skip
        self.vocab_size, self.hidden_size, self.head_dim, self.intermediate_size = vocab_size, hidden_size, head_dim, intermediate_size
        self.num_attention_heads, self.num_key_value_heads, self.mlp = num_attention_heads, num_key_value_heads, mlp
        self.layers, self.applications = [dict(layer) for layer in layers], [dict(application) for application in applications]
        self.schedule, self.max_position_embeddings = schedule, max_position_embeddings
        self.norm_eps, self.norm_weight, self.positions, self.rope_base = norm_eps, norm_weight, positions, rope_base
        self.qk_norm, self.attn_gate, self.convolution_width, self.gate_channels = qk_norm, attn_gate, convolution_width, gate_channels
        self.bigram_table, self.bigram_start, self.embedding_norm = bigram_table, bigram_start, embedding_norm
        self.application_scalars, self.final_logit_softcapping = application_scalars, final_logit_softcapping
        self.inject, self.h0_std = inject, h0_std
        self.pass_norm, self.initializer_range, self.use_cache = pass_norm, initializer_range, use_cache
        kwargs["num_hidden_layers"] = len(self.applications)
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)


@dataclass
class OstinatoCache:
    """One slot an application: keys and values (of a window, its newest), or the last inputs of convolutions and a recurrent state.

    real_BS: which of the tokens seen are no padding.  last_B: the newest token of every row.
    """

    slots: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    real_BS: Tensor | None = None
    last_B: Tensor | None = None
    is_compileable = False  # what `generate` asks of a cache
    is_croppable = False
    is_linear = (False,)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens seen, padding included; the same for every application."""
        return 0 if self.real_BS is None else self.real_BS.shape[1]

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Row i goes on from what was row beam_idx[i]."""
        self._rows(lambda part: part.index_select(0, beam_idx.to(part.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Every row so many times."""
        self._rows(lambda part: part.repeat_interleave(repeats, 0))

    def _rows(self, change: Callable[[Tensor], Tensor]) -> None:
        self.slots = {index: (change(one), change(other)) for index, (one, other) in self.slots.items()}
        if self.real_BS is not None:
            self.real_BS, self.last_B = change(self.real_BS), change(self.last_B)


@dataclass
class Sight:
    """What every application of one call sees beside the stream."""

    tokens_BT: Tensor
    x0_BTD: Tensor
    cache: OstinatoCache | None
    real_BS: Tensor
    padded: bool
    angles: tuple[Tensor, Tensor] | None
    slopes_H: Tensor | None
    biases: dict[tuple[int | None, int], Tensor | None] = field(default_factory=dict)

    def attend(self, q_BHTE: Tensor, k_BKSE: Tensor, v_BKSE: Tensor, window: int | None) -> Tensor:
        """softmax(q k / sqrt(E) + bias) v; the last query stands at the last key."""
        queries, keys = q_BHTE.shape[2], k_BKSE.shape[2]
        window = None if window is None or window >= keys else window
        plain = window is None and self.slopes_H is None and not self.padded
        bias = None
        if not (plain and queries in (1, keys)):
            if (window, keys) not in self.biases:
                self.biases[window, keys] = self._bias(queries, keys, window, q_BHTE.dtype)
            bias = self.biases[window, keys]
        return F.scaled_dot_product_attention(q_BHTE, k_BKSE, v_BKSE, bias, is_causal=bias is None and queries > 1,
                                              enable_gqa=q_BHTE.shape[1] != k_BKSE.shape[1])  # fmt: skip

    def _bias(self, queries: int, keys: int, window: int | None, dtype: torch.dtype) -> Tensor:
        place_S = torch.arange(keys, device=self.real_BS.device)
        distance_TS = place_S[keys - queries :, None] - place_S
        seen = distance_TS >= 0 if window is None else (distance_TS >= 0) & (distance_TS < window)
        if self.padded:  # a query of padding sees itself, so that its softmax is a number
            seen = seen & self.real_BS[:, None, -keys:] | (distance_TS == 0)
            seen = seen[:, None]
        bias = torch.zeros((), device=distance_TS.device) if self.slopes_H is None else -self.slopes_H[:, None, None] * distance_TS
        return torch.where(seen, bias, float("-inf")).to(dtype)


class OstinatoRMSNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) · weight; without a weight where the model has none."""

    def __init__(self, size: int, weight: bool, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size)) if weight else None
        self.size, self.eps = size, eps

    def forward(self, x: Tensor) -> Tensor:
        if self.weight is None:
            return F.rms_norm(x, (self.size,), eps=self.eps)
        dtype = torch.promote_types(x.dtype, self.weight.dtype)
        return F.rms_norm(x.to(dtype), (self.size,), self.weight.to(dtype), self.eps)


class OstinatoAttention(nn.Module):
    """Causal softmax attention with grouped queries.  qk_norm `plain` has no weight and comes after rotation, `weight` before it."""

    def __init__(self, config: OstinatoConfig):
        super().__init__()
        width, heads, groups, size = config.hidden_size, config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.size, self.qk_norm, self.gated = size, config.qk_norm, config.attn_gate != "none"
        self.q, self.k, self.v = (nn.Linear(width, count * size, bias=False) for count in (heads, groups, groups))
        self.o = nn.Linear(heads * size, width, bias=False)
        if self.gated:
            self.gate = nn.Linear(width, heads if config.attn_gate == "head" else heads * size, bias=False)
        if self.qk_norm != "none":
            self.q_norm, self.k_norm = (OstinatoRMSNorm(size, self.qk_norm == "weight", config.norm_eps) for _ in range(2))

    def forward(self, x_BTD: Tensor, sight: Sight, index: int, window: int | None, value_BTKE: Tensor | None) -> Tensor:
        q_BTHE, k_BTKE, v_BTKE = (part(x_BTD).unflatten(-1, (-1, self.size)) for part in (self.q, self.k, self.v))
        v_BTKE = v_BTKE if value_BTKE is None else v_BTKE + value_BTKE
        if self.qk_norm == "weight":
            q_BTHE, k_BTKE = self.q_norm(q_BTHE), self.k_norm(k_BTKE)
        if sight.angles is not None:
            q_BTHE, k_BTKE = rotate(q_BTHE, *sight.angles), rotate(k_BTKE, *sight.angles)
        if self.qk_norm == "plain":
            q_BTHE, k_BTKE = self.q_norm(q_BTHE), self.k_norm(k_BTKE)
        q_BHTE, k_BKSE, v_BKSE = (part.to(v_BTKE.dtype).transpose(1, 2) for part in (q_BTHE, k_BTKE, v_BTKE))
        if (cache := sight.cache) is not None:
            if index in cache.slots:
                k_BKSE, v_BKSE = (torch.cat(pair, 2) for pair in zip(cache.slots[index], (k_BKSE, v_BKSE), strict=True))
            kept, seen = (0, 0) if window is None else (-window, -(window + q_BHTE.shape[2] - 1))
            cache.slots[index] = k_BKSE[:, :, kept:], v_BKSE[:, :, kept:]
            k_BKSE, v_BKSE = k_BKSE[:, :, seen:], v_BKSE[:, :, seen:]
        y_BTHE = sight.attend(q_BHTE, k_BKSE, v_BKSE, window).transpose(1, 2)
        if self.gated:
            y_BTHE = y_BTHE * torch.sigmoid(self.gate(x_BTD)).unflatten(-1, (y_BTHE.shape[2], -1))
        return self.o(y_BTHE.flatten(2))


def rotate(x_BTHE: Tensor, cos_BT1E: Tensor, sin_BT1E: Tensor) -> Tensor:
    """Channel i turns together with channel i + E/2; the sines of the first half are negative."""
    return x_BTHE * cos_BT1E + x_BTHE.roll(x_BTHE.shape[-1] // 2, -1) * sin_BT1E


class OstinatoGatedDelta(nn.Module):
    """Gated DeltaNet (Yang et al., arXiv 2412.06464): short convolutions, the gated delta rule, a gated norm of every head."""

    def __init__(self, config: OstinatoConfig):
        super().__init__()
        width, heads, inner = config.hidden_size, config.num_attention_heads, config.num_attention_heads * config.head_dim
        taps = self.taps = config.convolution_width
        self.heads = heads
        self.q, self.k, self.v, self.g = (nn.Linear(width, inner, bias=False) for _ in range(4))
        self.o = nn.Linear(inner, width, bias=False)
        self.a, self.b = nn.Linear(width, heads, bias=False), nn.Linear(width, heads, bias=False)
        self.A_log, self.dt_bias = nn.Parameter(torch.zeros(heads)), nn.Parameter(torch.zeros(heads))
        self.q_conv, self.k_conv, self.v_conv = (nn.Conv1d(inner, inner, taps, groups=inner, bias=False) for _ in range(3))
        self.o_norm = OstinatoRMSNorm(config.head_dim, True, config.norm_eps)

    def forward(self, x_BTD: Tensor, sight: Sight, index: int, *_: None) -> Tensor:
        """Without a window and without value embeddings."""
        length, cache = x_BTD.shape[1], sight.cache
        real_BT1 = sight.real_BS[:, -length:, None]
        inputs_BTC = torch.cat([part(x_BTD) for part in (self.q, self.k, self.v)], -1)
        inputs_BTC = inputs_BTC * real_BT1 if sight.padded else inputs_BTC
        before_BWC, state_BHEE = inputs_BTC.new_zeros(len(x_BTD), self.taps - 1, inputs_BTC.shape[2]), None
        if cache is not None and index in cache.slots:
            before_BWC, state_BHEE = cache.slots[index]
        inputs_BTC = torch.cat((before_BWC, inputs_BTC), 1)
        weight_C1W = torch.cat([part.weight for part in (self.q_conv, self.k_conv, self.v_conv)])
        mixed_BTC = F.silu(F.conv1d(exact(inputs_BTC).mT, exact(weight_C1W), groups=len(weight_C1W))).mT
        q_BHTE, k_BHTE, v_BHTE = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in mixed_BTC.chunk(3, -1))
        decay_BTH = -exact(self.A_log).exp() * F.softplus(exact(self.a(x_BTD)) + self.dt_bias)
        beta_BTH = exact(self.b(x_BTD)).sigmoid()
        if sight.padded:  # padding writes nothing and forgets nothing
            decay_BTH, beta_BTH = decay_BTH * real_BT1, beta_BTH * real_BT1
        y_BHTE, state_BHEE = gated_delta_rule(q_BHTE, k_BHTE, v_BHTE, decay_BTH.mT, beta_BTH.mT, state_BHEE)
        if cache is not None:
            cache.slots[index] = inputs_BTC[:, 1 - self.taps :], state_BHEE
        y_BTHE = self.o_norm(y_BHTE.transpose(1, 2)) * F.silu(self.g(x_BTD)).unflatten(-1, (self.heads, -1))
        return self.o(y_BTHE.flatten(2).to(x_BTD.dtype))


def gated_delta_rule(q_BHTE: Tensor, k_BHTE: Tensor, v_BHTE: Tensor, g_BHT: Tensor, beta_BHT: Tensor,
                     state_BHEE: Tensor | None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """S_t = exp(g_t) S_{t-1} (I - β_t k_t k_tᵀ) + β_t v_t k_tᵀ, o_t = S_t q_t, a chunk at a time (section 3.3 of the paper).

    Within a chunk the corrections U that tokens write solve (I + M) U = β∘(V − e∘K S), M_ij = β_i exp(g_{j+1} + … + g_i) k_i·k_j for
    j < i, e_i = exp(g_1 + … + g_i).  The state is [B, H, key, value], float32 or better.
    """
    length = q_BHTE.shape[2]
    size = min(CHUNK, length)
    beyond = -length % size  # zeros behind the end: nothing is written, nothing forgotten
    q, k, v = (F.pad(exact(part), (0, 0, 0, beyond)).unflatten(2, (-1, size)) for part in (q_BHTE, k_BHTE, v_BHTE))
    sums, beta = (F.pad(part, (0, beyond)).unflatten(2, (-1, size)) for part in (g_BHT.double(), beta_BHT))
    q, k = (part * (part.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for part in (q, k))
    q, sums, beta = q * q.shape[-1] ** -0.5, sums.cumsum(-1), beta[..., None]
    later = torch.ones(size, size, dtype=torch.bool, device=q.device).triu(1)
    between = (sums[..., :, None] - sums[..., None, :]).masked_fill(later, float("-inf")).exp().to(q.dtype)
    since, left = sums.exp().to(q.dtype)[..., None], (sums[..., -1:] - sums).exp().to(q.dtype)[..., None]
    written = torch.cat((beta * v, beta * since * k), -1)
    solved = torch.linalg.solve_triangular(beta * between * (k @ k.mT), written, upper=False, unitriangular=True)
    value, seen = solved.chunk(2, -1)
    within = (q @ k.mT) * between
    state = q.new_zeros(*q.shape[:2], q.shape[-1], q.shape[-1]) if state_BHEE is None else state_BHEE.to(q.dtype)
    outputs = []
    for n in range(q.shape[2]):
        update = value[:, :, n] - seen[:, :, n] @ state
        outputs.append(since[:, :, n] * q[:, :, n] @ state + within[:, :, n] @ update)
        state = since[:, :, n, -1:] * state + (left[:, :, n] * k[:, :, n]).mT @ update
    return torch.cat(outputs, 2)[:, :, :length], state


class OstinatoMLP(nn.Module):
    """swiglu: down(silu(gate x) · up x); relu2: down(relu(up x)²)."""

    def __init__(self, config: OstinatoConfig):
        super().__init__()
        if config.mlp == "swiglu":
            self.gate = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x_BTD)) * self.up(x_BTD) if hasattr(self, "gate") else F.relu(self.up(x_BTD)).square())


@dataclass
class Application:
    """One use of a layer: the modules that run, None where a part does not, and what it does beside them.

    attn, mlp: of the layer or of the one they are taken from.  values: the table of value embeddings.  scales: of x and x0.
    """

    index: int
    adds: bool
    injects: bool
    window: int | None
    attn: nn.Module | None
    mlp: nn.Module | None
    values: nn.Module | None
    pass_norm: nn.Module | None
    scales: tuple[Tensor, Tensor] | None


class OstinatoLayer(nn.Module):
    """What is a layer's own: norms, a value gate, an injection, and the sublayers that are not taken from another layer."""

    def __init__(self, config: OstinatoConfig, number: int):
        super().__init__()
        width, norm, layer = config.hidden_size, (config.norm_weight, config.norm_eps), config.layers[number - 1]
        self.attn_norm, self.mlp_norm = OstinatoRMSNorm(width, *norm), OstinatoRMSNorm(width, *norm)
        if layer["values"]:
            self.value_gate = nn.Linear(config.gate_channels, config.num_key_value_heads, bias=False)
        if layer["attn"] == number:
            self.attn = OstinatoGatedDelta(config) if layer["kind"] == "gdn" else OstinatoAttention(config)
        if layer["mlp"] == number:
            self.mlp = OstinatoMLP(config)
        if layer["begins"] and config.inject == "linear":
            self.inject = nn.Linear(2 * width, width, bias=False)
        if layer["begins"] and config.pass_norm:
            self.pass_norm = OstinatoRMSNorm(width, *norm)

    def forward(self, x_BTD: Tensor, e_BTD: Tensor, sight: Sight, application: Application) -> Tensor:
        """The stream after one application.  e_BTD: the stream where its repeated group began."""
        if application.adds:
            x_BTD = x_BTD + sight.x0_BTD
        if application.injects:
            x_BTD = self.inject(torch.cat((e_BTD, x_BTD), -1))
        if application.scales is not None:
            x_BTD = application.scales[0] * x_BTD + application.scales[1] * sight.x0_BTD
        if application.attn is not None:
            normed_BTD, value_BTKE = self.attn_norm(x_BTD), None
            if application.values is not None:
                gate_BTK = 2 * torch.sigmoid(self.value_gate(normed_BTD[..., : self.value_gate.in_features]))
                value_BTKE = gate_BTK[..., None] * application.values(sight.tokens_BT).unflatten(-1, (gate_BTK.shape[-1], -1))
            x_BTD = x_BTD + application.attn(normed_BTD, sight, application.index, application.window, value_BTKE)
        if application.mlp is not None:
            x_BTD = x_BTD + application.mlp(self.mlp_norm(x_BTD))
        return x_BTD if application.pass_norm is None else application.pass_norm(x_BTD)


def exact(x: Tensor) -> Tensor:
    """In float32 or better."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), … for n heads, n a power of two; for others those of the power below, then every other one of twice it."""
    whole = 1 << (heads.bit_length() - 1)
    return [2 ** (-8 * (i + 1) / whole) for i in range(whole)] + [2 ** (-4 * (2 * i + 1) / whole) for i in range(heads - whole)]


def bigram_rows(before_BT: Tensor, tokens_BT: Tensor, rows: int) -> Tensor:
    """The row of every pair: the fifth power of a line, in the field of 2³¹ − 1 elements."""
    prime = 2**31 - 1
    hashed_BT = (1_640_531_527 * before_BT + 839_872_933 * tokens_BT + 374_761_393) % prime
    square_BT = hashed_BT * hashed_BT % prime
    return square_BT * square_BT % prime * hashed_BT % prime % rows


def mixed(word: Tensor) -> Tensor:
    """A permutation of the numbers below 2³², held in int64."""
    word = ((word >> 16) ^ word) * 0x21F0AAAD % 2**32
    word = ((word >> 15) ^ word) * 0x735A2D97 % 2**32
    return (word >> 15) ^ word
