"""A small corpus on disk, prepared in both packings, and makers of others."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ostinato.data import Prepared
from ostinato.data.prepare import prepare
from ostinato.study.records import Data, Tokenizer

WORDS = ("the", "a", "layer", "runs", "again", "loss", "falls", "token", "by", "café", "naïve", "🐕", "x1", "2024", "(twice)", "--", "!?")


def _texts(count: int, seed: int = 0, longest: int = 120) -> list[str]:
    draw = random.Random(seed)
    return [f"{i} " + " ".join(draw.choices(WORDS, k=draw.randint(3, longest))) + "\n" for i in range(count)]


def _write_jsonl(path: Path, documents: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents), encoding="utf-8")
    return path


def _make(corpus: Path, cache: Path, **given) -> Prepared:
    return prepare(Data(**{"corpus": str(corpus), "tokenizer": Tokenizer(bpe=300), "validation": 0.1, "held_out": 0.1, **given}), cache)


@pytest.fixture(scope="session")
def texts() -> Callable[..., list[str]]:
    """texts(count, seed=0, longest=120): different made-up documents of three to `longest` words."""
    return _texts


@pytest.fixture(scope="session")
def write_jsonl() -> Callable[[Path, list[str]], Path]:
    return _write_jsonl


@pytest.fixture(scope="session")
def make() -> Callable[..., Prepared]:
    """make(corpus, cache, **keys of data) -> Prepared; 300 entries and parts of a tenth unless said otherwise."""
    return _make


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="session")
def corpus(folder: Path) -> Path:
    return _write_jsonl(folder / "corpus.jsonl", _texts(200))


@pytest.fixture(scope="session")
def contiguous(corpus: Path, folder: Path) -> Prepared:
    return _make(corpus, folder / "cache", packing="contiguous")


@pytest.fixture(scope="session")
def best_fit(corpus: Path, folder: Path) -> Prepared:
    return _make(corpus, folder / "cache", packing="best-fit", buffer=16)
