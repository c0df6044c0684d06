"""Text to tokens to batches and targets: corpora, tokenizer, shards, packing, the batch plan, evaluation windows, floors."""

from __future__ import annotations

from ostinato.data.batches import BatchPlan, document_ids
from ostinato.data.floors import floors
from ostinato.data.packing import rows
from ostinato.data.prepare import default_cache, find_prepared, prepare
from ostinato.data.prepared import Prepared
from ostinato.data.targets import Targets, targets

__all__ = ["BatchPlan", "Prepared", "Targets", "default_cache", "document_ids", "find_prepared", "floors", "prepare", "rows", "targets"]
