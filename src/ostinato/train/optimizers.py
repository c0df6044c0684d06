"""The optimizers of a run as one object: AdamW and Muon, stepped together and saved together.

The rate, momentum and decay of a step come from outside, as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ostinato.errors import StoreError
from ostinato.study import records
from ostinato.train.adamw import AdamW
from ostinato.train.groups import Group
from ostinato.train.muon import Muon
from ostinato.train.schedules import Settings


class Optimizers:
    """Holds every trainable tensor of a model, each in one optimizer."""

    def __init__(self, groups: tuple[Group, ...], muon: records.Muon):
        self.groups = groups
        self.tensors = [tensor for group in groups for tensor in group.tensors]
        self.adamw = AdamW([group for group in groups if group.kind == "adamw"])
        self.muon = Muon([group for group in groups if group.kind == "muon"], muon)

    @property
    def kernels(self) -> str:
        """What does the work, for the log."""
        parts = [f"AdamW fused over {self.adamw.tensors} tensors"] if self.adamw.tensors else []
        if self.muon.stacks:
            products = "bfloat16" if self.tensors[0].is_cuda else str(self.tensors[0].dtype).removeprefix("torch.")
            parts.append(f"Muon batched in {len(self.muon.stacks)} stacks, products in {products}")
        return ", ".join(parts)

    def step(self, settings: Settings) -> None:
        """Move every tensor that has a gradient once; a tensor without one is neither moved nor decayed."""
        self.adamw.step(settings.rate, settings.decay)
        self.muon.step(settings.rate, settings.momentum, settings.decay)

    def clear_gradients(self) -> None:
        """Forget the gradients: absent, not zero."""
        for tensor in self.tensors:
            tensor.grad = None

    def state(self) -> dict[str, Tensor]:
        """Everything that the next step depends on, named <optimizer>.<what>/<parameter>; the tensors in use, not copies."""
        return {**self.adamw.state(), **self.muon.state()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state() of the same groups. Raises StoreError when a tensor is missing, unknown or of another shape."""
        own = self.state()
        wrong = sorted(set(own) ^ set(state)) or sorted(name for name, tensor in own.items() if tensor.shape != state[name].shape)
        if wrong:
            raise StoreError(f"the optimizer state does not fit at {wrong[0]}", "a run goes on from the state of the same optimizer groups",
                             "train it again from the start, or with the version that wrote the checkpoint")  # fmt: skip
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(state[name])
