"""Text to tokens to batches and targets: corpora, tokenizer, shards, packing, the batch plan, evaluation windows, floors.

Names are imported when they are first asked for: a plan of a text that is not here needs no arrays. `prepare`, `targets` and `floors`
are functions in the modules of the same name.
"""

from __future__ import annotations

from ostinato.lazy import given_when_asked

_WHERE = {
    "BatchPlan": "batches", "Prepared": "prepared", "Targets": "targets", "document_ids": "batches",
    "find_prepared": "prepare", "rows": "packing",
}  # fmt: skip
__all__ = list(_WHERE)
__getattr__ = given_when_asked(__name__, _WHERE)
