"""Text to tokens to batches and targets: corpora, tokenizer, shards, packing, the batch plan, evaluation windows, floors.

Names are imported when they are first asked for: a plan of a text that is not here needs no arrays. `prepare`, `targets` and `floors`
are functions in the modules of the same name.
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "BatchPlan": "batches", "Prepared": "prepared", "Targets": "targets", "document_ids": "batches",
    "find_prepared": "prepare", "rows": "packing",
}  # fmt: skip
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'ostinato.data' has no attribute {name!r}")
    return getattr(importlib.import_module(f"ostinato.data.{_WHERE[name]}"), name)
