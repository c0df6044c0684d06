"""ostinato: controlled experiments on language models that apply their layers more than once."""

from __future__ import annotations

from typing import Any

__version__ = "0.3.0"
_VERBS = ("Study", "calibrate", "check", "corpora", "draw_schedule", "find_run", "generate", "keys", "list_runs", "list_studies", "new",
          "open_store", "query")  # fmt: skip
__all__ = [*_VERBS, "__version__"]


def __getattr__(name: str) -> Any:
    """What `ostinato.api` offers, imported when it is first asked for."""
    if name in _VERBS:
        from ostinato import api

        return getattr(api, name)
    raise AttributeError(f"module 'ostinato' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
