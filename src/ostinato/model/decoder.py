"""The decoder: one embedding, a walk over the applications of a schedule, one head. Read from top to bottom.

Shapes, as suffixes of names:
    B rows   T tokens of a row   D d_model   H query heads   K key-value heads   E head_dim   S keys   C = K·E   V vocabulary
    A applications   N residual streams: where a model has several, its stream x_BTD is [B, T, N, D] between embedding and final norm

    x = x0 = embedding[tokens] (+ bigram row) (+ position row) (normed); N copies of it, of hyper-connections (streams.py)
    for every application:
        e = x; x = noise                     where a repeated group begins: e, if it injects linearly; h0, if that is noise
        x = application(x, x0, e)            application.py: injection, scalars, attention, MLP, pass norm;
                                             without gradient in the first passes, if backpropagation is truncated (study/truncation.py)
    logits = softcap(head(norm x)), of the mean of the streams

attn: o(σ(gate x) · attention), if the model gates attention (attention.py). Repeated groups: schedule/groups.py; their W and norm
belong to the layer that a pass begins with. Noise: noise.py.
The stream x stays in the dtype of the weights; products run in `compute_dtype`; logits are float32 or better.
A tied sublayer has no parameters: the layer that runs looks the sublayer up at its source and brings its own norm, window,
value table and gate. Parameter names are those of ledger/inventory.py; layers are numbered from 1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ostinato.errors import OstinatoError
from ostinato.ledger.inventory import CONVOLUTION_WIDTH
from ostinato.model.application import Parts, Side, apply
from ostinato.model.attention import Attention
from ostinato.model.cache import Cache, DeltaSlot, Slot
from ostinato.model.compiled import Compiled
from ostinato.model.delta_rule import DeltaBackend
from ostinato.model.delta_rule import choose as choose_delta
from ostinato.model.embeddings import bigram_rows
from ostinato.model.gdn import GatedDeltaNet
from ostinato.model.head import logits, nats, softmax
from ostinato.model.init import initialise
from ostinato.model.linear import Linear, Table, unset
from ostinato.model.masks import Backend, Masks
from ostinato.model.mlp import MLPS
from ostinato.model.noise import fixed_key, normal
from ostinato.model.norm import RMSNorm, rms_norm
from ostinato.model.positions import rotation
from ostinato.model.spans import Spans
from ostinato.model.streams import Connections
from ostinato.schedule import Application, RepeatedGroup
from ostinato.study.derive import (
    GATE_CHANNELS,
    arm_applications,
    draws_h0,
    h0_std,
    has_value_table,
    head_dim,
    kv_heads,
    layer_window,
    model_hidden,
    pass_groups,
    tied_to,
)
from ostinato.study.records import Model
from ostinato.study.truncation import without_gradient

Watch = Callable[[Application | None, Tensor], None]
"""Sees the stream, [B, T, D] or [B, T, N, D], before the first application (None) and after each."""
log = logging.getLogger("ostinato")


class Layer(nn.Module):
    """The parameters of one layer that are its own: norms, a value gate, an injection, the sublayers that are not tied elsewhere."""

    def __init__(self, model: Model, layer: int, tied: dict[tuple[int, str], int], delta_backend: DeltaBackend):
        super().__init__()
        width, eps, heads = model.d_model, model.norm.eps, kv_heads(model)
        self.attn_norm = RMSNorm(width, model.norm.weight, eps)
        self.mlp_norm = RMSNorm(width, model.norm.weight, eps)
        several = (model.streams, width, model.norm.weight, eps) if model.streams > 1 else None
        self.attn_streams, self.mlp_streams = (Connections(*several) if several else None for _ in range(2))
        if has_value_table(model, layer):
            self.value_gate = Linear(GATE_CHANNELS, heads)
        if (layer, "attn") in tied:
            pass
        elif model.layers[layer - 1] == "gdn":
            self.attn = GatedDeltaNet(width, model.heads, head_dim(model), CONVOLUTION_WIDTH, eps, delta_backend)
        else:
            self.attn = Attention(width, model.heads, heads, head_dim(model), model.qk_norm, eps, model.attn_gate)
        if (layer, "mlp") not in tied:
            self.mlp = MLPS[model.mlp.kind](width, model_hidden(model))
        if any(group.layer == layer for group in pass_groups(model)):
            if model.inject == "linear":
                self.inject = Linear(2 * width, width)
            if model.pass_norm:
                self.pass_norm = RMSNorm(width, model.norm.weight, eps)


class Decoder(nn.Module):
    """A language model that applies its layers in the order of its schedule.  `build` makes one with its initial weights.

    vocab: rows of the embedding.  context: the most positions of learned positions, and the meaning of a whole window.
    bos: what an empty prompt begins with.  compute_dtype: of the products (None: that of the weights).
    backend: of attention, see masks.py.  delta_backend: of the gated delta rule, see delta_rule.py.
    compiled: train through torch.compile, one graph a kind of application, see compiled.py.
    activation_checkpointing: keep only the input of every application but the last for the backward pass; results do not change.
    Raises OstinatoError for a shape that cannot run.
    """

    def __init__(self, model: Model, vocab: int, context: int, bos: int | None = None, *, compute_dtype: torch.dtype | None = None,
                 backend: Backend = "auto", delta_backend: DeltaBackend = "auto", compiled: bool = False):  # fmt: skip
        super().__init__()
        _refuse(model)
        self.model, self.vocab, self.context, self.bos = model, vocab, context, bos
        self.compute_dtype, self.backend, self.delta_backend = compute_dtype, backend, delta_backend
        self.activation_checkpointing = False
        numbers, applications = range(1, len(model.layers) + 1), arm_applications(model)
        self.draws = draws_h0(model)
        windows = {i: layer_window(model, i, context) for i in numbers}
        self.windows = {i: None if window >= context else window for i, window in windows.items()}
        self.source = {(i, part): i for i in numbers for part in ("attn", "mlp")} | tied_to(model)

        width, channels = model.d_model, kv_heads(model) * head_dim(model)
        self.embedding = Table(vocab, width)
        if model.positions == "learned":
            self.positions = Table(context, width)
        if model.bigram_table:
            self.bigram = Table(model.bigram_table, width)
        self.value_tables = nn.ModuleDict({str(i): Table(vocab, channels) for i in numbers if has_value_table(model, i)})
        self.layers = nn.ModuleDict({str(i): Layer(model, i, tied_to(model), delta_backend) for i in numbers})
        self.final_norm = RMSNorm(width, model.norm.weight, model.norm.eps)
        if model.application_scalars:
            self.residual_scale = unset(len(applications))
            self.x0_scale = unset(len(applications))
        if not model.tie_embeddings:
            self.head = Linear(width, vocab)

        self.arrange(applications, pass_groups(model))
        self._logged = False
        self._kept: tuple[object, tuple] | None = None
        self.compiled = Compiled() if compiled else None

    def arrange(self, applications: tuple[Application, ...], groups: tuple[RepeatedGroup, ...]) -> None:
        """Walk along these applications.  groups: where something depends on the pass."""
        self.applications, linear = applications, self.model.inject == "linear"
        self.enters = {group.first: place for place, group in enumerate(groups)} if linear else {}
        self.begins = {index for group in groups for index in group.begins} if linear else set()
        self.ends = {index: str(group.layer) for group in groups for index in group.ends} if self.model.pass_norm else {}
        self.without_gradient = without_gradient(self.model, groups)
        self.parts = tuple(self._parts(application) for application in applications)

    # ---- forward, in the order in which it happens

    def forward(self, tokens_BT: Tensor, *, documents_BT: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """Logits [B, T, V], float32 or better.

        tokens_BT: int64.  documents_BT: document of every position, attention stays within it (None: no such mask).
        cache: what earlier calls left; tokens_BT then continues it, and it is extended.
        """
        return self.logits(self.hidden(tokens_BT, documents_BT=documents_BT, cache=cache))

    def losses(self, tokens_BT: Tensor, targets_BT: Tensor, documents_BT: Tensor | None = None, keys_B2: Tensor | None = None, *,
               parts: Sequence[Parts] | None = None, watch: Watch | None = None) -> Tensor:  # fmt: skip
        """Nats of every target, float64 [B, T], 0 where the target is -1 (not counted).

        keys_B2: of the noise of every row in a training step (noise.row_keys); None: the fixed noise of measuring.
        parts, watch: as in `hidden`.
        """
        x_BTD = self.hidden(tokens_BT, documents_BT=documents_BT, keys_B2=keys_B2, parts=parts, watch=watch)
        between = self._compile(softmax, "head") if x_BTD.is_cuda else softmax  # on a CPU its passes are faster one by one (0138)
        nats_N = nats(x_BTD.flatten(0, 1), self.head_VD, targets_BT.flatten(), softcap=self.model.softcap,
                      product_dtype=self.product_dtype, between=between)  # fmt: skip
        return nats_N.view(targets_BT.shape)

    def hidden(self, tokens_BT: Tensor, *, documents_BT: Tensor | None = None, cache: Cache | None = None,
               keys_B2: Tensor | None = None, parts: Sequence[Parts] | None = None, watch: Watch | None = None) -> Tensor:  # fmt: skip
        """The stream after the final norm, [B, T, D].  keys_B2: as in `losses`.

        parts: what each application does, instead of the decoder's own `parts`.
        watch: called with the stream before the first application (None) and after each; it changes nothing.
        """
        noise = self._noise(tokens_BT, keys_B2, cache.tokens if cache else 0)
        sight = self._sight(tokens_BT, documents_BT, cache)
        x_BTD = self._walk(tokens_BT, documents_BT, sight, cache, noise, parts or self.parts, watch)
        if cache is not None:
            cache.tokens, cache.last_B = cache.tokens + tokens_BT.shape[1], tokens_BT[:, -1]
        return x_BTD

    def _walk(self, tokens_BT: Tensor, documents_BT: Tensor | None, sight: tuple, cache: Cache | None,
              noise: tuple[Tensor, ...], parts: Sequence[Parts], watch: Watch | None) -> Tensor:  # fmt: skip
        x0_BTD = self._embed(tokens_BT, documents_BT, cache)
        x_BTD = e_BTD = self._streams(x0_BTD)
        scales = tuple(zip(self.residual_scale, self.x0_scale, strict=True)) if self.model.application_scalars else ()
        side = Side(tokens_BT, x0_BTD, *sight, self.product_dtype)
        fla = "gdn" in self.model.layers and self._delta(tokens_BT.device)[0] == "fla"  # its function refuses to be traced
        checkpointing = self.activation_checkpointing and torch.is_grad_enabled()
        if watch is not None:
            watch(None, x_BTD)
        for application, own in zip(self.applications, parts, strict=True):
            if (group := self.enters.get(application.index)) is not None:
                e_BTD, x_BTD = x_BTD, self._streams(noise[group]) if self.draws else _view(x_BTD)
            scale, slot = scales[application.index] if scales else None, cache and cache.slots.get(application.index)
            whole = not (fla and isinstance(own.attn, GatedDeltaNet))
            one = partial(self._compile(apply, own.kind, whole), own, side, scale, slot, e_BTD)
            if application.index in self.without_gradient:
                with torch.no_grad():
                    x_BTD = one(x_BTD.detach())  # as in later ones, so that all of them are one graph
            elif checkpointing and own is not parts[-1]:  # the last would be computed again at once
                x_BTD = checkpoint(one, x_BTD, use_reentrant=False, preserve_rng_state=False)
            else:
                x_BTD = one(x_BTD)
            if watch is not None:
                watch(application, x_BTD)
        return self.final_norm(self.whole(x_BTD))

    def whole(self, x_BTD: Tensor) -> Tensor:
        """One stream [B, T, D], whatever the number of streams: their mean."""
        return x_BTD if self.model.streams == 1 else x_BTD.mean(-2)

    def _streams(self, x_BTD: Tensor) -> Tensor:
        """As many streams alike as the model has."""
        return _view(x_BTD) if self.model.streams == 1 else x_BTD.unsqueeze(-2).repeat(1, 1, self.model.streams, 1)

    def _delta(self, device: torch.device) -> tuple[str, str]:
        """How the gated delta rule is computed there, and why."""
        return choose_delta(self.delta_backend, device, head_dim(self.model))

    def _compile(self, function: Callable, kind: Hashable, whole: bool = True) -> Callable:
        """Compiled for training, if the model is compiled; measuring and generating run as they do in a model that is not."""
        return self.compiled.of(function, kind, whole) if self.compiled and torch.is_grad_enabled() else function

    def _embed(self, tokens_BT: Tensor, documents_BT: Tensor | None, cache: Cache | None) -> Tensor:
        model, start = self.model, cache.tokens if cache else 0
        x_BTD = self.embedding(tokens_BT)
        if model.bigram_table:
            x_BTD = x_BTD + self.bigram(bigram_rows(tokens_BT, cache and cache.last_B, documents_BT, self.vocab, model.bigram_table))
        if model.positions == "learned":
            x_BTD = x_BTD + self.positions.weight[start : start + tokens_BT.shape[1]]
        return rms_norm(x_BTD, model.norm.eps) if model.embedding_norm else x_BTD

    def logits(self, x_BTD: Tensor) -> Tensor:
        """The head on a normed stream, [B, T, V]."""
        return logits(x_BTD, self.head_VD, self.model.softcap, self.product_dtype)

    # ---- what the walk needs beside the tokens

    def _parts(self, application: Application) -> Parts:
        number, index, key = application.layer, application.index, str(application.layer)
        attn, mlp = (getattr(self.layers[str(self.source[number, part])], part) if runs else None
                     for part, runs in (("attn", application.attn), ("mlp", application.mlp)))  # fmt: skip
        owner = self.ends.get(index)
        return Parts(
            self.layers[key], attn, mlp, values=self.value_tables[key] if attn is not None and key in self.value_tables else None,
            pass_norm=None if owner is None else self.layers[owner].pass_norm, window=self.windows[number],
            adds=application.enters_pass and self.model.inject == "add", injects=index in self.begins,
        )  # fmt: skip

    @property
    def head_VD(self) -> Tensor:
        """The weight of the head: the embedding's, if they are tied."""
        return self.embedding.weight if self.model.tie_embeddings else self.head.weight

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights and the stream."""
        return self.embedding.weight.dtype

    @property
    def product_dtype(self) -> torch.dtype:
        """Of matrix products and attention."""
        return self.compute_dtype or self.dtype

    def cache(self) -> Cache:
        """An empty cache: one slot for every application with attention."""
        kinds = self.model.layers
        return Cache({a.index: DeltaSlot() if kinds[a.layer - 1] == "gdn" else Slot(self.windows[a.layer])
                      for a in self.applications if a.attn})  # fmt: skip

    def _noise(self, tokens_BT: Tensor, keys_B2: Tensor | None, start: int) -> tuple[Tensor, ...]:
        """h0 of every repeated group, [B, T, D] each; outside the compiled part, where it would be another function to its last digits."""
        if not self.draws:
            return ()
        (rows, length), std = tokens_BT.shape, h0_std(self.model)
        keys_B2 = (fixed_key() if keys_B2 is None else keys_B2).to(tokens_BT.device)
        drawn = [normal(keys_B2, group, start, length, self.model.d_model, torch.float64) for group in self.enters.values()]
        return tuple((std * noise_BTD).to(self.dtype).expand(rows, -1, -1) for noise_BTD in drawn)

    def _sight(self, tokens_BT: Tensor, documents_BT: Tensor | None,
               cache: Cache | None) -> tuple[Masks, tuple | None, Spans | None]:  # fmt: skip
        """Masks, rotary angles and documents' spans; those of a whole forward without documents are kept for the next one."""
        length, start, model, device = tokens_BT.shape[1], cache.tokens if cache else 0, self.model, tokens_BT.device
        if model.positions == "learned" and start + length > self.context:
            raise OstinatoError(f"{start + length} positions", f"this model has learned {self.context}",
                                "use shorter texts, or positions: rope, alibi or none")  # fmt: skip
        if cache is not None and documents_BT is not None:
            raise OstinatoError("a cache and a document mask at once", "a cache holds one document a row", "generate without documents")
        key = (length, device, self.dtype, self.product_dtype, torch.is_inference_mode_enabled())  # made there, autograd refuses them
        if cache is None and documents_BT is None and self._kept and self._kept[0] == key:
            return self._kept[1]
        masks = Masks(self.backend, queries=length, device=device, dtype=self.product_dtype, head_dim=head_dim(model),
                      documents_BT=documents_BT, alibi=model.heads if model.positions == "alibi" else 0)  # fmt: skip
        if cache is None:
            for window in self.attention_windows():  # here, so that none is made within a compiled or a repeated part
                masks.of(window, length)
        angles = None
        if model.positions == "rope":
            angles = rotation(torch.arange(start, start + length, device=device), model.heads, head_dim(model), model.rope_base, self.dtype)
        if not self._logged:
            names = {window or "the whole context": masks.choose(window, length) for window in self.attention_windows()}
            if names:
                log.info("attention on %s: %s", device, ", ".join(f"{name} for {window}" for window, name in names.items()))
            if "gdn" in model.layers:
                log.info("gated delta rule on %s: %s (%s)", device, *self._delta(device))
            self._logged = True
        if cache is None and documents_BT is None:
            self._kept = key, (masks, angles, None)
        spans = None
        if "gdn" in model.layers and documents_BT is not None:
            spans = Spans.of(documents_BT, CONVOLUTION_WIDTH, self.product_dtype)
        return masks, angles, spans

    def attention_windows(self) -> list[int | None]:
        """Each window once, in the order of the layers with attention."""
        return list(dict.fromkeys(window for i, window in self.windows.items() if self.model.layers[i - 1] != "gdn"))


