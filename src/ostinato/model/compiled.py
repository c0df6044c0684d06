"""Compiled code, one graph per kind of application and one for the head; the loop over applications stays in Python.

A graph takes parameters, scalars, masks and angles as inputs: whatever number of layers and passes are of one kind, it is compiled once,
and the compiler's time does not grow with depth. (torch's "regional compilation".) Each kind has a code object of its own, because
torch keeps what it compiled by code object, tries all of it in turn at every call, and gives up at eight.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import FunctionType

import torch


class Compiled:
    """The compiled functions of one decoder, made when first asked for.  backend: of torch.compile."""

    def __init__(self, backend: str | Callable = "inductor"):
        self.backend = backend
        self.functions: dict[Hashable, Callable] = {}

    def of(self, function: Callable, kind: Hashable) -> Callable:
        """`function`, compiled for calls of this kind. A graph break or too many shapes are errors, never a silent way back to eager."""
        if (function, kind) not in self.functions:
            self.functions[function, kind] = torch.compile(_copy(function), backend=self.backend, fullgraph=True, dynamic=False)
        return self.functions[function, kind]


def _copy(function: Callable) -> Callable:
    """The same function with a code object of its own."""
    copy = FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy
