"""Which optimizer holds which tensor: every trainable tensor in exactly one group, by its role.

The roles come from the ledger, the settings of a role from the recipe. A tensor that several layers or sublayers use
has one name and therefore one place here: it is updated and decayed once a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from torch import nn
from torch.nn import Parameter

from ostinato.errors import TrainingError
from ostinato.study.derive import MUON_ROLES


@dataclass(frozen=True)
class Group:
    """The tensors of one role and how they are optimised. lr and weight_decay are those of the full rate."""

    role: str
    kind: str
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    names: tuple[str, ...]
    tensors: tuple[Parameter, ...]

    @property
    def parameters(self) -> int:
        """How many numbers the group holds."""
        return sum(tensor.numel() for tensor in self.tensors)


def assign(module: nn.Module, roles: Mapping[str, str], settings: Mapping[str, Any]) -> tuple[Group, ...]:
    """Put each trainable tensor of `module` into the group of its role, in the order of `settings`.

    roles: parameter name -> role.  settings: role -> (kind, lr, betas, eps, weight_decay) as attributes.
    Raises TrainingError when a tensor would be in no group or in two, or cannot be held by the optimizer of its group.
    """
    named = _trainable(module, roles)
    groups = []
    for role in [*settings, *sorted({roles[name] for name in named} - set(settings))]:
        names = tuple(name for name in named if roles[name] == role)
        if not names:
            continue
        if role not in settings:
            raise TrainingError(
                f"no optimizer for the role {role} ({', '.join(names[:3])})",
                "every trainable tensor is in exactly one group",
                f"give recipe.groups.{role} in the study",
            )
        given, tensors = settings[role], tuple(named[name] for name in names)
        group = Group(role, given.kind, given.lr, tuple(given.betas), given.eps, given.weight_decay, names, tensors)
        if group.kind == "muon":
            _check_muon(group)
        groups.append(group)
    return tuple(groups)


def _trainable(module: nn.Module, roles: Mapping[str, str]) -> dict[str, Parameter]:
    """The trainable tensors by name, each once; a tensor with two names is known by the one that has a role."""
    tensors: dict[int, Parameter] = {}
    aliases: dict[int, list[str]] = {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        if tensor.requires_grad:
            tensors[id(tensor)] = tensor
            aliases.setdefault(id(tensor), []).append(name)
    named = {}
    for key, names in aliases.items():
        known = [name for name in names if name in roles]
        if len(known) != 1:
            what = "has no role" if not known else f"would be in {len(known)} groups or twice in one ({', '.join(known)})"
            raise TrainingError(f"the trainable tensor {names[0]} {what}", "every trainable tensor is in exactly one group",
                                "the ledger's inventory and the model disagree: name the tensor once in both")  # fmt: skip
        named[known[0]] = tensors[key]
    missing = sorted(set(roles) - {name for name, _ in module.named_parameters(remove_duplicate=False)})
    if missing:
        raise TrainingError(f"the model has no tensor {', '.join(missing[:5])}", "the model holds what the ledger counts",
                            "the ledger's inventory and the model disagree: name the tensor in both or in neither")  # fmt: skip
    return named


def _check_muon(group: Group) -> None:
    wrong = [name for name, tensor in zip(group.names, group.tensors, strict=True) if tensor.ndim != 2]
    if group.role not in MUON_ROLES or wrong:
        raise TrainingError(f"Muon cannot hold the role {group.role} ({', '.join(wrong or group.names[:3])})",
                            "Muon is for 2-D matrices inside layers: " + " and ".join(MUON_ROLES),
                            f"set recipe.groups.{group.role}.kind: adamw")  # fmt: skip


def rows(groups: tuple[Group, ...]) -> list[dict[str, Any]]:
    """One JSON-ready row a group, with the names it holds, for the run's record."""
    return [{"role": group.role, "optimizer": group.kind, "tensors": len(group.names), "parameters": group.parameters, "lr": group.lr,
             "betas": list(group.betas) if group.kind == "adamw" else None, "eps": group.eps if group.kind == "adamw" else None,
             "weight_decay": group.weight_decay, "names": list(group.names)} for group in groups]  # fmt: skip


def table(groups: tuple[Group, ...]) -> Table:
    """The groups as a table for a terminal, one line a role, with their sum."""
    view = Table(title="optimizer groups: every trainable tensor in exactly one")
    view.add_column("role")
    view.add_column("optimizer")
    for heading in ("tensors", "parameters", "lr", "betas", "eps", "weight decay"):
        view.add_column(heading, justify="right")
    for row in rows(groups):
        betas = "-" if row["betas"] is None else ", ".join(f"{beta:g}" for beta in row["betas"])
        eps = "-" if row["eps"] is None else f"{row['eps']:g}"
        view.add_row(row["role"], row["optimizer"], f"{row['tensors']:,}", f"{row['parameters']:,}", f"{row['lr']:.4g}", betas, eps,
                     f"{row['weight_decay']:g}")  # fmt: skip
    view.add_section()
    view.add_row("all", "", f"{sum(len(group.names) for group in groups):,}", f"{sum(group.parameters for group in groups):,}")
    return view
