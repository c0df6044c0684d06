"""A trainer of the small arm on one CPU thread."""

from __future__ import annotations

import pytest


@pytest.fixture
def make_trainer(small_arm, small_text):
    """make_trainer(arm=None, seed=1) -> Trainer."""
    from ostinato.train.machine import choose
    from ostinato.train.trainer import Trainer

    return lambda arm=None, seed=1: Trainer(arm or small_arm(), seed, small_text, choose("cpu", "float32", 1, False))
