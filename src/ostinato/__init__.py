"""ostinato: controlled experiments on language models that apply their layers more than once."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["Study", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Study":
        from ostinato.api import Study

        return Study
    raise AttributeError(f"module 'ostinato' has no attribute {name!r}")
