"""Odd text comes back exactly, or meets one documented policy that is counted; time is at most about linear in the text."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ostinato.data.policies import RULES
from ostinato.data.prepare import prepare
from ostinato.data.vocabulary import load, train
from ostinato.errors import DataError
from ostinato.study.records import Data, Tokenizer

STORIES = Path(__file__).parents[2].parent / "shared" / "data" / "models" / "stories260K" / "tokenizer.json"
PLAIN = [f"plain document number {i}, long enough to be told apart" for i in range(40)]


def through(path: Path, cache: Path, **given):
    """All documents after preparing, and the counts of the policies that were met."""
    prepared = prepare(Data(corpus=str(path), tokenizer=Tokenizer(bpe=258), **given), cache)
    found = []
    for part in ("train", "validation", "held_out"):
        tokens, starts = prepared.tokens(part), prepared.doc_starts(part)
        assert (tokens == prepared.bos).sum() == len(starts) - 1
        found += [prepared.decode(tokens[starts[i] : starts[i + 1]]) for i in range(len(starts) - 1)]
        assert prepared.manifest["parts"][part]["inexact"] == 0
    counts = prepared.manifest["policies"]["counts"]
    assert set(counts) == set(RULES) == set(prepared.manifest["policies"]["rules"])
    return found, {name: count for name, count in counts.items() if count and name != "documents"}


# as written -> as trained on (None: dropped), and the policies that count it
BYTES = [
    (b"", None, {"empty": 1}),
    (b" \n\t\r\n", None, {"empty": 1}),
    (b"\xef\xbb\xbf", None, {"bom": 1, "empty": 1}),
    (b"\xef\xbb\xbfafter a mark", "after a mark", {"bom": 1}),
    (b"a\x00b", "a\x00b", {"nul": 1}),
    (b"one\r\ntwo\nthree\rfour", "one\r\ntwo\nthree\rfour", {"carriage_return": 1}),
    (b"caf\xe9 \xff\xfe", "caf\ufffd \ufffd\ufffd", {"invalid_utf8": 1}),
    (b"cut \xf0\x9f\x90", "cut \ufffd\ufffd\ufffd", {"invalid_utf8": 1}),
    (b"\xed\xa0\x80 as bytes", "\ufffd\ufffd\ufffd as bytes", {"invalid_utf8": 1}),
    (b"the literal <|bos|> is text", "the literal <|bos|> is text", {"special_literal": 1}),
    (b"<|bos|>", "<|bos|>", {"special_literal": 1}),
    ("a mark \ufeff inside, \u2028, \ufffd, 🐕".encode(), "a mark \ufeff inside, \u2028, \ufffd, 🐕", {}),
]


@pytest.mark.parametrize("raw,expected,counted", BYTES)
def test_text_files(tmp_path, raw, expected, counted):
    folder = tmp_path / "texts"
    folder.mkdir()
    for i, text in enumerate(PLAIN):
        (folder / f"{i:02}.txt").write_text(text)
    (folder / "odd.txt").write_bytes(raw)
    found, counts = through(folder, tmp_path / "cache")
    assert sorted(found) == sorted(PLAIN + ([expected] if expected else []))
    assert counts == counted


# in JSON, escapes can spell what bytes cannot
STRINGS = [
    (r'"\ud800 alone"', "\ufffd alone", {"lone_surrogate": 1}),
    (r'"\ud83d\udc15 a pair"', "🐕 a pair", {}),
    (r'"a\u0000b"', "a\x00b", {"nul": 1}),
    (r'"\ufeffafter a mark"', "after a mark", {"bom": 1}),
    (r'"\ufeff"', None, {"bom": 1, "empty": 1}),
    (r'""', None, {"empty": 1}),
    (r"null", None, {"missing": 1}),
    (r'"one\r\ntwo\rthree"', "one\r\ntwo\rthree", {"carriage_return": 1}),
    (r'"<|bos|><|bos|>"', "<|bos|><|bos|>", {"special_literal": 1}),
    (r'"plain document number 3, long enough to be told apart"', PLAIN[3], {"duplicate": 1}),
]


@pytest.mark.parametrize("literal,expected,counted", STRINGS)
def test_jsonl(tmp_path, literal, expected, counted):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in PLAIN) + f'{{"text": {literal}}}\n')
    found, counts = through(path, tmp_path / "cache")
    assert sorted(found) == sorted(PLAIN + ([expected] if expected else []))
    assert counts == counted


def test_invalid_bytes_inside_json(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(json.dumps({"text": text}).encode() + b"\n" for text in PLAIN) + b'{"text": "caf\xe9"}\n')
    found, counts = through(path, tmp_path / "cache")
    assert "caf\ufffd" in found and counts == {"invalid_utf8": 1}


def test_parquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    raw = [text.encode() for text in PLAIN] + [b"caf\xe9", b"\xef\xbb\xbfmark", b"a\x00b", b"", None]
    column = pa.array(raw, pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    found, counts = through(tmp_path / "a.parquet", tmp_path / "cache")
    assert {"caf\ufffd", "mark", "a\x00b"} <= set(found) and len(found) == len(PLAIN) + 3
    assert counts == {"invalid_utf8": 1, "bom": 1, "nul": 1, "empty": 1, "missing": 1}


def test_a_corpus_of_nothing_but_empty_documents(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf \n")
    with pytest.raises(DataError, match="holds no text: 1 documents, all empty"):
        through(tmp_path / "a.txt", tmp_path / "cache")
    (tmp_path / "b.txt").write_bytes(b"one single document")
    with pytest.raises(DataError, match=r"1 different document(.|\n)*separator"):
        through(tmp_path / "b.txt", tmp_path / "cache")


def test_a_text_that_is_full_of_the_literal_never_teaches_it_to_the_tokenizer():
    vocabulary = train(320, ["<|bos|>" * 2000, *PLAIN])
    text = "<|bos|>" * 5
    assert vocabulary.bos not in vocabulary.encode(text) and vocabulary.decode(vocabulary.encode(text)) == text


@pytest.mark.parametrize("piece", ["^", " ", "\n", "a", "é", " \n", "1", "🐕", "^ ", "\x00", "'s"])
def test_a_great_many_of_the_same_take_linear_time_and_come_back(piece):
    vocabularies = [train(300, PLAIN)] + ([load(STORIES)] if STORIES.exists() else [])
    for vocabulary in vocabularies:
        seconds = []
        for count in (100_000, 1_000_000) if piece == "^" else (30_000, 300_000):
            text = piece * (count // len(piece))
            began = time.process_time()
            ids = vocabulary.encode(text)
            seconds.append(time.process_time() - began)
            assert vocabulary.decode_bytes(ids)[vocabulary.prefix :] == text.encode()
        assert seconds[1] < 40 * max(seconds[0], 0.03)  # ten times the text; a square would be a hundred times


def test_training_on_a_million_of_the_same_takes_linear_time():
    seconds = []
    for count in (100_000, 1_000_000):
        began = time.process_time()
        train(280, ["^" * count, " " * count, "^!" * (count // 2), *PLAIN])
        seconds.append(time.process_time() - began)
    assert seconds[1] < 40 * max(seconds[0], 0.05)
