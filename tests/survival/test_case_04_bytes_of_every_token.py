"""Bytes are those of the tokens, never those of their decoded text; special tokens have neither bytes nor losses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ostinato.data.prepare import prepare
from ostinato.data.targets import targets
from ostinato.data.vocabulary import load, train
from ostinato.study.records import Data, Evaluate, Tokenizer

TEXT = "i love borzois! 🐕"
STORIES = Path(__file__).parents[2].parent / "shared" / "data" / "models" / "stories260K" / "tokenizer.json"


@pytest.mark.parametrize("text,size", [(TEXT, 20), ("é", 2), ("漢字", 6), ("a\u0301", 3), ("👩‍👩‍👧", 18), ("\x00\x7f\u0080", 4)])
def test_parts_of_characters_have_their_own_bytes(text, size):
    vocabulary = train(258, ["plain ascii only " * 3])  # every byte beyond ASCII is a token of its own
    ids = vocabulary.encode(text)
    assert vocabulary.token_bytes[ids].sum() == size == len(text.encode())
    assert vocabulary.decode(ids) == text
    decoded_one_by_one = sum(len(vocabulary.decode([token]).encode()) for token in ids)
    assert (decoded_one_by_one > size) == (not text.isascii())  # what must not be counted: a lone part decodes to U+FFFD, 3 bytes


def test_the_published_case_decoded_token_by_token_would_be_28():
    vocabulary = train(258, ["plain ascii only " * 3])
    assert sum(len(vocabulary.decode([token]).encode()) for token in vocabulary.encode(TEXT)) == 28


@pytest.mark.skipif(not STORIES.exists(), reason="needs ../shared/data/models/stories260K")
def test_bytes_of_a_tokenizer_with_byte_fallback():
    vocabulary = load(STORIES)
    assert vocabulary.token_bytes[vocabulary.encode(TEXT)].sum() == 20 + vocabulary.prefix


@pytest.mark.parametrize("windows", ["documents", "rows"])
def test_specials_are_out_of_the_targets_and_the_bytes(tmp_path, windows):
    documents = [f"{TEXT} {i}" for i in range(40)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    prepared = prepare(Data(corpus=str(tmp_path / "a.jsonl"), tokenizer=Tokenizer(bpe=260), packing="contiguous"), tmp_path / "cache")
    found = targets(prepared, "train", Evaluate(windows=windows), 10)
    assert prepared.bos not in found.token
    assert (found.bytes == np.array([len(prepared.vocabulary.token_texts[token]) for token in found.token])).all()
    if windows == "documents":
        assert found.bytes.sum() == prepared.manifest["parts"]["train"]["bytes"]


@pytest.mark.skipif(not STORIES.exists(), reason="needs ../shared/data/models/stories260K")
def test_a_space_that_the_tokenizer_puts_first_is_no_byte_of_the_text(tmp_path):
    documents = [f"Once upon a time {TEXT} {i}" for i in range(30)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    prepared = prepare(Data(corpus=str(tmp_path / "a.jsonl"), tokenizer=Tokenizer(file=str(STORIES))), tmp_path / "cache")
    found = targets(prepared, "train", Evaluate(), 16)
    assert prepared.manifest["parts"]["train"]["inexact"] == 0
    assert found.bytes.sum() == prepared.manifest["parts"]["train"]["bytes"]
