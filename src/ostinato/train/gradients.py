"""Where the gradient of a step comes from: of each parameter, of each application of a shared one, and along the stream.

A layer that runs several times gets the sum of its applications' gradients, and training sees the sum alone. To see the parts, the first
rows of the step's batch go through once more, with `aliases`: modules as the decoder's own, except that each application has leaves of its
own over the same memory. With a for applications, x_a for the stream after one and v for random numbers of the shape of the last stream,

    G = Σ_a G_a        kept as the products <G_a, G_b> of every parameter: shares <G_a, G> / ‖G‖² (they add up to 1) and cosines follow
    ∂loss/∂x_a         the gradient that reaches an application
    ‖vᵀJ‖ / ‖v‖        J = ∂x_A/∂x_a, the product of all later Jacobians: for v of independent normal numbers about the root mean square
                       of its singular values, ‖J‖_F / √n (Hutchinson 1990); do gradients grow or vanish on their way back?

Nothing of it touches training: no `.grad` is written, no random state moved, and the norms of the step's own gradient are read before
it is clipped. How many steps are looked at and how many rows decides what it costs: under 2% (benchmarks/gradients.py, decision 0178).
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ostinato.analysis.gradients import course
from ostinato.errors import TrainingError
from ostinato.measure.halving import halving
from ostinato.model.application import Parts
from ostinato.model.decoder import Decoder
from ostinato.model.init import unit_noise
from ostinato.store.gradients import gradients_table
from ostinato.train.step import MicroBatch
from ostinato.train.trainer import StepRecord, Trainer

SHARE = 4
"""One row in so many of a step goes through once more, and at most as many as go through the model at once."""
Leaves = dict[str, dict[int, Tensor]]
"""{parameter: {application: its alias there}}."""

log = logging.getLogger("ostinato")


@dataclass(frozen=True)
class Backward:
    """What goes back through the applications of one micro-batch.

    gradients: {parameter: {application: gradient of nats per target}}, of parameters that applications use.  loss: root mean square over
    targets of the gradient of the summed nats, growth: ‖vᵀJ‖ / ‖v‖, each at the stream before the first application and after every one.
    """

    gradients: dict[str, dict[int, Tensor]]
    loss: list[float]
    growth: list[float]


def aliases(decoder: Decoder) -> tuple[list[Parts], Leaves]:
    """The parts of every application with leaves of its own, which share the memory of the decoder's parameters."""
    names = {parameter: name for name, parameter in decoder.named_parameters()}
    leaves: Leaves = {}

    def alias(module: nn.Module | None, application: int) -> nn.Module | None:
        if module is None:
            return None
        twin = copy.copy(module)
        twin._parameters = {key: own if own is None else leaf(own, application) for key, own in module._parameters.items()}
        twin._modules = {key: alias(inner, application) for key, inner in module._modules.items()}
        return twin

    def leaf(parameter: nn.Parameter, application: int) -> Tensor:
        found = leaves.setdefault(names[parameter], {})
        if application not in found:
            found[application] = nn.Parameter(parameter.detach())
        return found[application]

    parts = []
    for index, own in enumerate(decoder.parts):
        modules = {name: alias(getattr(own, name), index) for name in ("layer", "attn", "mlp", "values", "pass_norm")}
        parts.append(replace(own, **modules))
    return parts, leaves


def backward(decoder: Decoder, batch: MicroBatch, seed: int = 1, name: str = "gradients") -> Backward:
    """Send a micro-batch through, and back.  seed, name: of v.  The decoder is as before, and runs as one that is not compiled."""
    parts, leaves = aliases(decoder)
    own = [(name, index, leaf) for name, by_index in leaves.items() for index, leaf in by_index.items()]
    scalars = [(name, getattr(decoder, name)) for name in ("residual_scale", "x0_scale") if hasattr(decoder, name)]
    streams: list[Tensor] = []
    compiled, decoder.compiled = decoder.compiled, None
    try:
        nats_BT = decoder.losses(batch.tokens_BT, batch.targets_BT, batch.documents_BT, batch.keys_B2, parts=parts,
                                 watch=lambda application, x_BTD: streams.append(x_BTD))  # fmt: skip
        counted = batch.counted
        wanted = [*(leaf for _, _, leaf in own), *(scalar for _, scalar in scalars), *streams]
        found = _gradients(nats_BT.sum() / counted, wanted, None)
        v_BTD = torch.from_numpy(unit_noise(seed, name, streams[-1].shape)).to(streams[-1])
        back = _norms(_gradients(streams[-1], streams, v_BTD))
    finally:
        decoder.compiled = compiled
    gradients: dict[str, dict[int, Tensor]] = {}
    for (parameter, index, _), gradient in zip(own, found, strict=False):
        if gradient is not None:
            gradients.setdefault(parameter, {})[index] = gradient
    for (scalar, _), gradient_A in zip(scalars, found[len(own) :], strict=False):
        gradients |= {f"{scalar}[{index}]": {index: gradient} for index, gradient in enumerate(gradient_A)}
    loss = [norm * math.sqrt(counted) for norm in _norms(found[-len(streams) :])]
    return Backward(gradients, loss, [norm / back[-1] for norm in back])