def _view(x: Tensor) -> Tensor:
    """The same numbers as another tensor: a compiled graph is bound to which of its inputs are one and the same."""
    return x.view_as(x)


def build(model: Model, vocab: int, context: int, seed: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32,
          *, bos: int | None = None, compute_dtype: torch.dtype | None = None, backend: Backend = "auto",
          delta_backend: DeltaBackend = "auto", compiled: bool = False) -> Decoder:  # fmt: skip
    """A decoder with the initial weights of (model, seed); on the device "meta" one without weights, for `load_weights`."""
    with torch.device("meta"):
        decoder = Decoder(model, vocab, context, bos, compute_dtype=compute_dtype, backend=backend, delta_backend=delta_backend,
                          compiled=compiled).to(dtype)  # fmt: skip
    if str(device) == "meta":
        return decoder
    decoder = decoder.to_empty(device=device)
    initialise(decoder, seed)
    return decoder


def _refuse(model: Model) -> None:
    if model.positions == "rope" and "gqa" in model.layers and head_dim(model) % 2:
        raise OstinatoError(f"RoPE on heads of {head_dim(model)} channels", "RoPE turns channels in pairs",
                            "use an even head_dim, or positions: alibi, learned or none")  # fmt: skip
    if any(has_value_table(model, i) for i in range(1, len(model.layers) + 1)) and model.d_model < GATE_CHANNELS:
        raise OstinatoError(f"value embeddings at d_model {model.d_model}", f"their gate reads the first {GATE_CHANNELS} channels",
                            f"use d_model {GATE_CHANNELS} or more, or value_embeddings: none")  # fmt: skip
