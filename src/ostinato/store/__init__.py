"""Runs on disk: found by fingerprint, written atomically, locked, and open to SQL. No torch."""

from ostinato.store.environment import environment, usable_cores
from ostinato.store.losses import LossTable, TargetTable
from ostinato.store.query import VIEWS, Answer
from ostinato.store.runs import STATES, RunFolder
from ostinato.store.store import Store
from ostinato.store.studies import StudyFolder, StudyVersion, evaluation_key, study_hash

__all__ = ["STATES", "VIEWS", "Answer", "LossTable", "RunFolder", "Store", "StudyFolder", "StudyVersion", "TargetTable",
           "environment", "evaluation_key", "study_hash", "usable_cores"]  # fmt: skip
