"""The optimizers of a run as one object: AdamW (torch's) and Muon (ours), stepped together and saved together.

AdamW: Loshchilov & Hutter (2019), arXiv 1711.05101, torch's fused kernel: one call a tensor on a CPU, one call for all
on a GPU. The rate, momentum and decay of a step come from outside, as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import Parameter

from ostinato.errors import StoreError
from ostinato.study import records
from ostinato.train.groups import Group
from ostinato.train.muon import Muon
from ostinato.train.schedules import Settings

ADAMW_STATE = ("step", "exp_avg", "exp_avg_sq")


class Optimizers:
    """Holds every trainable tensor of a model, each in one optimizer."""

    def __init__(self, groups: tuple[Group, ...], muon: records.Muon):
        self.groups = groups
        adamw = [group for group in groups if group.kind == "adamw"]
        self._names: dict[Parameter, str] = {}
        for group in adamw:
            self._names |= dict(zip(group.tensors, group.names, strict=True))
        settings = [{"params": list(group.tensors), "betas": group.betas, "eps": group.eps} for group in adamw]
        self._adamw = torch.optim.AdamW(settings, fused=True) if adamw else None
        matrices = [(name, tensor, group.lr, group.weight_decay) for group in groups if group.kind == "muon"
                    for name, tensor in zip(group.names, group.tensors, strict=True)]  # fmt: skip
        self._muon = Muon(matrices, muon) if matrices else None
        self._full = [(group.lr, group.weight_decay) for group in adamw]
        self.tensors = [tensor for group in groups for tensor in group.tensors]

    @property
    def kernels(self) -> str:
        """What does the work, for the log."""
        parts = [f"AdamW fused over {len(self._names)} tensors"] if self._adamw is not None else []
        if self._muon is not None:
            products = "bfloat16" if self.tensors[0].is_cuda else str(self.tensors[0].dtype).removeprefix("torch.")
            parts.append(f"Muon batched in {len(self._muon.stacks)} stacks, products in {products}")
        return ", ".join(parts)

    def step(self, settings: Settings) -> None:
        """Move every tensor that has a gradient once; a tensor without one is neither moved nor decayed."""
        if self._adamw is not None:
            for group, (lr, weight_decay) in zip(self._adamw.param_groups, self._full, strict=True):
                group["lr"], group["weight_decay"] = lr * settings.rate, weight_decay * settings.decay
            self._adamw.step()
        if self._muon is not None:
            self._muon.step(settings.rate, settings.momentum, settings.decay)

    def clear_gradients(self) -> None:
        """Forget the gradients: absent, not zero."""
        for tensor in self.tensors:
            tensor.grad = None

    def state(self) -> dict[str, Tensor]:
        """Everything that the next step depends on, named <optimizer>.<what>/<parameter>; the tensors in use, not copies."""
        tensors = dict(self._muon.state()) if self._muon is not None else {}
        for parameter, name in self._names.items():
            for key, value in self._adamw.state.get(parameter, {}).items():
                tensors[f"adamw.{key}/{name}"] = value
        return tensors

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state() of the same groups. Raises StoreError when a tensor is missing, unknown or of another shape."""
        slots = self._muon.state() if self._muon is not None else {}
        for parameter, name in self._names.items():
            if f"adamw.step/{name}" in state:
                self._adamw.state[parameter] = {
                    "step": torch.zeros((), dtype=torch.float32, device=parameter.device if parameter.is_cuda else "cpu"),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
                slots |= {f"adamw.{key}/{name}": self._adamw.state[parameter][key] for key in ADAMW_STATE}
            else:
                self._adamw.state.pop(parameter, None)
        wrong = sorted(set(slots) ^ set(state)) or sorted(name for name, slot in slots.items() if slot.shape != state[name].shape)
        if wrong:
            raise StoreError(f"the optimizer state does not fit at {wrong[0]}", "a run goes on from the state of the same optimizer groups",
                             "train it again from the start, or with the version that wrote the checkpoint")  # fmt: skip
        with torch.no_grad():
            for name, slot in slots.items():
                slot.copy_(state[name])
