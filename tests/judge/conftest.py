"""Measurements that a test gives by hand, and predictions of few words."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ostinato.claims import parse_expression
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.value import Residuals, Value


class Numbers:
    """numbers: {the text of a measure: its Value, a plain number, or why it is not estimable}."""

    def __init__(self, **numbers):
        self.arms, self.reference = tuple(numbers), "plain"
        self.numbers = {str(parse_expression(text if "(" in text else f"gain({text})")): value for text, value in numbers.items()}

    def value(self, term):
        found = self.numbers[str(term)]
        if isinstance(found, str):
            raise NotEstimable(found)
        return found if isinstance(found, Value) else _sure(found)


def _sure(point, spread=1e-4):
    """Known to `spread` by 20 documents and three seeds."""
    documents = Residuals(np.arange(20, dtype=np.uint64), spread * np.linspace(-1, 1, 20) / 2)
    return Value(point, {1: -spread, 2: 0.0, 3: spread}, documents, 19.0, unit="nats/token")


def _prediction(supported, killed=None, between=None, name="p1", guess=None):
    def named(given, word):
        return given if isinstance(given, dict) else {} if given is None else {word: given}

    return SimpleNamespace(name=name, claim="", supported=named(supported, "SUPPORTED"), killed=named(killed, "KILLED"),
                           between=named(between or "otherwise", "BETWEEN"), guess=guess or {})  # fmt: skip


@pytest.fixture(scope="session")
def numbers():
    """numbers(a=sure(0.03), b=0.02, c="not run"): gains by arm, or by the text of any measure."""
    return Numbers


@pytest.fixture(scope="session")
def sure():
    """sure(point, spread=1e-4): a Value of that noise."""
    return _sure


@pytest.fixture(scope="session")
def prediction():
    """prediction(supported, killed, between, name, guess): conditions as texts or {own word: text}."""
    return _prediction
