"""Muon: momentum made orthogonal, for the matrices inside layers.

Jordan (2024), "Muon: an optimizer for hidden layers", with the additions of the published loop2 recipe: Nesterov
momentum, Polar Express, a second moment per row or column (as in NorMuon, arXiv 2510.05491) that keeps the norm of the
update, a rate scaled by sqrt(max(1, rows / columns)), and decoupled weight decay where the update and the weight agree
in sign (arXiv 2510.12402).

Matrices of one shape, rate and decay are updated in stacks: at width 64 the cost of a step is calls, not arithmetic. On a CPU a
stack is no larger than what stays in its cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter

from ostinato.study import records
from ostinato.train.groups import Group
from ostinato.train.polar import polar

CACHED = 1 << 20  # numbers of a stack on a CPU, which a step reads and writes some twenty times
SMALLEST = 1e-10  # of a second moment and of a norm that is divided by


@dataclass(frozen=True)
class Stack:
    """Matrices of one shape that share a rate and a decay, and their state.

    momentum: [n, rows, columns].  second: [n, rows, 1], or [n, 1, columns] when there are more columns than rows; None without one.
    """

    names: tuple[str, ...]
    weights: tuple[Parameter, ...]
    lr: float
    weight_decay: float
    momentum: Tensor
    second: Tensor | None


class Muon:
    """Updates named matrices in place. A matrix that got no gradient in a step is neither moved nor decayed in it."""

    def __init__(self, groups: Sequence[Group], settings: records.Muon):
        """Every tensor of the groups is 2-D. The orthogonal step runs in bfloat16 on a GPU, elsewhere in the weights' own format."""
        self.settings = settings
        together: dict[tuple, list[tuple[str, Parameter]]] = {}
        for group in groups:
            for name, weight in zip(group.names, group.tensors, strict=True):
                key = (tuple(weight.shape), group.lr, group.weight_decay)
                together.setdefault(key, []).append((name, weight))
        self.stacks = [
            _stack(shape, lr, weight_decay, part, settings.second_moment is not None)
            for (shape, lr, weight_decay), members in together.items()
            for part in _parts(members)
        ]

    @torch.no_grad()
    def step(self, rate: float, momentum: float, decay: float) -> None:
        """One update from the gradients at hand. rate and decay are factors of each stack's lr and weight decay."""
        for stack in self.stacks:
            having = [index for index, weight in enumerate(stack.weights) if weight.grad is not None]
            if len(having) == len(stack.weights):
                self._update(stack.weights, stack.momentum, stack.second, stack, rate, momentum, decay)
            elif having:
                first, second = stack.momentum[having], None if stack.second is None else stack.second[having]
                self._update([stack.weights[index] for index in having], first, second, stack, rate, momentum, decay)
                stack.momentum[having] = first
                if second is not None:
                    stack.second[having] = second

    def _update(
        self, weights: Sequence[Parameter], first: Tensor, second: Tensor | None, stack: Stack, rate: float, momentum: float, decay: float
    ) -> None:
        gradient = torch.stack([weight.grad for weight in weights])
        first.lerp_(gradient, 1.0 - momentum)
        update = gradient.lerp_(first, momentum)
        update = polar(update.bfloat16() if update.is_cuda else update, self.settings.steps).to(first.dtype)
        if second is not None:
            update = normalised(update, second, self.settings.second_moment)
        rows, columns = first.shape[-2:]
        lr = stack.lr * rate * math.sqrt(max(1.0, rows / columns))
        shrink = lr * stack.weight_decay * decay
        if shrink:
            values = torch.stack(list(weights))
            pull = values * (update * values >= 0) if self.settings.cautious else values
            update = torch.add(update.mul_(lr), pull, alpha=shrink)
            lr = 1.0
        torch._foreach_add_(list(weights), list(update.unbind(0)), alpha=-lr)

    def state(self) -> dict[str, Tensor]:
        """What the next step depends on: muon.momentum/<parameter> and muon.second/<parameter>, views of the tensors in use."""
        tensors: dict[str, Tensor] = {}
        for stack in self.stacks:
            for index, name in enumerate(stack.names):
                tensors[f"muon.momentum/{name}"] = stack.momentum[index]
                if stack.second is not None:
                    tensors[f"muon.second/{name}"] = stack.second[index]
        return tensors


def normalised(update: Tensor, second: Tensor, beta: float) -> Tensor:
    """Divide each row (or column, of wide matrices) by the root of its running mean square; the norm of each matrix stays.

    `update` and `second` are changed in place. The mean is taken over the shorter dimension.
    """
    dimension = -1 if update.shape[-2] >= update.shape[-1] else -2
    length = update.shape[dimension]
    mean_square = torch.linalg.vector_norm(update, dim=dimension, keepdim=True).square() / length
    second.lerp_(mean_square, 1.0 - beta)
    scale = second.clamp_min(SMALLEST).rsqrt()
    before = mean_square.sum(dim=(-2, -1), keepdim=True).mul(length).sqrt()
    after = mean_square.mul(scale.square()).sum(dim=(-2, -1), keepdim=True).mul(length).sqrt()
    return update.mul_(scale * (before / after.clamp_min(SMALLEST)))


def _parts(members: list[tuple[str, Parameter]]) -> list[list[tuple[str, Parameter]]]:
    """The members of a stack, in stacks that fit a CPU's cache; on a GPU in one."""
    weight = members[0][1]
    most = len(members) if weight.is_cuda else max(1, CACHED // weight.numel())
    count = -(-len(members) // most)
    return [members[number::count] for number in range(count)]


def _stack(shape: tuple[int, int], lr: float, weight_decay: float, members: list[tuple[str, Parameter]], normalise: bool) -> Stack:
    names, weights = zip(*members, strict=True)
    (rows, columns), count = shape, len(names)
    like = {"dtype": weights[0].dtype, "device": weights[0].device}
    second = torch.zeros(count, *((rows, 1) if rows >= columns else (1, columns)), **like) if normalise else None
    return Stack(names, weights, lr, weight_decay, torch.zeros(count, rows, columns, **like), second)
