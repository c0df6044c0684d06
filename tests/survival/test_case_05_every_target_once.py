"""Evaluation windows: every target is scored exactly once, and every window has exactly one BOS, in front."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ostinato.data.prepare import prepare
from ostinato.data.targets import document_windows, targets
from ostinato.study.records import Data, Evaluate, Tokenizer

STORIES = Path(__file__).parents[2].parent / "shared" / "data" / "models" / "stories260K" / "tokenizer.json"


def test_twenty_tokens_window_ten_stride_five():
    windows = document_windows(20, 10, 5)
    assert windows == [(0, 1, 11), (5, 11, 16), (9, 16, 20)]
    assert [position for _, first, end in windows for position in range(first, end)] == list(range(1, 20))


@pytest.mark.parametrize("length", [0, 1])
def test_a_document_of_one_token_has_no_targets(length):
    assert document_windows(length, 10, 5) == []


def make(tmp_path, documents, tokenizer):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    return prepare(Data(corpus=str(tmp_path / "a.jsonl"), tokenizer=tokenizer), tmp_path / "cache")


def check(prepared, context, stride):
    found = targets(prepared, "train", Evaluate(context=context, stride=stride), 999)
    windows, where = found.windows, found.where
    real = np.arange(windows.shape[1]) <= found.lengths[:, None]  # inputs and the last target; behind them the filling
    assert (windows[:, 0] == prepared.bos).all() and ((windows == prepared.bos) & real).sum() == len(windows)
    assert np.sort(where[where >= 0]).tolist() == list(range(len(found)))
    assert (where[~real[:, 1:]] == -1).all()
    stream, starts = prepared.tokens("train"), prepared.doc_starts("train")
    assert len(found) == len(stream) - (len(starts) - 1)
    assert "exactly one BOS" in found.policy and f"{stride} new targets" in found.policy


def test_windows_over_real_shards(tmp_path):
    prepared = make(tmp_path, ["x" * n + str(n) for n in range(1, 60)], Tokenizer(bpe=258))
    check(prepared, 10, 5)
    check(prepared, 4, 1)


@pytest.mark.skipif(not STORIES.exists(), reason="needs ../shared/data/models/stories260K")
def test_a_tokenizer_that_adds_bos_itself_does_not_double_it(tmp_path):
    prepared = make(tmp_path, [f"Once upon a time there were {n} dogs. " * n for n in range(1, 20)], Tokenizer(file=str(STORIES)))
    assert prepared.tokenizer().encode("Once").ids[0] == prepared.bos  # it does add one, left to itself
    stream, starts = prepared.tokens("train"), prepared.doc_starts("train")
    assert (stream == prepared.bos).sum() == len(starts) - 1
    check(prepared, 10, 5)


def test_documents_without_a_single_target_do_not_crash(tmp_path):
    """A tokenizer that drops what it does not know leaves a document of BOS alone."""
    vocab = {character: i for i, character in enumerate("ab")}
    source = {"model": {"type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": True}, "added_tokens": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(source))
    prepared = make(tmp_path, ["zzz", "qqq", "xyz"], Tokenizer(file=str(tmp_path / "tokenizer.json")))
    assert prepared.manifest["parts"]["train"] == {"documents": 1, "tokens": 1, "bytes": 3, "words": 1, "inexact": 1}
    found = targets(prepared, "train", Evaluate(), 10)
    assert len(found) == 0 and len(found.lengths) == 0 and list(found.batches(100)) == []
    assert found.windows.shape == (0, 1) and found.where.shape == (0, 0)
