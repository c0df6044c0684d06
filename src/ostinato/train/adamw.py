"""AdamW for everything that is not a matrix inside a layer: tables, the head, norms, scalars, convolutions.

Loshchilov & Hutter (2019), arXiv 1711.05101: Adam with bias correction, weight decay apart from the gradient. The arithmetic is
torch's fused kernel, called directly: torch.optim.AdamW calls the same one, but making it imports torch's compiler, which
costs every run more than a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter

from ostinato.train.groups import Group


@dataclass(frozen=True)
class Held:
    """A tensor and its state. step: updates so far, a float32 scalar as the kernel wants it. first, second: moments, shaped like it."""

    name: str
    tensor: Parameter
    step: Tensor
    first: Tensor
    second: Tensor


class AdamW:
    """Updates the tensors of groups in place. A tensor that got no gradient in a step is neither moved nor decayed in it."""

    def __init__(self, groups: Sequence[Group]):
        self.groups = [(group, [_held(name, tensor) for name, tensor in zip(group.names, group.tensors, strict=True)]) for group in groups]

    @property
    def tensors(self) -> int:
        """How many it holds."""
        return sum(len(held) for _, held in self.groups)

    @torch.no_grad()
    def step(self, rate: float, decay: float) -> None:
        """One update from the gradients at hand. rate and decay are factors of each group's lr and weight decay."""
        for group, members in self.groups:
            held = [one for one in members if one.tensor.grad is not None]
            if not held:
                continue
            steps = [one.step for one in held]
            torch._foreach_add_(steps, 1.0)
            torch._fused_adamw_(
                [one.tensor for one in held], [one.tensor.grad for one in held], [one.first for one in held], [one.second for one in held],
                [], steps, lr=group.lr * rate, beta1=group.betas[0], beta2=group.betas[1], weight_decay=group.weight_decay * decay,
                eps=group.eps, amsgrad=False, maximize=False)  # fmt: skip

    def state(self) -> dict[str, Tensor]:
        """What the next step depends on: adamw.step, adamw.first and adamw.second/<parameter>, the tensors in use."""
        return {
            f"adamw.{what}/{one.name}": getattr(one, what)
            for _, held in self.groups
            for one in held
            for what in ("step", "first", "second")
        }


def _held(name: str, tensor: Parameter) -> Held:
    step = torch.zeros((), dtype=torch.float32, device=tensor.device)
    return Held(name, tensor, step, torch.zeros_like(tensor, requires_grad=False), torch.zeros_like(tensor, requires_grad=False))
