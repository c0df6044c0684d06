"""Weights on disk: one safetensors file, every tensor once, under the names of the inventory.

What a wrapper adds to a name (torch.compile's `_orig_mod.`, a data-parallel `module.`) never reaches the file: the wrapper is
taken off first. A tied head and a re-applied or tied sublayer are one parameter with one name, so their identity holds after loading.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from ostinato.errors import StoreError
from ostinato.files import write_atomic


def unwrap(module: nn.Module) -> nn.Module:
    """The module inside any wrappers."""
    while wrapper := next((name for name in ("_orig_mod", "module") if name in module._modules), None):
        module = module._modules[wrapper]
    return module


def weights(decoder: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, by its name in the inventory."""
    return {name: parameter.detach() for name, parameter in unwrap(decoder).named_parameters()}


def save_weights(decoder: nn.Module, path: Path | str) -> None:
    """Write all parameters; the file appears whole or not at all."""
    write_atomic(Path(path), save({name: tensor.contiguous().cpu() for name, tensor in weights(decoder).items()}))


def load_weights(decoder: nn.Module, path: Path | str) -> None:
    """Fill a decoder (also one on the meta device, which then lives on the CPU) from a file of exactly its tensors.

    Raises StoreError when the file cannot be read, or a name is missing or extra, or a shape or dtype differs.
    """
    decoder, path = unwrap(decoder), Path(path)
    try:
        given = load_file(path)
    except (OSError, SafetensorError) as error:
        raise StoreError(f"{path} cannot be read as weights ({error})", "weights are one whole safetensors file",
                         "move the run's folder away and give `ostinato run` again: "
                         "it is trained anew, to the same losses") from None  # fmt: skip
    own = weights(decoder)
    wrong = [f"{name} is missing" for name in own if name not in given]
    wrong += [f"{name} is not a tensor of this model" for name in given if name not in own]
    wrong += [f"{name} is {_kind(given[name])} and not {_kind(own[name])}" for name in own
              if name in given and _kind(given[name]) != _kind(own[name])]  # fmt: skip
    if wrong:
        more = f", and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise StoreError(f"{path} does not fit the model: {', '.join(wrong[:5])}{more}", "a file holds exactly the tensors of its model",
                         "load it into the model that it was saved from")  # fmt: skip
    if any(tensor.is_meta for tensor in own.values()):
        decoder.load_state_dict(given, assign=True)
        return
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(given[name])


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} [{', '.join(map(str, tensor.shape))}]"