def _gradients(of: Tensor, wanted: Sequence[Tensor], v: Tensor | None) -> list[Tensor | None]:
    """None for what nothing depends on, and for the stream of a pass without gradient."""
    found = iter(torch.autograd.grad(of, [one for one in wanted if one.requires_grad], v, retain_graph=True, allow_unused=True))
    return [next(found) if one.requires_grad else None for one in wanted]


def _norms(tensors: Sequence[Tensor | None]) -> list[float]:
    """Of each, in float64; 0 for what nothing depends on."""
    return [0.0 if tensor is None else float(torch.linalg.vector_norm(tensor, dtype=torch.float64)) for tensor in tensors]


def products(gradients: dict[int, Tensor]) -> tuple[list[int], list[float]]:
    """The applications, and the products of their gradients in float64: row by row below the diagonal, with it."""
    flat_AN = torch.stack([gradient.flatten() for gradient in gradients.values()]).double()
    dots_AA = (flat_AN @ flat_AN.T).tolist()
    return list(gradients), [dot for row, dots in enumerate(dots_AA) for dot in dots[: row + 1]]


class Gradients:
    """Looks at some of a trainer's steps: the first, and every `every`-th (0: none).

    Where memory does not suffice for one row more, the norms of the step's own gradient are all there is: a run does not fail for it.
    """

    def __init__(self, trainer: Trainer, every: int):
        self.trainer, self.every = trainer, every
        self.rows = max(1, min(trainer.rows_at_once, trainer.steps.rows // SHARE))

    def of(self, step: Callable[[], StepRecord]) -> tuple[StepRecord, dict[str, Any] | None]:
        """Take the trainer's next step by `step`; what its gradient was (store/gradients.py), None of a step that is not looked at."""
        trainer, number = self.trainer, self.trainer.step_number + 1
        if not self.every or (number != 1 and number % self.every):
            return step(), None
        found, norms = self._by_application(), {}
        trainer.look = lambda: norms.update(_by_parameter(trainer.decoder))
        try:
            record = step()
        finally:
            trainer.look = None
        return record, {"step": record.step, "tokens": record.tokens, **found, "norms": norms}

    def _by_application(self) -> dict[str, Any]:
        """Of the first rows of the next step, which is not begun."""
        trainer, began, number = self.trainer, time.perf_counter(), self.trainer.step_number + 1
        labels = [[one.layer, one.part, one.pass_] for one in trainer.decoder.applications]
        nothing = {"targets": 0, "seconds": 0.0, "applications": labels, "dots": {}, "loss": [], "growth": []}

        def look(rows: int) -> dict[str, Any]:
            batch = trainer.batches.first(trainer.step_number, rows)
            if not batch.counted:
                return nothing
            found = backward(trainer.decoder, batch, trainer.seed, f"gradients {number}")
            dots = {name: products(by_index) for name, by_index in found.gradients.items()}
            return nothing | {"targets": batch.counted, "dots": dots, "loss": found.loss, "growth": found.growth}

        if not self.rows:
            return nothing
        try:
            found, self.rows = halving(self.rows, look, trainer.machine.device, f"gradients at step {number}", "")
        except TrainingError as error:
            log.warning("%s; gradients by application are not measured any more", error.what)
            self.rows = 0
            return nothing
        return found | {"seconds": time.perf_counter() - began}


def curves(record: Mapping[str, Any] | None) -> dict[str, float]:
    """Of what `Gradients.of` found, the scalars that trackers draw: shares and cosines of a shared weight's uses, and the growth over all
    applications (analysis/gradients.py)."""
    if record is None:
        return {}
    (looked,) = course(gradients_table([record]))
    found = {f"gradients/share_{use}": share for use, share in enumerate(looked.shares, 1)}
    found |= {f"gradients/cosine_{one + 1}_{other + 1}": cosine for (one, other), cosine in looked.cosines.items()}
    return found | ({"gradients/growth": looked.growth[0]} if looked.growth else {})


def _by_parameter(decoder: Decoder) -> dict[str, float]:
    """The norm of every gradient as it stands."""
    named = {name: parameter.grad for name, parameter in decoder.named_parameters() if parameter.grad is not None}
    return dict(zip(named, torch.stack(torch._foreach_norm(list(named.values()))).tolist(), strict=True))
