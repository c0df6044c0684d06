"""Names that a package gives when they are first asked for, so that importing it waits for nothing that is not used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def given_when_asked(package: str, where: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.  where: name -> the module of the package that has it.  AttributeError for any other name."""

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{where[name]}"), name)

    return get
