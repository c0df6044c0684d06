"""Any causal language model of transformers as a Subject: its layers, its final norm and its head are found by watching one forward pass.

An application is one call of a layer, in the order in which they come, so a model that loops its layers has more applications than layers.
What was found is believed only when it gives the model's own logits:

    logits = cap · tanh(z / cap) · scale,   z = head(norm x),   x the stream after the last application

(cap and scale where the configuration names them). Where it does not, losses can be measured and what needs the stream is refused.

Shapes, as suffixes of names: B rows, T tokens, D width of the stream, V vocabulary.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ostinato.errors import OstinatoError
from ostinato.measure.context import Unfit
from ostinato.measure.subject import Label, Watch

PROBE = 12
"""Tokens of the forward pass that is watched."""
TOLERANCE = 1e-4
"""Of logits put together from the parts that were found, relative to the largest logit."""
MOST_LOGITS = 1 << 27
"""At once: 512 MiB in float32."""
_FIX = "measure what needs no stream: losses (--study), --only pairs"


@dataclass(frozen=True)
class Parts:
    """The layers, each once; which of them each application is of; and what follows the last.  norm: None where none does."""

    layers: tuple[nn.Module, ...]
    order: tuple[int, ...]
    norm: nn.Module | None
    head: nn.Module
    cap: float | None
    scale: float


@dataclass
class _Call:
    """One call of a module in the watched pass: the stream that it took and the one that it gave."""

    module: nn.Module
    given: Tensor | None
    made: Tensor | None


class Foreign:
    """A causal language model of transformers, in evaluation mode, as a Subject.

    bos: what a text begins with.  context: the most tokens of a window (None: as many as fit).
    Raises OstinatoError for a model that is not causal.
    """

    def __init__(self, model: nn.Module, name: str, bos: int | None):
        self.model, self.name, self.bos = model.eval(), name, bos
        self.device = next(model.parameters()).device
        config = model.config.get_text_config()
        self.context: int | None = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
        self.parts: Parts | None = None
        self.problem: Unfit | None = None
        with torch.no_grad():
            calls, logits_BTV = _watched(model, self._probe())
            self.vocab = logits_BTV.shape[-1]
            self._refuse_not_causal(logits_BTV)
            try:
                self.parts = _found(model, calls, logits_BTV, name)
            except Unfit as error:
                self.problem = error
        order = self.parts.order if self.parts else ()
        self.labels = tuple(Label(index, layer + 1, "both", order[: index + 1].count(layer)) for index, layer in enumerate(order))

    def losses(self, tokens_BT: Tensor, targets_BT: Tensor, documents_BT: Tensor | None = None) -> Tensor:
        """As Subject has it. Raises OstinatoError for a document mask and for more tokens than the model has positions."""
        self._refuse(tokens_BT, documents_BT)
        rows, found = max(1, MOST_LOGITS // (tokens_BT.shape[1] * self.vocab)), []
        for part_BT, wanted_BT in zip(tokens_BT.split(rows), targets_BT.split(rows), strict=True):
            logits_BVT = _run(self.model, part_BT).transpose(1, 2)
            found.append(F.cross_entropy(logits_BVT, wanted_BT, ignore_index=-1, reduction="none").double())
        return torch.cat(found)

    def hidden(self, tokens_BT: Tensor, documents_BT: Tensor | None = None, *, skip: frozenset[int] = frozenset(),
               watch: Watch | None = None) -> Tensor:  # fmt: skip
        """As Subject has it: a skipped layer hands on the stream that it was given. Raises as `losses`, and where no stream was found."""
        self._refuse(tokens_BT, documents_BT)
        parts, calls, last = self._stream(), 0, tokens_BT

        def before(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            if watch is not None and calls == 0:
                watch(None, _stream_of(args, kwargs))

        def after(module: nn.Module, args: tuple, kwargs: dict[str, Any], made: Any) -> Any:
            nonlocal calls, last
            index, calls = calls, calls + 1
            last = _stream_of(args, kwargs) if index in skip else _first(made)
            if watch is not None:
                watch(index, last)
            return None if index not in skip else (last, *made[1:]) if isinstance(made, tuple) else last

        with contextlib.ExitStack() as hooks:
            for layer in parts.layers:
                hooks.callback(layer.register_forward_pre_hook(before, with_kwargs=True).remove)
                hooks.callback(layer.register_forward_hook(after, with_kwargs=True).remove)
            _run(self.model, tokens_BT, logits=1)
        return parts.norm(last) if parts.norm is not None else last

    def readout(self, x_BTD: Tensor) -> Tensor:
        """As Subject has it."""
        return _readout(self._stream(), x_BTD)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Of the model."""
        return self.model.parameters()

    def _stream(self) -> Parts:
        if self.parts is None:
            raise self.problem
        return self.parts

    def _probe(self) -> Tensor:
        length = min(PROBE, self.context or PROBE)
        return torch.arange(3, 3 + length, device=self.device)[None] % self.model.get_input_embeddings().num_embeddings

    def _refuse(self, tokens_BT: Tensor, documents_BT: Tensor | None) -> None:
        if documents_BT is not None:
            raise OstinatoError(f"a document mask for {self.name}", "models of transformers are measured without one",
                                "set evaluate: {windows: documents}, which need none")  # fmt: skip
        if self.context is not None and tokens_BT.shape[1] > self.context:
            raise OstinatoError(f"windows of {tokens_BT.shape[1]:,} tokens for {self.name}", f"it has {self.context:,} positions",
                                f"set evaluate: {{context: {self.context}}} or less")  # fmt: skip

    def _refuse_not_causal(self, logits_BTV: Tensor) -> None:
        changed_BT = self._probe().clone()
        changed_BT[:, -1] = changed_BT[:, 0]
        other_BTV = _run(self.model, changed_BT)
        if not torch.allclose(other_BTV[:, :-1], logits_BTV[:, :-1], atol=TOLERANCE * float(logits_BTV.abs().max()), rtol=0):
            raise OstinatoError(f"{self.name} sees tokens that come later", "a causal language model predicts each token from those before",
                                "name a model that was trained to predict the next token")  # fmt: skip


def _run(model: nn.Module, tokens_BT: Tensor, logits: int = 0) -> Tensor:
    """Logits [B, T, V], float32 or better.  logits: of so many positions from the end alone, where the model can; 0: of all."""
    found = model(input_ids=tokens_BT, attention_mask=torch.ones_like(tokens_BT), use_cache=False,
                  **({"logits_to_keep": logits} if logits and _keeps(model) else {})).logits  # fmt: skip
    return found.to(torch.promote_types(found.dtype, torch.float32))


def _keeps(model: nn.Module) -> bool:
    return "logits_to_keep" in model.forward.__code__.co_varnames if hasattr(model.forward, "__code__") else False


def _watched(model: nn.Module, tokens_BT: Tensor) -> tuple[list[_Call], Tensor]:
    """Every call of every module in one pass, in the order in which they end, and the logits."""
    calls: list[_Call] = []

    def note(module: nn.Module, args: tuple, kwargs: dict[str, Any], made: Any) -> None:
        calls.append(_Call(module, _stream_of(args, kwargs), _first(made)))

    with contextlib.ExitStack() as hooks:
        for module in model.modules():
            if module is not model and not isinstance(module, (nn.ModuleList, nn.ModuleDict)):
                hooks.callback(module.register_forward_hook(note, with_kwargs=True).remove)
        return calls, _run(model, tokens_BT)


def _found(model: nn.Module, calls: list[_Call], logits_BTV: Tensor, name: str) -> Parts:
    """What carries the stream. Raises Unfit when it is not found, or does not give these logits."""
    config = model.config.get_text_config()
    head = model.get_output_embeddings()
    ends = [call for call in calls if call.module is head]
    if len(ends) != 1 or ends[0].given is None:
        raise Unfit(f"{name} has no head that is called once", "a stream is read out by the model's own head", _FIX)
    holder, order = _layers(model, calls, ends[0].given.shape)
    if not order:
        raise Unfit(f"the layers of {name} were not found", "layers stand in one list, and each takes the stream and gives it on",
                    _FIX)  # fmt: skip
    last = next(call for call in reversed(calls) if call.module is holder[order[-1]])
    norm = None
    if not _same(last.made, ends[0].given):
        norms = [call for call in calls if _same(call.given, last.made) and _same(call.made, ends[0].given)]
        if not norms:
            raise Unfit(f"the final norm of {name} was not found", "one module stands between the last layer and the head", _FIX)
        norm = norms[-1].module
    scale = float(getattr(config, "logit_scale", None) or 1.0) / float(getattr(config, "logits_scaling", None) or 1.0)
    parts = Parts(holder, order, norm, head, getattr(config, "final_logit_softcapping", None), scale)
    off = float((_readout(parts, last.made) - logits_BTV).abs().max()) / max(1e-9, float(logits_BTV.abs().max()))
    if not off <= TOLERANCE:
        raise Unfit(f"the final norm and head of {name} give logits that are off by {off:.2g} of the largest",
                            "what reads the stream gives the model's own logits", _FIX)  # fmt: skip
    return parts


def _layers(model: nn.Module, calls: list[_Call], shape: torch.Size) -> tuple[tuple[nn.Module, ...], tuple[int, ...]]:
    """The members, each once, of the list that passes on a stream of this shape most often, and which of them each call is of.

    Empty when there is no such list."""
    best: tuple[tuple[nn.Module, ...], tuple[int, ...]] = ((), ())
    for module in model.modules():
        if not isinstance(module, (nn.ModuleList, nn.ModuleDict)):
            continue
        members = tuple(dict.fromkeys(module.values() if isinstance(module, nn.ModuleDict) else module))
        places = {member: place for place, member in enumerate(members)}
        mine = [call for call in calls if call.module in places]
        streams = all(x is not None and x.shape == shape for call in mine for x in (call.given, call.made))
        if mine and streams and len(mine) > len(best[1]):
            best = members, tuple(places[call.module] for call in mine)
    return best


def _readout(parts: Parts, x_BTD: Tensor) -> Tensor:
    z_BTV = parts.head(x_BTD if parts.norm is None else parts.norm(x_BTD))
    z_BTV = z_BTV.to(torch.promote_types(z_BTV.dtype, torch.float32))
    if parts.cap is not None:
        z_BTV = parts.cap * torch.tanh(z_BTV / parts.cap)
    return z_BTV * parts.scale


def _first(made: Any) -> Tensor | None:
    found = made[0] if isinstance(made, (tuple, list)) and made else made
    return found if isinstance(found, Tensor) else None


def _stream_of(args: tuple, kwargs: dict[str, Any]) -> Tensor | None:
    return _first(args[0] if args else kwargs.get("hidden_states"))


def _same(x: Tensor | None, y: Tensor | None) -> bool:
    return x is not None and y is not None and x.shape == y.shape and torch.equal(x, y)
