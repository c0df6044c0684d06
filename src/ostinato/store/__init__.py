"""Runs on disk: found by fingerprint, written atomically, locked, and open to SQL. No torch, and DuckDB only when a query is asked."""

from __future__ import annotations

from ostinato.lazy import given_when_asked
from ostinato.store.environment import environment, usable_cores
from ostinato.store.losses import LossTable, TargetTable
from ostinato.store.runs import STATES, RunFolder
from ostinato.store.store import Store
from ostinato.store.studies import StudyFolder, StudyVersion, evaluation_key, study_hash

__all__ = ["STATES", "VIEWS", "Answer", "LossTable", "RunFolder", "Store", "StudyFolder", "StudyVersion", "TargetTable",
           "environment", "evaluation_key", "study_hash", "usable_cores"]  # fmt: skip
__getattr__ = given_when_asked(__name__, {"VIEWS": "query", "Answer": "query"})
